"""Everything that is known of a run, from disk alone: one that ended, died, or is under way.

A row that cannot be read hides no other: what it would have said is missing, and `damaged` tells so.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flashferry.core.json_access import at, number, parsed, text
from flashferry.store.legacy import StoredTransfer, transfers_in
from flashferry.store.reader import find_run, reading
from flashferry.store.run_lock import RunState, run_state
from flashferry.store.transfer_row import unpacked, utc

__all__ = ["StoredDevice", "StoredRun", "StoredTransfer", "read_run"]

_Attempts = dict[str, list[dict[str, Any]]]
_Transfers = dict[str, list[StoredTransfer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDevice:
    """A device of a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        site: Name of its site, or None.
        wave: Number of its wave; 0 where a run has none.
        image: Name of the image that it was to get, or None where the run did not say.
        state: How far it came (`planned` to `done` or `failed`).
        attempt: Which attempt of the run this is, 1 for the first.
        is_held: Whether its lease is not ended: in the run's hands, or left by it.
        identity: What the device calls itself, or None where it was never touched.
        record: JSON of its DeviceRecord; empty where the run has not told.
        attempts: Records of the attempts before, the first one first.
        transfers: All its transfers in this run, the oldest first.
        updated_at: Last change, ISO 8601, UTC.
    """

    host: str
    address: str
    site: str | None
    wave: int
    image: str | None
    state: str
    attempt: int
    is_held: bool
    identity: str | None
    record: dict[str, Any]
    attempts: tuple[dict[str, Any], ...] = ()
    transfers: tuple[StoredTransfer, ...] = ()
    updated_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run.

    Attributes:
        run_id: Its identifier.
        verb: `stage` or `probe`.
        state: Where it stands.
        started_at: When it began, ISO 8601, UTC.
        finished_at: When it ended in good order, or None.
        request: What it was asked for; empty where it did not say.
        devices: Its devices in the order in which they were entered.
        resumed: How often it was gone on with.
        damaged: What could not be read, in sentences.
    """

    run_id: str
    verb: str
    state: RunState
    started_at: str
    finished_at: str | None
    request: dict[str, Any]
    devices: tuple[StoredDevice, ...]
    resumed: int = 0
    damaged: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reader:
    """Reads one run and notes what it cannot read."""

    database: sqlite3.Connection
    run_id: str
    damaged: list[str] = field(default_factory=list)

    def rows(self, query: str) -> sqlite3.Cursor:
        return self.database.execute(query, (self.run_id,))

    def object_of(self, what: str, stored: str | None) -> dict[str, Any]:
        found = parsed(stored)
        if found is None:
            self.damaged.append(f"{what} is damaged in the journal and is left out")
        return found or {}

    def transfers(self) -> _Transfers:
        found: _Transfers = {}
        query = "SELECT host, at, kind, tuned, target, image, record FROM transfers WHERE run_id = ? ORDER BY at, rowid"
        for host, when, kind, tuned, target, image, stored in self.rows(query):
            try:
                record = unpacked(stored)
            except ValueError:
                self.damaged.append(f"{host}: the transfer of {when} is damaged in the journal and is left out")
                continue
            found.setdefault(host, []).append(
                StoredTransfer(at=when, kind=kind, tuned=bool(tuned), target=target, image=image, record=record)
            )
        return found

    def attempts(self) -> _Attempts:
        found: _Attempts = {}
        query = "SELECT host, attempt, record FROM attempts WHERE run_id = ? ORDER BY attempt"
        for host, attempt, stored in self.rows(query):
            found.setdefault(host, []).append(self.object_of(f"{host}: the record of attempt {attempt}", stored))
        return found

    def devices(self, *, with_transfers: bool) -> tuple[StoredDevice, ...]:
        transfers, attempts = self.transfers() if with_transfers else None, self.attempts()
        query = (
            "SELECT host, address, site, wave, image, state, attempt, touched, identity, record, updated_at "
            "FROM devices WHERE run_id = ? ORDER BY rowid"
        )
        return tuple(self._device(row, transfers, attempts) for row in self.rows(query).fetchall())

    def _device(self, row: tuple[Any, ...], transfers: _Transfers | None, attempts: _Attempts) -> StoredDevice:
        host, address, site, wave, image, state, attempt, touched, identity, stored, updated_at = row
        record = self.object_of(f"{host}: its record", stored)
        kept = []
        if transfers is not None:
            kept = transfers.get(host) or list(transfers_in(record, updated_at=updated_at))
        return StoredDevice(
            host=host,
            address=address,
            site=site,
            wave=wave,
            image=image or text(record, "transfer", "image_name"),
            state=state,
            attempt=attempt,
            is_held=bool(touched),
            identity=identity,
            record=_whole(record, kept),
            attempts=tuple(attempts.get(host, ())),
            transfers=tuple(kept),
            updated_at=updated_at,
        )


def read_run(directory: Path, run_id: str, *, with_transfers: bool = True) -> StoredRun:
    """Return all that is known of a run.

    Args:
        directory: State directory.
        run_id: The run; its beginning or end where that is unique, or `latest`.
        with_transfers: Whether to read the transfers, too: with their samples they are nearly all of a large run.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    found_id = find_run(directory, run_id)
    with reading(directory) as database:
        assert database is not None
        reader = _Reader(database, found_id)
        row = reader.rows("SELECT verb, started_at, finished_at, request, resumed FROM runs WHERE run_id = ?")
        verb, started_at, finished_at, request, resumed = row.fetchone()
        run = StoredRun(
            run_id=found_id,
            verb=verb,
            state=run_state(directory, found_id, finished_at),
            started_at=started_at,
            finished_at=finished_at,
            request=reader.object_of("what the run was asked for", request),
            devices=reader.devices(with_transfers=with_transfers),
            resumed=resumed,
        )
    return replace(run, damaged=tuple(reader.damaged))


def _whole(record: dict[str, Any], transfers: list[StoredTransfer]) -> dict[str, Any]:
    """Return a record with the samples of its transfer, which are kept apart from it."""
    mine, started_s = at(record, "transfer"), number(record, "transfer", "started_at")
    if not isinstance(mine, dict) or mine.get("samples") or started_s is None:
        return record
    for one in transfers:
        if one.at == utc(started_s) and one.record.get("ticket_id") == mine.get("ticket_id"):
            return record | {"transfer": mine | {"samples": one.record.get("samples", [])}}
    return record
