"""A run with its devices, records and transfers, as the journal has it.

A centre has only the records of its sites' devices; their transfers are taken from these.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from flashferry.core.json_access import Node, parsed
from flashferry.model.states import RunState
from flashferry.store.control_requests import SteerRequest
from flashferry.store.reader import find_run, reading, run_state, unknown_run
from flashferry.store.summaries import held_applet, held_phase
from flashferry.store.tables import (
    RecordRow,
    RunRow,
    SampledRow,
    attempts_of,
    devices_of,
    run_row,
    steer_requests_of,
    transfers_of,
)
from flashferry.store.transfer_row import NULL, PROBE_AS_IS, PROBE_TUNED, STAGE, unpacked, utc
from inventory.transport_policy import USUAL

__all__ = ["StoredDevice", "StoredRun", "StoredTransfer", "read_run"]

_TUNING = frozenset({"window-size", "selective-ack", "timestamps"})


class StoredTransfer(Struct, frozen=True, kw_only=True):
    """A transfer of a device in a run.

    Attributes:
        at: Start, ISO 8601, UTC.
        kind: `stage`, `probe as it is` or `probe tuned`.
        tuned: Whether our TCP settings were in force.
        target: Path on the device, or `null:`.
        image: Name of the image, or of the speed test's file.
        record: JSON of the server's TransferRecord, with its samples.
    """

    at: str
    kind: str
    tuned: bool
    target: str
    image: str
    record: dict[str, Any]

    @classmethod
    def of(cls, row: SampledRow) -> StoredTransfer:
        """Make it from a row.

        Raises:
            ValueError: The record is damaged.
        """
        return cls(
            at=row.at,
            kind=row.kind,
            tuned=bool(row.tuned),
            target=row.target,
            image=row.image,
            record=unpacked(row.record),
        )


def transfers_in(record: dict[str, Any], *, updated_at: str) -> tuple[StoredTransfer, ...]:
    """Return the transfers in a device's record, the oldest first.

    Args:
        record: JSON of a DeviceRecord.
        updated_at: When it was written, for copies without a time of their own.
    """
    node = Node(record)
    if isinstance(node.at("probe").value, dict):
        return tuple(_arms(node, updated_at))
    account = node.at("transfer").value
    if not isinstance(account, dict):
        return ()
    target = node.text("pull", "target") or node.text("verify", "path") or _planned_target(node)
    return (_stored(account, STAGE, tuned=was_tuned(record), target=target, updated_at=updated_at),)


def was_tuned(record: dict[str, Any]) -> bool:
    """Return whether settings that speed up a copy were set on the device, by its record."""
    node = Node(record)
    words = {change.text("keyword") for change in node.list("changes")}
    return bool(node.at("tune").value) and bool(words & _TUNING)


def _arms(record: Node, updated_at: str) -> Iterator[StoredTransfer]:
    last = record.at("transfer").value
    for name, kind in (("as_is", PROBE_AS_IS), ("tuned", PROBE_TUNED)):
        arm = record.at("probe", name).value
        if isinstance(arm, dict):
            # The record's own transfer is the last copy and has samples, so it is preferred.
            account = last if isinstance(last, dict) and _is_same(last, arm) else _account_of(arm, last)
            yield _stored(account, kind, tuned=kind == PROBE_TUNED, target=NULL, updated_at=updated_at)


def _is_same(account: dict[str, Any], arm: dict[str, Any]) -> bool:
    return (account.get("bytes_acked"), account.get("duration_s")) == (arm.get("size_bytes"), arm.get("duration_s"))


def _account_of(arm: dict[str, Any], last: object) -> dict[str, Any]:
    """Return one measurement of a speed test as a transfer's record; it ended when the last copy started, or before."""
    ended_s = Node(last).number("started_at")
    return {
        "started_at": None if ended_s is None else ended_s - (Node(arm).number("duration_s") or 0.0),
        "outcome": "delivered",
        "size_bytes": arm.get("size_bytes"),
        "bytes_acked": arm.get("size_bytes"),
        "duration_s": arm.get("duration_s"),
        "rate_bytes_per_s": arm.get("server_bytes_per_s"),
        "min_rtt_s": arm.get("rtt_s"),
        "data_syn": arm.get("syn"),
        "sender": arm.get("sender"),
        "verdict": arm.get("verdict"),
        "samples": [],
    }


def _planned_target(record: Node) -> str:
    return f"{record.text('check', 'file_system') or ''}{record.text('transfer', 'image_name') or ''}"


def _stored(account: dict[str, Any], kind: str, *, tuned: bool, target: str, updated_at: str) -> StoredTransfer:
    started_s = Node(account).number("started_at")
    return StoredTransfer(
        at=updated_at if started_s is None else utc(started_s),
        kind=kind,
        tuned=tuned,
        target=target,
        image=Node(account).text("image_name") or "",
        record=account,
    )


class StoredDevice(Struct, frozen=True, kw_only=True):
    """A device of a run.

    Attributes:
        host: Inventory name at that time.
        address: Address at that time.
        wave: Number of its wave; 0 if the run has none.
        image: Name of the image to copy; None if unknown.
        state: `planned` to `done` or `failed`.
        attempt: Number of the attempt, from 1.
        is_held: Whether its lease has not ended: the run holds it, or left it unrestored.
        identity: Serial number and host name; None if it was never touched.
        record: JSON of its DeviceRecord; empty if there is none yet.
        attempts: Records of earlier attempts, the oldest first.
        transfers: Its transfers in this run, the oldest first.
        updated_at: Last change, ISO 8601, UTC.
        activation: Phase of its activation while held; None for none.
        applet: Name of the rollback applet that it may have while held (`stage --dead-man`), or None.
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
    activation: str | None = None
    applet: str | None = None

    @property
    def transport(self) -> str:
        """Name of the transport of its record; the usual one if the record names none."""
        return str(self.record.get("transport") or USUAL)

    def status(self) -> dict[str, Any]:
        """Return site, wave, image and state as JSON types, as the service and site agents report them."""
        names = ("host", "site", "wave", "image", "state", "attempt", "is_held")
        return {name: getattr(self, name) for name in names}


class StoredRun(Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        started_at: ISO 8601, UTC.
        finished_at: When it finished; None if it is alive or died.
        request: Its stored request; empty if there is none.
        devices: In the order of entry.
        resumed: How often it was resumed.
        damaged: What could not be read, one sentence each.
        actor: Who started it; None if unknown.
        job: The service's job that last ran it; None for none.
        events: File of its events; None if unknown.
        plan_digest: Digest of its plan; None for none.
        steer_requests: Requests to steer it, the oldest first.
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
    actor: str | None = None
    job: str | None = None
    events: str | None = None
    plan_digest: str | None = None
    steer_requests: tuple[SteerRequest, ...] = ()

    @property
    def is_alive(self) -> bool:
        """Return whether its process is alive."""
        return self.state is RunState.ALIVE


def read_run(directory: Path, run_id: str, *, with_transfers: bool = True, host: str | None = None) -> StoredRun:
    """Read a run.

    Args:
        directory: State directory.
        run_id: Its identifier, beginning or end if unique, or `latest`.
        with_transfers: Whether to read the transfers, which are most of a large run.
        host: Only this device; None for all.

    Raises:
        ConfigInvalid: The run is unknown, or the journal cannot be read.
    """
    found_id = find_run(directory, run_id)
    with reading(directory) as database:
        row = run_row(database, found_id) if database is not None else None
        if database is None or row is None:
            raise unknown_run(run_id, [])
        return stored_run(database, directory, row, with_transfers=with_transfers, host=host)


def stored_run(
    database: sqlite3.Connection, directory: Path, row: RunRow, *, with_transfers: bool, host: str | None = None
) -> StoredRun:
    """Return the run of a row; see `read_run`."""
    reader = _RunReader(database, row.run_id, host)
    request = reader.object_of("what the run was asked for", row.request)
    return StoredRun(
        run_id=row.run_id,
        verb=row.verb,
        state=run_state(directory, row.run_id, row.finished_at),
        started_at=row.started_at,
        finished_at=row.finished_at,
        request=request,
        devices=reader.devices(with_transfers=with_transfers),
        resumed=row.resumed,
        damaged=tuple(reader.damaged),
        actor=row.actor,
        job=row.job,
        events=row.events,
        plan_digest=row.plan_digest,
        steer_requests=tuple(steer_requests_of(database, row.run_id)),
    )


@dataclass(slots=True)
class _RunReader:
    """Reads one run and collects what it cannot read."""

    database: sqlite3.Connection
    run_id: str
    host: str | None
    damaged: list[str] = field(default_factory=list)

    def object_of(self, what: str, stored: str | None) -> dict[str, Any]:
        found = parsed(stored)
        if found is None:
            self.damaged.append(f"{what} is damaged in the journal and is left out")
        return found or {}

    def devices(self, *, with_transfers: bool) -> tuple[StoredDevice, ...]:
        transfers, attempts = self._transfers() if with_transfers else None, self._attempts()
        return tuple(
            self._device(row, transfers, attempts.get(row.host, []))
            for row in devices_of(self.database, self.run_id, self.host)
        )

    def _transfers(self) -> dict[str, list[StoredTransfer]]:
        found: dict[str, list[StoredTransfer]] = {}
        for row in transfers_of(self.database, self.run_id, self.host):
            try:
                one = StoredTransfer.of(row)
            except ValueError:
                self.damaged.append(f"{row.host}: the transfer of {row.at} is damaged in the journal and is left out")
                continue
            found.setdefault(row.host, []).append(one)
        return found

    def _attempts(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for row in attempts_of(self.database, self.run_id):
            what = f"{row.host}: the record of attempt {row.attempt}"
            found.setdefault(row.host, []).append(self.object_of(what, row.record))
        return found

    def _device(
        self, row: RecordRow, transfers: dict[str, list[StoredTransfer]] | None, attempts: list[dict[str, Any]]
    ) -> StoredDevice:
        record = self.object_of(f"{row.host}: its record", row.record)
        kept: list[StoredTransfer] = []
        if transfers is not None:
            kept = transfers.get(row.host, [])
        return StoredDevice(
            host=row.host,
            address=row.address,
            site=row.site,
            wave=row.wave,
            image=row.image or Node(record).text("transfer", "image_name"),
            state=row.state,
            attempt=row.attempt,
            is_held=bool(row.touched),
            identity=row.identity,
            record=_whole(record, kept) if kept else record,
            attempts=tuple(attempts),
            transfers=tuple(kept),
            updated_at=row.updated_at,
            activation=held_phase(row.activation) if row.touched else None,
            applet=held_applet(row.changes) if row.touched else None,
        )


def _whole(record: dict[str, Any], transfers: list[StoredTransfer]) -> dict[str, Any]:
    """Return a record with the samples of its transfer, which are stored separately."""
    node = Node(record).at("transfer")
    mine, started_s = node.value, node.number("started_at")
    if not isinstance(mine, dict) or mine.get("samples") or started_s is None:
        return record
    for one in transfers:
        if one.at == utc(started_s) and one.record.get("ticket_id") == mine.get("ticket_id"):
            return record | {"transfer": mine | {"samples": one.record.get("samples", [])}}
    return record
