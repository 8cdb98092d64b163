"""A device in a run's hands, as the journal keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from flashferry.core.errors import FlashferryError, Kind
from flashferry.model.codec import changes_from_json, snapshot_from_json
from flashferry.model.states import State
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change

COLUMNS = "run_id, host, address, port, platform, state, identity, snapshot, changes, target, members"
"""What `read_row` takes, in this order, with behind it whether the row is sound."""


class JournalUnusable(FlashferryError):
    """The journal's owner must act: it cannot be read or written."""

    kind: ClassVar[Kind] = Kind.JOURNAL_UNUSABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedDevice:
    """A device that a run tuned and has not proven restored.

    Attributes:
        identity: What it calls itself, see `flashferry.devices.identity`; None where the journal does not say.
        members: Serial numbers of the members of a stack; empty for another device.
        target: Path of the copy that was under way, or None.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedEntry:
    """A device of which the journal knows no more than its name: compare its `ip tcp` lines by hand."""

    run_id: str
    host: str
    address: str


def read_row(row: tuple[Any, ...]) -> TouchedDevice | DamagedEntry:
    """Return the device of a journal row, or what is left of it."""
    run_id, host, address, port, platform, state, identity, snapshot, changes, target, members, is_sound = row
    try:
        if not is_sound:
            raise ValueError("the row is not what was written")
        return TouchedDevice(
            run_id=run_id,
            host=host,
            address=address,
            port=port,
            platform=platform,
            state=State(state),
            identity=identity,
            members=frozenset(json.loads(members or "[]")),
            snapshot=snapshot_from_json(json.loads(snapshot)),
            changes=changes_from_json(json.loads(changes)),
            target=target,
        )
    except (ValueError, KeyError, TypeError):
        return DamagedEntry(run_id=str(run_id), host=str(host), address=str(address))
