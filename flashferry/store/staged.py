"""What the last run that brought a device its image has of it: how it was when it was staged. Read-only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import Kind
from flashferry.core.json_access import Node, parsed
from flashferry.model.states import Outcome, Restored
from flashferry.store.reader import reading
from flashferry.store.tables import attempts_of, runs_of, staged_rows

_THERE = frozenset({Outcome.DONE.value, Outcome.ALREADY_THERE.value})


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A device as it was when an image was staged to it.

    Attributes:
        run_id: The run.
        image: Name of the image.
        at: When its record was written last, ISO 8601, UTC.
        serial_number: Its serial number, or None where the run has none.
        release: What it ran, or None.
        members: Numbers of its members; empty for a device that was no stack.
        conditions: What its readiness was then, by condition and place; empty where the run did not ask.
    """

    run_id: str
    image: str
    at: str
    serial_number: str | None
    release: str | None
    members: tuple[int, ...] = ()
    conditions: tuple[tuple[str, str, str], ...] = ()


def last_staged(directory: Path, hosts: Collection[str]) -> dict[tuple[str, str], Staged]:
    """Return how devices were when they were staged last, by name and image.

    Args:
        directory: State directory; need not exist.
        hosts: Names of the devices.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    found: dict[tuple[str, str], Staged] = {}
    with reading(directory) as database:
        for row in staged_rows(database) if database is not None else ():
            record = Node(parsed(row.record) or {})
            if row.host not in hosts or not row.image or record.text("outcome") not in _THERE:
                continue
            check = record.at("check")
            if not check:
                # An activation, which looks at other things; what it was staged with holds on.
                continue
            found[row.host, row.image] = Staged(
                run_id=row.run_id,
                image=row.image,
                at=row.updated_at,
                serial_number=check.text("facts", "serial_number"),
                release=check.text("version", "release"),
                members=tuple(number for one in check.list("version", "members") if (number := one.whole("number"))),
                conditions=tuple(
                    (one.text("name") or "", one.text("place") or "", one.text("met") or "")
                    for one in record.list("readiness", "conditions")
                ),
            )
    return found


def dead_man_proven(directory: Path) -> frozenset[str]:
    """Return the devices that took an applet in the last run that had one for them, and were proven restored.

    Args:
        directory: State directory; need not exist.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    took: dict[str, bool] = {}
    with reading(directory) as database:
        for row in staged_rows(database) if database is not None else ():
            record = Node(parsed(row.record) or {})
            if (is_armed := record.flag("dead_man", "is_armed")) is not None:
                took[row.host] = is_armed and record.text("restored") == Restored.RESTORED.value
    return frozenset(host for host, is_proven in took.items() if is_proven)


def undelivered_copy(directory: Path, host: str, image: str) -> str | None:
    """Return the run whose server did not deliver an image that a device reported as copied; None where there is none.

    What lies on such a device by that name is proven by the device's word alone, which was found false once; a copy
    that was delivered since stands for itself.

    Args:
        directory: State directory; need not exist.
        host: Name of the device.
        image: Name of the image.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    with reading(directory) as database:
        for row in runs_of(database, host) if database is not None else ():
            assert database is not None
            if row.image != image:
                continue
            former = [one.record for one in attempts_of(database, row.run_id) if one.host == host]
            for text in (row.record, *reversed(former)):
                record = Node(parsed(text) or {})
                if record.text("outcome") == Outcome.DONE.value:
                    return None
                if record.text("failure", "kind") == Kind.NOT_DELIVERED.value:
                    return row.run_id
    return None
