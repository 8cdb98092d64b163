"""A device in a run's hands, as the journal keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from flashferry.core.codec import decode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.model.states import State

if TYPE_CHECKING:
    from flashferry.model.activation import Activation
    from tasks.snapshot import Snapshot
    from tasks.tcp_config import Change


class JournalUnusable(FlashferryError):
    """The journal's owner must act: it cannot be read or written."""

    kind: ClassVar[Kind] = Kind.JOURNAL_UNUSABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDevice:
    """A device that a run tuned and has not proven restored, or whose activation has not come to an end.

    Attributes:
        identity: What it calls itself, see `flashferry.devices.identity`; None where the journal does not say.
        members: Serial numbers of the members of a stack; empty for another device.
        target: Path of the copy that was under way, or of the image that was to be activated, or None.
        activation: The activation that was under way, or None where it was none.
    """

    run_id: str
    host: str
    address: str
    port: int
    platform: str
    state: State
    identity: str | None
    members: frozenset[str]
    snapshot: Snapshot
    changes: tuple[Change, ...]
    target: str | None
    activation: Activation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedEntry:
    """A device of which the journal has no more than its name: compare its lines by hand (`SHOW_OUR_LINES`)."""

    run_id: str
    host: str
    address: str


def leased_device(columns: Mapping[str, Any], *, is_sound: bool = True) -> LeasedDevice | DamagedEntry:
    """Return the device of a journal's row or of a lease's file, or what is left of it.

    Args:
        columns: The journal's columns by name; JSON as text.
        is_sound: Whether they are what was written.
    """
    # Late: mostly nothing is in hand, and what our steps keep and type brings sessions, platforms and transports.
    from tasks.snapshot import Snapshot

    try:
        if not is_sound:
            raise ValueError("the row is not what was written")
        return LeasedDevice(
            run_id=columns["run_id"],
            host=columns["host"],
            address=columns["address"],
            port=columns["port"],
            platform=columns["platform"],
            state=State(columns["state"]),
            identity=columns["identity"],
            members=frozenset(json.loads(columns["members"] or "[]")),
            snapshot=decode(Snapshot, json.loads(columns["snapshot"])),
            changes=_changes(columns["changes"]),
            target=columns["target"],
            activation=_activation(columns.get("activation")),
        )
    except (ValueError, KeyError, TypeError):
        return DamagedEntry(run_id=str(columns["run_id"]), host=str(columns["host"]), address=str(columns["address"]))


def _activation(stored: str | None) -> Activation | None:
    """Return the activation of a lease, or None where the run was none.

    Raises:
        ValueError: It would have us type what we never set.
    """
    if not stored:
        return None
    from flashferry.model.activation import Activation
    from tasks.activating.boot_order import is_ours_to_type

    found = decode(Activation, json.loads(stored))
    if found.order is not None and not is_ours_to_type(found.order):
        raise ValueError("a line that is no boot order")
    return found


def _changes(stored: str) -> tuple[Change, ...]:
    """Return the changes of a lease.

    Raises:
        ValueError: One would have us type what we never set: it was not written by us.
    """
    from tasks.tcp_config import Change, is_ours_to_type

    changes = tuple(decode(Change, one) for one in json.loads(stored))
    if not all(map(is_ours_to_type, changes)):
        raise ValueError("a line that is none of those that staging sets")
    return changes
