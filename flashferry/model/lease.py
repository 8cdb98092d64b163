"""A device held by a run, as the journal stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from flashferry.core.codec import decode
from flashferry.core.errors import FlashferryError, Kind
from flashferry.model.states import State

if TYPE_CHECKING:
    from flashferry.model.activation import Activation
    from tasks.snapshot import Snapshot
    from tasks.tcp_config import Change


class JournalUnusable(FlashferryError):
    """The journal cannot be read or written; its owner must act."""

    kind: ClassVar[Kind] = Kind.JOURNAL_UNUSABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDevice:
    """A device that a run changed and has not proven restored, or whose activation has not ended.

    Attributes:
        identity: See `flashferry.devices.identity`; None if unknown.
        members: Serial numbers of a stack's members; empty for a single device.
        target: Path of the copy in progress, or of the image to activate; None for none.
        activation: The activation in progress; None for none.
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


class DamagedEntry(Struct, frozen=True, kw_only=True):
    """A held device whose journal entry is unreadable: compare its configuration by hand (`SHOW_OUR_LINES`)."""

    run_id: str
    host: str
    address: str


def leased_device(columns: Mapping[str, Any], *, is_sound: bool = True) -> LeasedDevice | DamagedEntry:
    """Return the device of a journal row or a lease file, or a damaged entry.

    Args:
        columns: The journal's columns by name; JSON as text.
        is_sound: Whether their checksum matched.
    """
    # Imported only if a device is held (start time): it loads sessions, platforms and transports.
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
    """Return the activation of a lease; None for none.

    Raises:
        ValueError: It would make us send commands that we never send.
    """
    if not stored:
        return None
    # Start time, as above.
    from flashferry.model.activation import Activation
    from tasks.activating.boot_order import is_ours_to_type

    found = decode(Activation, json.loads(stored))
    if found.order is not None and not is_ours_to_type(found.order):
        raise ValueError("a line that is no boot order")
    return found


def _changes(stored: str) -> tuple[Change, ...]:
    """Return the changes of a lease.

    Raises:
        ValueError: One would make us send a line that we never set, so it was not written by us.
    """
    # Start time, as above.
    from tasks.tcp_config import Change, is_ours_to_type

    changes = tuple(decode(Change, one) for one in json.loads(stored))
    if not all(map(is_ours_to_type, changes)):
        raise ValueError("a line that is none of those that staging sets")
    return changes
