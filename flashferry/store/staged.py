"""Results of earlier runs about an image on a device: its state when staged, and doubts. Read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from msgspec import Struct

from flashferry.core.errors import Kind
from flashferry.core.json_access import Node, parsed
from flashferry.model.doubts import Doubted, Remembered
from flashferry.model.states import GOOD_OUTCOMES, Outcome, Restored
from flashferry.store.leases import stored_members
from flashferry.store.reader import reading
from flashferry.store.tables import attempts_of, doubtful_devices, image_rows, staged_rows
from tasks.add import AddOutcome

_ADDED = frozenset({AddOutcome.ADDED.value, AddOutcome.RUNS_IT.value})
"""An image that is only listed as added proves nothing: the add may have failed."""


class Staged(Struct, frozen=True, kw_only=True):
    """A device's state when an image was staged to it.

    Attributes:
        at: When its record was last written, ISO 8601, UTC.
        serial_number: None if unknown.
        release: Its running release; None if unknown.
        members: Numbers of the stack's members; empty for a single device.
        conditions: Readiness conditions and their results; empty if not checked.
    """

    run_id: str
    image: str
    at: str
    serial_number: str | None
    release: str | None
    members: tuple[int, ...] = ()
    conditions: tuple[tuple[str, str, str], ...] = ()


def last_staged(directory: Path, hosts: Collection[str]) -> dict[tuple[str, str], Staged]:
    """Return the state of devices when they were last staged, by host and image.

    Args:
        directory: State directory; may not exist.
        hosts: Inventory names.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    found: dict[tuple[str, str], Staged] = {}
    with reading(directory) as database:
        for row in staged_rows(database) if database is not None else ():
            record = Node(parsed(row.record) or {})
            if row.host not in hosts or not row.image or record.text("outcome") not in GOOD_OUTCOMES:
                continue
            check = record.at("check")
            if not check:
                # An activation checks other conditions; those of the staging remain valid.
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
    """Return the devices whose last run with a rollback applet ended with a proven restore.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    took: dict[str, bool] = {}
    with reading(directory) as database:
        for row in staged_rows(database) if database is not None else ():
            record = Node(parsed(row.record) or {})
            if (is_armed := record.flag("dead_man", "is_armed")) is not None:
                took[row.host] = is_armed and record.text("restored") == Restored.RESTORED.value
    return frozenset(host for host, is_proven in took.items() if is_proven)


def doubts(directory: Path, *names: str) -> Doubted:
    """Return what earlier runs found against images and files on devices.

    Args:
        directory: State directory; may not exist.
        names: Inventory names and identities; none for all devices.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    with reading(directory) as database:
        if database is None:
            return {}
        meant: dict[str, set[str]] = {}
        for name, image in doubtful_devices(database, names):
            meant.setdefault(image, set()).add(name)
        return {image: tuple(_remembered(database, known, image)) for image, known in meant.items()}


def _remembered(database: sqlite3.Connection, names: Collection[str], image: str) -> Iterator[Remembered]:
    """Yield what the runs of some devices recorded about an image, in their order."""
    for row in image_rows(database, names, image):
        former = (one.record for one in attempts_of(database, row.run_id) if one.host == row.host)
        for text in (*former, row.record):
            record = Node(parsed(text) or {})
            yield Remembered(
                run_id=row.run_id,
                host=row.host,
                identity=row.identity,
                members=stored_members(row.members),
                false_copy=_is_false_copy(record),
                failed_add=_is_failed_add(record),
            )


def _is_false_copy(record: Node) -> bool | None:
    if record.text("failure", "kind") == Kind.NOT_DELIVERED.value:
        return True
    return False if record.text("outcome") == Outcome.DONE.value or _was_delivered(record) else None


def _is_failed_add(record: Node) -> bool | None:
    if record.text("failure", "kind") == Kind.INSTALL_FAILED.value:
        return True
    return False if record.text("added", "outcome") in _ADDED else None


def _was_delivered(record: Node) -> bool:
    """Return whether the server delivered the whole copy to flash."""
    target = record.text("pull", "target")
    return bool(target) and target != "null:"
