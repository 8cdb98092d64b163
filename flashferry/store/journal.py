"""The journal: runs, their devices with leases and records, transfers, and requests to steer a run."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from flashferry.core.codec import stored_json, to_json
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.json_access import Node
from flashferry.core.redaction import masked
from flashferry.core.state_folder import lock, make_private_directory, open_private, sweep
from flashferry.core.values import as_dict, field_names, replace
from flashferry.devices.errors import DeviceRefused
from flashferry.model.activation import Activation
from flashferry.model.lease import DamagedEntry, JournalUnusable, LeasedDevice, leased_device
from flashferry.model.states import ENDED, State, is_allowed
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker, Origin, SteerKind
from flashferry.store.grouped_writer import FileWatch, GroupedWriter, open_database, translate_errors
from flashferry.store.lease_files import COLUMNS, LeaseFile, LeaseFiles
from flashferry.store.reader import is_run_alive, lock_of, locked_runs, taken_lock, unknown_run
from flashferry.store.tables import (
    RunRow,
    SampledRow,
    columns_of,
    control_row,
    device_row,
    lease_row,
    lease_rows,
    other_identities,
    run_row,
    runs_by_age,
    unsound_devices,
    unsound_rows,
)
from flashferry.store.transfer_row import TransferEntry, row_of, utc
from inventory.host_view import HostView
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change

if TYPE_CHECKING:
    from flashferry.fileserver import TransferRecord
    from flashferry.model.record import DeviceRecord

T = TypeVar("T")

_INSERT_REQUEST = "INSERT INTO steer_requests (run_id, at, actor, via, what, wave, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"

_SET_CONTROL = (
    "UPDATE runs SET paused = COALESCE(?, paused), stopping = COALESCE(?, stopping), "
    "approved_wave = MAX(approved_wave, COALESCE(?, approved_wave)) WHERE run_id = ?"
)


class JournalRuns:
    """The journal's methods for whole runs.

    Args:
        directory: State directory.
        origin: Who or what starts and resumes runs with it.

    Raises:
        ConfigInvalid: The directory cannot be used.
    """

    def __init__(self, directory: Path, origin: Origin | None = None) -> None:
        self.directory = directory
        self._origin = origin or Origin()
        self._run_locks: dict[str, IO[str]] = {}
        try:
            make_private_directory(directory)
            make_private_directory(directory / "runs")
            self._db = open_database(directory)
            self._watch = FileWatch(directory)
            sweep(directory)
        except OSError as error:
            raise ConfigInvalid(
                f"state directory {directory}: {reason_of(error)}", hint="Give a writable one with --state-dir"
            ) from None
        self._writer = GroupedWriter(self._db)

    def begin_run(self, verb: str, request: Mapping[str, object] | None = None) -> str:
        """Create a run, take its lock, and return its identifier: date, time and four random hex digits.

        Args:
            verb: `stage`, `probe`, or another command that makes runs.
            request: What is needed to resume the run: inventory, images, options, plan. Must hold no secret.
        """
        kept = None if request is None else to_json(dict(request))
        come = self._origin
        # The row first: a lock without a row means a lost journal.
        written = 0
        while not written:
            run_id = _fresh_id()
            written = self._write(
                # Another run of this second may have the same random digits.
                "INSERT INTO runs (run_id, verb, started_at, request, job, events, plan_digest, actor) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run_id) DO NOTHING",
                (
                    *(run_id, verb, now(), None if kept is None else json.dumps(kept)),
                    *(come.job, come.events, Node(kept).text("plan", "digest"), come.actor),
                ),
            )
        self._run_locks[run_id] = taken_lock(self.directory, run_id)
        return run_id

    def finish_run(self, run_id: str) -> None:
        """Mark a run as finished and release its lock."""
        self._write("UPDATE runs SET finished_at = ?, waiting_wave = NULL WHERE run_id = ?", (now(), run_id))
        if held := self._run_locks.pop(run_id, None):
            lock_of(self.directory, run_id).unlink(missing_ok=True)
            held.close()

    def reopen_run(self, run_id: str) -> None:
        """Take the lock of a run that died or finished, and clear its requests to pause or stop.

        Approvals, earlier requests and the run's actor are kept.

        Raises:
            ConfigInvalid: The run is unknown, or alive.
        """
        self._run_row(run_id)
        try:
            self._run_locks[run_id] = taken_lock(self.directory, run_id)
        except BlockingIOError:
            raise ConfigInvalid(
                f"run {run_id} is alive: expected one that died or ended",
                hint=f"Wait for it, or end it with 'flashferry run stop {run_id}'",
            ) from None
        self._write(
            "UPDATE runs SET finished_at = NULL, paused = 0, stopping = 0, waiting_wave = NULL, resumed = resumed + 1, "
            "job = ?, events = ? WHERE run_id = ?",
            (self._origin.job, self._origin.events, run_id),
        )

    def record_all(self, run_id: str, records: Mapping[str, object]) -> None:
        """Store the records of devices that the run did not touch, by host, in one transaction."""
        at = now()
        rows = [(json.dumps(to_json(record)), at, run_id, host) for host, record in records.items()]
        statement = "UPDATE devices SET record = ?, updated_at = ? WHERE run_id = ? AND host = ?"
        self._change(lambda database: database.executemany(statement, rows), is_synced=False)

    def lost_runs(self) -> tuple[str, ...]:
        """Return dead runs that have a lock file but no row: the journal was lost, or replaced by an older one.

        A run that finishes removes its lock file.
        """
        known = {run_id for run_id, _ in self._read(runs_by_age)}
        locked = locked_runs(self.directory)
        return tuple(run_id for run_id in locked if run_id not in known and not self.is_alive(run_id))

    def damaged_rows(self) -> int:
        """Return how many rows do not match their checksum. Reads all rows."""
        return sum(self._read(unsound_rows).values())

    def is_alive(self, run_id: str) -> bool:
        """Return whether the process of a run is alive."""
        return is_run_alive(self.directory, run_id)

    def request_of(self, run_id: str) -> dict[str, Any]:
        """Return the stored request of a run; empty if it has none.

        Raises:
            ConfigInvalid: The run is unknown, or its request is unreadable.
        """
        stored = self._run_row(run_id).request
        try:
            return dict(json.loads(stored or "{}"))
        except (ValueError, TypeError):
            raise ConfigInvalid(
                f"run {run_id}: its request is damaged in the journal", hint="Start a new run"
            ) from None

    def control(self, run_id: str) -> ControlRequest:
        """Return what operators requested of a run. One small query: cheap enough for each start of a device.

        Raises:
            ConfigInvalid: The run is unknown.
        """
        found = self._read(lambda database: control_row(database, run_id))
        if found is None:
            raise self._unknown(run_id)
        return ControlRequest.of(found)

    def set_control(
        self,
        run_id: str,
        *,
        paused: bool | None = None,
        stopping: bool | None = None,
        approved_wave: int | None = None,
        asker: Asker | None = None,
    ) -> None:
        """Change what is requested of a run, and store who requested it. None leaves a value as it is.

        Args:
            run_id: The run.
            paused: Whether to start no further device.
            stopping: Whether to stop the devices in progress.
            approved_wave: Highest approved wave; an approval is never withdrawn.
            asker: Who requests it and why; None if unknown.

        Raises:
            ConfigInvalid: The run is unknown.
        """
        self._run_row(run_id)
        who = asker or Asker()
        asked: list[tuple[SteerKind, int | None]] = []
        if paused is not None:
            asked.append((SteerKind.PAUSE if paused else SteerKind.CONTINUE, None))
        if stopping:
            asked.append((SteerKind.STOP, None))
        if approved_wave is not None:
            asked.append((SteerKind.APPROVE, approved_wave))
        rows = [(run_id, now(), who.actor, who.via, what.value, wave, masked(who.reason)) for what, wave in asked]

        def write(database: sqlite3.Connection) -> None:
            database.executemany(_INSERT_REQUEST, rows)
            database.execute(_SET_CONTROL, (paused, stopping, approved_wave, run_id))

        self._change(write)

    def set_waiting_wave(self, run_id: str, wave: int | None) -> None:
        """Store which wave waits for approval; None for none."""
        self._write("UPDATE runs SET waiting_wave = ? WHERE run_id = ?", (wave, run_id))

    def _run_row(self, run_id: str) -> RunRow:
        found = self._read(lambda database: run_row(database, run_id))
        if found is None:
            raise self._unknown(run_id)
        return found

    def _unknown(self, run_id: str) -> ConfigInvalid:
        return unknown_run(run_id, [known for known, _ in self._read(runs_by_age)])

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        """Change rows, synced to disk; return how many."""
        return self._change(lambda database: database.execute(statement, values).rowcount)

    def _change(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Do a write. Without `is_synced` a power cut may lose it until the next synced write."""
        self._watch.check()
        with translate_errors(self.directory):
            return self._writer.write(work, is_synced=is_synced)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translate_errors(self.directory):
            return self._writer.read(work)


def now() -> str:
    """Return the current time as the journal stores it: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _fresh_id() -> str:
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


INSERT_DEVICE = (
    "INSERT INTO devices (run_id, host, address, port, platform, site, wave, image, state, updated_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

UPDATE_DEVICE = (
    "UPDATE devices SET address = ?, port = ?, platform = ?, site = ?, updated_at = ? "
    "WHERE run_id = ? AND host = ? AND touched = 0"
)
"""A held device keeps its address, by which recovery reaches it."""


class NewDevice(Struct, frozen=True, kw_only=True):
    """A device to be added to a run.

    Attributes:
        address: IP address or DNS name.
        port: SSH port.
        platform: `ios`.
        image: Name of the image to copy; None for none.
    """

    host: str
    address: str
    port: int
    platform: str
    site: str | None = None
    wave: int = 0
    image: str | None = None

    @classmethod
    def of(cls, device: HostView, *, wave: int, image: str) -> NewDevice:
        """Make it from a device of the inventory."""
        return cls(
            host=device.name,
            address=device.address,
            port=device.port,
            platform=device.platform,
            site=device.site,
            wave=wave,
            image=image,
        )


def begin_anew(database: sqlite3.Connection, run_id: str, host: str) -> None:
    """Reset a device to `planned` and move its record to its earlier attempts, in the caller's transaction.

    Raises:
        DeviceRefused: A run still holds the device: its snapshot must not be lost.
        ValueError: The run has no such device.
    """
    where = (run_id, host)
    row = device_row(database, run_id, host)
    if row is None:
        raise ValueError(f"{host}: run {run_id} has no such device")
    if row.touched:
        raise DeviceRefused(
            f"run {run_id} holds this device, or left it before it was proven restored",
            host=host,
            step="resume",
            hint="Run 'flashferry recover' first",
        )
    database.execute(
        "INSERT INTO attempts (run_id, host, attempt, state, record, ended_at) "
        "SELECT run_id, host, attempt, state, record, updated_at FROM devices WHERE run_id = ? AND host = ?",
        where,
    )
    database.execute(
        "UPDATE devices SET state = ?, attempt = attempt + 1, record = NULL, snapshot = NULL, changes = NULL, "
        "target = NULL, updated_at = ? WHERE run_id = ? AND host = ?",
        (State.PLANNED.value, now(), *where),
    )


Key = tuple[str, str, str, str]
"""Run, host, ticket and time of a transfer."""

_COLUMNS = tuple(field_names(SampledRow))

_INSERT = f"INSERT OR REPLACE INTO transfers ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 -- our own words


def key_of(run_id: str, host: str, record: TransferRecord) -> Key:
    """Return the key of a transfer; one ticket may have several."""
    return run_id, host, record.ticket_id, utc(record.started_at)


def keep(database: sqlite3.Connection, row: SampledRow) -> None:
    """Store a transfer, replacing an earlier row of it."""
    database.execute(_INSERT, astuple(row))


def slim(run_id: str, host: str, record: object, kept: Collection[Key]) -> Any:
    """Return a record as JSON types without the samples of a transfer that is stored separately.

    Samples are nine tenths of a record, which is written several times; readers put them back.
    """
    transfer = getattr(record, "transfer", None)
    if transfer is None or key_of(run_id, host, transfer) not in kept:
        return stored_json(record)
    return stored_json(replace(cast("DeviceRecord", record), transfer=replace(transfer, samples=())))


def annotate(database: sqlite3.Connection, run_id: str, host: str, record: Any) -> None:
    """Add to a device's transfers what only its record has: model, and duration of the last copy by the device's clock.

    That duration includes the flash writing.
    """
    node = Node(record)
    if (model := node.text("check", "facts", "model")) is not None:
        database.execute("UPDATE transfers SET model = ? WHERE run_id = ? AND host = ?", (model, run_id, host))
    device_s, started_s = (
        node.number("pull", "device", "duration_s"),
        node.number("transfer", "started_at"),
    )
    if device_s is not None and started_s is not None:
        database.execute(
            "UPDATE transfers SET device_s = ? WHERE run_id = ? AND host = ? AND ticket_id = ? AND at = ?",
            (device_s, run_id, host, node.text("transfer", "ticket_id"), utc(started_s)),
        )


class Journal(JournalRuns):
    """The journal of one state directory. Safe to use from all threads of a process.

    Args:
        directory: State directory.
        origin: Who or what starts and resumes runs with it; None if unknown.

    Raises:
        ConfigInvalid: The directory cannot be used.
    """

    def __init__(self, directory: Path, origin: Origin | None = None) -> None:
        super().__init__(directory, origin)
        self._kept: set[Key] = set()
        self._files = LeaseFiles(directory)

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the database and release this process's run locks."""
        self._db.close()
        for held in self._run_locks.values():
            held.close()

    def add_device(
        self,
        run_id: str,
        *,
        host: str,
        address: str,
        port: int,
        platform: str,
        site: str | None = None,
        wave: int = 0,
        image: str | None = None,
    ) -> None:
        """Add an untouched device to a run."""
        new = NewDevice(host=host, address=address, port=port, platform=platform, site=site, wave=wave, image=image)
        self.add_devices(run_id, (new,))

    def add_devices(self, run_id: str, devices: Iterable[NewDevice]) -> None:
        """Add untouched devices to a run in one transaction."""
        planned, at = State.PLANNED.value, now()
        rows = [
            (run_id, one.host, one.address, one.port, one.platform, one.site, one.wave, one.image, planned, at)
            for one in devices
        ]
        self._change(lambda database: database.executemany(INSERT_DEVICE, rows), is_synced=False)

    def exclude(self, run_id: str, devices: Sequence[tuple[NewDevice, DeviceRecord]]) -> None:
        """Add devices that the run does not touch, each with its final record, in one transaction."""
        at = now()
        rows = [
            (run_id, one.host, one.address, one.port, one.platform, one.site, one.wave, one.image, record.state.value)
            for one, record in devices
        ]
        records = [(json.dumps(stored_json(record)), run_id, one.host) for one, record in devices]

        def enter(database: sqlite3.Connection) -> None:
            database.executemany(INSERT_DEVICE, ((*row, at) for row in rows))
            database.executemany("UPDATE devices SET record = ? WHERE run_id = ? AND host = ?", records)

        self._change(enter, is_synced=False)

    def update_devices(self, run_id: str, devices: Iterable[NewDevice]) -> None:
        """Update address, port, platform and site of a run's devices from the inventory, except for devices it holds.

        A resumed run may find them moved; recovery uses the address at which a device was changed.
        """
        at = now()
        rows = [(one.address, one.port, one.platform, one.site, at, run_id, one.host) for one in devices]
        self._change(lambda database: database.executemany(UPDATE_DEVICE, rows), is_synced=False)

    def again(self, run_id: str, host: str) -> None:
        """Reset a device for another attempt; the record of the last one is kept.

        Raises:
            DeviceRefused: A run still holds the device; recover it first.
            ValueError: The run has no such device.
        """
        self._change(lambda database: begin_anew(database, run_id, host))

    def acquire_lease(
        self,
        run_id: str,
        host: str,
        *,
        identity: str,
        snapshot: Snapshot,
        changes: tuple[Change, ...],
        target: str,
        members: frozenset[str] = frozenset(),
        activation: Activation | None = None,
    ) -> None:
        """Store a device's snapshot and the changes to come; on disk when this returns.

        Args:
            run_id: The run.
            host: Inventory name.
            identity: Serial number and host name: one router under two inventory names or addresses is one device.
            snapshot: Configuration before the changes.
            changes: Changes to make; may be empty.
            target: Path of the copy, so that `recover` can name a partial file.
            members: Serial numbers of the stack's members, to recognise the stack under another active member.
            activation: Activation to be run there; None for none.

        Raises:
            DeviceRefused: Another run holds the device, or left it unrestored.
            JournalUnusable: It cannot be written; nothing may be sent to the device.
        """
        kept = {
            "identity": identity,
            "state": State.JOURNALED.value,
            "snapshot": json.dumps(to_json(replace(snapshot, generation=secrets.token_hex(8)))),
            "changes": json.dumps(to_json(changes)),
            "target": target,
            "members": json.dumps(sorted(members)),
            "activation": None if activation is None else json.dumps(to_json(activation)),
        }
        self._keep_file(run_id, host, kept)
        try:
            self._write(
                "UPDATE devices SET touched = 1, identity = ?, state = ?, snapshot = ?, changes = ?, target = ?, "
                "members = ?, activation = ?, updated_at = ? WHERE run_id = ? AND host = ?",
                (*kept.values(), now(), run_id, host),
            )
        except sqlite3.IntegrityError:
            self._files.remove(run_id, host)
            raise DeviceRefused(
                "another run holds this device, or died before it was proven restored",
                host=host,
                step="snapshot",
                hint="Wait for that run, or run 'flashferry recover'",
            ) from None

    def replan(self, run_id: str, host: str, changes: tuple[Change, ...]) -> None:
        """Replace the changes to come; on disk when this returns.

        A change may only be dropped if the device provably does not have it: it was refused, or not sent yet.
        """
        self._keep_file(run_id, host, {"changes": json.dumps(to_json(changes))})
        self._write(
            "UPDATE devices SET changes = ?, updated_at = ? WHERE run_id = ? AND host = ? AND touched = 1",
            (json.dumps(to_json(changes)), now(), run_id, host),
        )

    def activating(self, run_id: str, host: str, activation: Activation) -> None:
        """Store the progress of an activation; on disk when this returns, before the first command of the phase.

        Raises:
            JournalUnusable: It cannot be written; nothing may be sent to the device.
        """
        kept = json.dumps(to_json(activation))
        self._keep_file(run_id, host, {"activation": kept})
        self._write(
            "UPDATE devices SET activation = ?, updated_at = ? WHERE run_id = ? AND host = ? AND touched = 1",
            (kept, now(), run_id, host),
        )

    def _keep_file(self, run_id: str, host: str, kept: dict[str, Any]) -> None:
        """Write the lease file, before the row."""
        row = self._read(lambda database: columns_of(database, run_id, host, COLUMNS))
        if row is None:
            raise ValueError(f"{host}: run {run_id} has no such device")
        try:
            self._files.write(dict(zip(COLUMNS, row, strict=True)) | kept)
        except OSError as error:
            raise JournalUnusable(
                f"the lease of {host} cannot be written in {self.directory}: {error.strerror}",
                hint="Check free disk space and the folder's permissions",
            ) from None

    def move(self, run_id: str, host: str, state: State) -> None:
        """Set a device's next state.

        Raises:
            ValueError: The state machine does not allow the step.
        """

        def step(database: sqlite3.Connection) -> None:
            (found,) = columns_of(database, run_id, host, ("state",)) or (None,)
            if found is None:
                raise ValueError(f"{host}: run {run_id} has no such device")
            if not is_allowed(State(found), state):
                raise ValueError(f"{host}: from {found} to {state.value} is no step of a run")
            statement = "UPDATE devices SET state = ?, updated_at = ? WHERE run_id = ? AND host = ?"
            database.execute(statement, (state.value, now(), run_id, host))

        self._change(step, is_synced=False)

    def release(self, run_id: str, host: str, record: object = None) -> None:
        """End the lease: the device is proven restored, except for changes by others.

        Args:
            run_id: The run.
            host: Inventory name.
            record: Record so far, stored in the same transaction, so that a change by others that was found is not
                lost.
        """
        self._end(run_id, host, "touched = 0, record = COALESCE(?, record)", record, is_synced=True)
        self._files.remove(run_id, host)

    def recovered(self, run_id: str, host: str, record: object = None) -> None:
        """End the lease of a dead run's device that is proven restored.

        Args:
            run_id: The dead run.
            host: Inventory name at that time.
            record: What recovery did and found; stored as `recovery` in the run's record.
        """
        self._recovery(run_id, host, State.RESTORED, record)

    def forgotten(self, run_id: str, host: str, record: object) -> None:
        """End the lease of a dead run's device without proof, on the operator's responsibility; see `recovered`.

        With the run's identifier as host: for all devices of a run that the journal has lost.
        """
        self._recovery(run_id, host, State.FAILED, record)
        if host == run_id:
            lock_of(self.directory, run_id).unlink(missing_ok=True)

    def _recovery(self, run_id: str, host: str, state: State, record: object) -> None:
        kept = None if record is None else json.dumps(stored_json(record))
        self._write(
            "UPDATE devices SET touched = 0, state = ?, updated_at = ?, "
            "record = CASE WHEN ? IS NULL THEN record "
            "ELSE json_set(COALESCE(record, '{}'), '$.recovery', json(?)) END "
            "WHERE run_id = ? AND host = ?",
            (state.value, now(), kept, kept, run_id, host),
        )
        self._files.remove(run_id, host)

    def is_original(self, device: LeasedDevice) -> bool:
        """Return whether a lease was taken in this journal, which is then no copy or backup.

        The generation of a lease is also in its lease file. A backup has no lease files, and in a copied folder their
        inodes differ. A damaged file counts as original.
        """
        if not device.snapshot.generation:
            return True
        keys = {(one.entry.run_id, one.entry.host): one for one in self._files.read()}
        found = keys.get((device.run_id, device.host))
        if found is None or isinstance(found.entry, DamagedEntry):
            return found is not None
        return not found.is_copy and found.entry.snapshot.generation == device.snapshot.generation

    @contextmanager
    def recovery_lock(self) -> Iterator[None]:
        """Prevent a second recovery while the block runs.

        Raises:
            ConfigInvalid: Another recovery is running.
        """
        with open_private(self.directory / "recover.lock", "w") as held:
            if not lock(held):
                raise ConfigInvalid("another 'flashferry recover' is running", hint="Wait for it to end")
            yield

    def record(self, run_id: str, host: str, record: object) -> None:
        """Store a device's record as JSON."""
        self._end(run_id, host, "record = COALESCE(?, record)", record, is_synced=False)

    def add_transfer(self, run_id: str, host: str, entry: TransferEntry) -> None:
        """Store a transfer with its samples, delivered or not, replacing an earlier row of it."""
        row = row_of(run_id, host, entry)
        self._change(lambda database: keep(database, row), is_synced=False)
        self._kept.add(key_of(run_id, host, entry.record))

    def _end(self, run_id: str, host: str, assignments: str, record: object, *, is_synced: bool) -> None:
        """Store a device's record, and annotate its transfers from it."""
        found = None if record is None else slim(run_id, host, record, self._kept)
        values = (None if record is None else json.dumps(found), now(), run_id, host)

        def write(database: sqlite3.Connection) -> None:
            database.execute(f"UPDATE devices SET {assignments}, updated_at = ? WHERE run_id = ? AND host = ?", values)  # noqa: S608 -- our own words
            annotate(database, run_id, host, found)

        self._change(write, is_synced=is_synced)

    def leased_devices(self) -> tuple[LeasedDevice, ...]:
        """Return all leased devices, the oldest first."""
        return tuple(row for row in self._leased() if isinstance(row, LeasedDevice))

    def other_identities(self, host: str) -> frozenset[str]:
        """Return the identities that devices of other inventory names had in any run. Reads all rows."""
        return self._read(lambda database: other_identities(database, host))

    def damaged_entries(self) -> tuple[DamagedEntry, ...]:
        """Return what the journal cannot be trusted about. Reads all rows.

        Unreadable leases, rows that do not match their checksum, and dead runs that the journal has lost (with the
        run's identifier as host).
        """
        found = self._leased()
        damaged = {(one.run_id, one.host): one for one in found if isinstance(one, DamagedEntry)}
        readable = {(one.run_id, one.host) for one in found if isinstance(one, LeasedDevice)}
        for row in self._read(unsound_devices):
            key = (str(row.run_id), str(row.host))
            if key not in readable:
                damaged.setdefault(key, DamagedEntry(run_id=key[0], host=key[1], address=str(row.address)))
        named = {run_id for run_id, _ in (*damaged, *readable)}
        for run_id in self.lost_runs():
            if run_id not in named:
                damaged[run_id, run_id] = DamagedEntry(run_id=run_id, host=run_id, address="?")
        return tuple(damaged.values())

    def _leased(self) -> list[LeasedDevice | DamagedEntry]:
        """Return the leases by their rows, and by the lease files if there is no readable row."""
        rows = self._read(lease_rows)
        found = {(row.run_id, row.host): leased_device(as_dict(row), is_sound=bool(row.is_sound)) for row in rows}
        for file in self._files.read():
            key = (file.entry.run_id, file.entry.host)
            known = found.get(key)
            if (isinstance(known, DamagedEntry) and isinstance(file.entry, LeasedDevice)) or (
                known is None and not self._is_over(file)
            ):
                found[key] = file.entry
        return list(found.values())

    def _is_over(self, file: LeaseFile) -> bool:
        """Return whether a lease of which only the file is left is known to have ended; remove the file then."""
        row = self._read(lambda database: lease_row(database, file.entry.run_id, file.entry.host))
        if row is None or not row.is_sound or row.attempt < file.attempt or row.state not in ENDED:
            return False
        self._files.remove(file.entry.run_id, file.entry.host)
        return True
