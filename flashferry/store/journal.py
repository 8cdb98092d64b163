"""The journal's runs: started, ended, resumed, and controlled from another terminal."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from flashferry.core.codec import stored_json, to_json
from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.core.json_access import Node
from flashferry.core.redaction import masked
from flashferry.core.state_folder import lock, make_private_directory, open_private, sweep
from flashferry.devices.errors import DeviceRefused
from flashferry.model.activation import Activation
from flashferry.model.lease import DamagedEntry, JournalUnusable, LeasedDevice, leased_device
from flashferry.model.states import ENDED, State, is_allowed
from flashferry.store.control import ControlRequest
from flashferry.store.control_requests import Asker, Origin, SteerKind
from flashferry.store.journal_writer import FileWatch, GroupedWriter, open_database, translate_errors
from flashferry.store.lease_files import COLUMNS, LeaseFile, LeaseFiles
from flashferry.store.reader import is_run_alive, lock_of, locked_runs, taken_lock, unknown_run
from flashferry.store.tables import (
    RunRow,
    SampledRow,
    columns_of,
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
    """The part of the journal that has to do with whole runs.

    Args:
        directory: State directory.
        origin: From where the runs come that are started or resumed with it.

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
        """Open a run, take its lock, and return its identifier: date, time and four random digits.

        Args:
            verb: `stage` or `probe`.
            request: What it takes to go on with the run after its death: inventory, images, options, plan; no secret.
        """
        kept = None if request is None else to_json(dict(request))
        come = self._origin
        # The row first: a lock without one is what a lost journal leaves.
        written = 0
        while not written:
            run_id = _fresh_id()
            written = self._write(
                # Another run of this second may have drawn the same digits.
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
        """Mark a run as ended in good order and free its lock."""
        self._write("UPDATE runs SET finished_at = ?, waiting_wave = NULL WHERE run_id = ?", (now(), run_id))
        if held := self._run_locks.pop(run_id, None):
            lock_of(self.directory, run_id).unlink(missing_ok=True)
            held.close()

    def reopen_run(self, run_id: str) -> None:
        """Go on with a run that died or ended: its lock is ours; requests to pause or stop it are forgotten.

        What was approved stays approved, who wanted what before is kept, and who began it stays who began it.

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
        """Keep the records of many devices, by host, that nothing was done with; all of them or none, in one write."""
        at = now()
        rows = [(json.dumps(to_json(record)), at, run_id, host) for host, record in records.items()]
        statement = "UPDATE devices SET record = ?, updated_at = ? WHERE run_id = ? AND host = ?"
        self._change(lambda database: database.executemany(statement, rows), is_synced=False)

    def lost_runs(self) -> tuple[str, ...]:
        """Return dead runs that left a lock here and of which the journal knows nothing: it was lost, or is an old one.

        A run that ends in good order removes its lock.
        """
        known = {run_id for run_id, _ in self._read(runs_by_age)}
        locked = locked_runs(self.directory)
        return tuple(run_id for run_id in locked if run_id not in known and not self.is_alive(run_id))

    def damaged_rows(self) -> int:
        """Return how many rows are not what was written; costs a look at all of them."""
        return sum(self._read(unsound_rows).values())

    def is_alive(self, run_id: str) -> bool:
        """Return whether the process that opened a run still lives."""
        return is_run_alive(self.directory, run_id)

    def request_of(self, run_id: str) -> dict[str, Any]:
        """Return what a run was asked for; empty where it did not say.

        Raises:
            ConfigInvalid: The run is unknown, or what it was asked for cannot be read.
        """
        stored = self._run_row(run_id).request
        try:
            return dict(json.loads(stored or "{}"))
        except (ValueError, TypeError):
            raise ConfigInvalid(
                f"run {run_id}: what it was asked for is damaged in the journal", hint="Begin a new run"
            ) from None

    def control(self, run_id: str) -> ControlRequest:
        """Return what operators want of a run; costs a query, so once a second is fine.

        Raises:
            ConfigInvalid: The run is unknown.
        """
        return ControlRequest.of(self._run_row(run_id))

    def set_control(
        self,
        run_id: str,
        *,
        paused: bool | None = None,
        stopping: bool | None = None,
        approved_wave: int | None = None,
        asker: Asker | None = None,
    ) -> None:
        """Change what operators want of a run, and keep who wanted it; what is None stays.

        An approved wave stays approved.

        Args:
            run_id: The run.
            paused: Whether no further device may begin.
            stopping: Whether it is to end what is under way.
            approved_wave: Up to which wave it may begin.
            asker: Who wants it and why; None where unknown.

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
        """Write which wave waits for approval, or None; `flashferry run` shows it and approves it."""
        self._write("UPDATE runs SET waiting_wave = ? WHERE run_id = ?", (wave, run_id))

    def _run_row(self, run_id: str) -> RunRow:
        """Return the row of a run."""
        found = self._read(lambda database: run_row(database, run_id))
        if found is None:
            raise unknown_run(run_id, [known for known, _ in self._read(runs_by_age)])
        return found

    def _write(self, statement: str, values: tuple[Any, ...]) -> int:
        """Change rows, on disk when this returns; return how many."""
        return self._change(lambda database: database.execute(statement, values).rowcount)

    def _change(self, work: Callable[[sqlite3.Connection], T], *, is_synced: bool = True) -> T:
        """Do a write; where it needs no sync, a power cut may lose it until the next one that does."""
        self._watch.check()
        with translate_errors(self.directory):
            return self._writer.write(work, is_synced=is_synced)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translate_errors(self.directory):
            return self._writer.read(work)


def now() -> str:
    """Return the time as the journal writes it: ISO 8601, UTC, milliseconds."""
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

"""One in a run's hands stays what it was when it was taken: recovery finds it there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDevice:
    """A device of a run, before anything is done with it.

    Attributes:
        host: Inventory name.
        address: Its address or DNS name.
        port: Its SSH port.
        platform: `ios`.
        site: Its site, or None.
        wave: Number of its wave.
        image: Name of the image that it is to get, or None.
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
        """Return a device of the inventory as it is entered."""
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
    """Put a device back to its start and its record among its attempts, in the caller's transaction.

    Raises:
        DeviceRefused: The device is still in a run's hands: what it was before must not be forgotten.
        ValueError: The run has no such device.
    """
    where = (run_id, host)
    row = device_row(database, run_id, host)
    if row is None:
        raise ValueError(f"{host}: run {run_id} has no such device")
    if row.touched:
        raise DeviceRefused(
            f"run {run_id} has this device in its hands, or left it before it was proven restored",
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

_COLUMNS = tuple(field.name for field in fields(SampledRow))

_INSERT = f"INSERT OR REPLACE INTO transfers ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"  # noqa: S608 -- our own words


def key_of(run_id: str, host: str, record: TransferRecord) -> Key:
    """Return what identifies a transfer: a ticket may be good for more than one try."""
    return run_id, host, record.ticket_id, utc(record.started_at)


def keep(database: sqlite3.Connection, row: SampledRow) -> None:
    """Write a transfer; the same one again replaces what was known of it."""
    database.execute(_INSERT, astuple(row))


def slim(run_id: str, host: str, record: object, kept: Collection[Key]) -> Any:
    """Return a record as JSON types, without the samples of a transfer that is kept by itself.

    They are nine tenths of a record, which is written more than once; a reader puts them back.
    """
    transfer = getattr(record, "transfer", None)
    if transfer is None or key_of(run_id, host, transfer) not in kept:
        return stored_json(record)
    return stored_json(replace(cast("DeviceRecord", record), transfer=replace(transfer, samples=())))


def annotate(database: sqlite3.Connection, run_id: str, host: str, record: Any) -> None:
    """Add to a device's transfers what only its record knows: the model, and the device's own clock on its last copy.

    The device's clock counts flash writing; what a copy to flash takes is known by it alone.
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
        origin: From where the runs come that are started or resumed with it; None: unknown.

    Raises:
        ConfigInvalid: The directory cannot be used.
    """

    def __init__(self, directory: Path, origin: Origin | None = None) -> None:
        super().__init__(directory, origin)
        self._kept: set[Key] = set()
        self._files = LeaseFiles(directory)

    def __enter__(self) -> Journal:
        """Return self."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the database and free this process's run locks."""
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
        """Enter a device of a run, untouched."""
        new = NewDevice(host=host, address=address, port=port, platform=platform, site=site, wave=wave, image=image)
        self.add_devices(run_id, (new,))

    def add_devices(self, run_id: str, devices: Iterable[NewDevice]) -> None:
        """Enter devices of a run, untouched: all of them or none, for what they wait for is the disk."""
        planned, at = State.PLANNED.value, now()
        rows = [
            (run_id, one.host, one.address, one.port, one.platform, one.site, one.wave, one.image, planned, at)
            for one in devices
        ]
        self._change(lambda database: database.executemany(INSERT_DEVICE, rows), is_synced=False)

    def exclude(self, run_id: str, devices: Sequence[tuple[NewDevice, DeviceRecord]]) -> None:
        """Enter devices that a run does not touch, each with what its report says of it: all of them or none."""
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
        """Have devices that a run has already be reached where the inventory has them now, but for those in its hands.

        A run that is gone on with may find them elsewhere; what recovers it goes where they were touched.
        """
        at = now()
        rows = [(one.address, one.port, one.platform, one.site, at, run_id, one.host) for one in devices]
        self._change(lambda database: database.executemany(UPDATE_DEVICE, rows), is_synced=False)

    def again(self, run_id: str, host: str) -> None:
        """Have a device of a run begin anew; what its attempt so far came to is kept beside the next one.

        Raises:
            DeviceRefused: The device is still in a run's hands; recovery comes first.
            ValueError: The run has no such device; a fault of ours.
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
        """Write what a device was and what we are about to set; on disk when this returns.

        Args:
            run_id: The run.
            host: Inventory name.
            identity: What the device calls itself (serial number and host name): the same router under two names or
                addresses is still one device.
            snapshot: What it was.
            changes: What we are about to set; may be empty, the lease holds all the same.
            target: Path of the copy, for `recover` to name what is left of it.
            members: Serial numbers of a stack's members: another one may be active when it is to be known again.
            activation: What is to be activated there, or None: nothing is.

        Raises:
            DeviceRefused: Another run has the device in its hands, or left it unrestored.
            JournalUnusable: It could not be written; nothing may be sent to the device then.
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
                "another run has this device in its hands, or died before it was proven restored",
                host=host,
                step="snapshot",
                hint="Wait for that run, or run 'flashferry recover'",
            ) from None

    def replan(self, run_id: str, host: str, changes: tuple[Change, ...]) -> None:
        """Write what we are about to set instead; on disk when this returns.

        A change of ours may be left out only where the device is proven not to hold it: a window that it refused, or
        a line that was not sent yet.
        """
        self._keep_file(run_id, host, {"changes": json.dumps(to_json(changes))})
        self._write(
            "UPDATE devices SET changes = ?, updated_at = ? WHERE run_id = ? AND host = ? AND touched = 1",
            (json.dumps(to_json(changes)), now(), run_id, host),
        )

    def activating(self, run_id: str, host: str, activation: Activation) -> None:
        """Write how far an activation has come; on disk when this returns, before the phase's first command.

        Raises:
            JournalUnusable: It could not be written; nothing may be sent to the device then.
        """
        kept = json.dumps(to_json(activation))
        self._keep_file(run_id, host, {"activation": kept})
        self._write(
            "UPDATE devices SET activation = ?, updated_at = ? WHERE run_id = ? AND host = ? AND touched = 1",
            (kept, now(), run_id, host),
        )

    def _keep_file(self, run_id: str, host: str, kept: dict[str, Any]) -> None:
        """Have the lease's file say what the row is about to say."""
        row = self._read(lambda database: columns_of(database, run_id, host, COLUMNS))
        if row is None:
            raise ValueError(f"{host}: run {run_id} has no such device")
        try:
            self._files.write(dict(zip(COLUMNS, row, strict=True)) | kept)
        except OSError as error:
            raise JournalUnusable(
                f"the lease of {host} cannot be written in {self.directory}: {error.strerror}",
                hint="Check the disk's room and the folder's rights",
            ) from None

    def move(self, run_id: str, host: str, state: State) -> None:
        """Move a device to its next state.

        Raises:
            ValueError: The table of states does not allow the step; a fault of ours.
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
        """End the lease: the device is proven to be what it was, but for changes of others.

        Args:
            run_id: The run.
            host: Inventory name.
            record: What became of the device so far. Kept in the same transaction: a change of others that restoring
                found is named even if we die behind it.
        """
        self._end(run_id, host, "touched = 0, record = COALESCE(?, record)", record, is_synced=True)
        self._files.remove(run_id, host)

    def recovered(self, run_id: str, host: str, record: object = None) -> None:
        """End the lease of a device of a dead run: it is proven restored, wherever that run left it.

        Args:
            run_id: The dead run.
            host: Inventory name at that time.
            record: What recovery did and found; kept as `recovery` beside what the run itself left of a record.
        """
        self._recovery(run_id, host, State.RESTORED, record)

    def forgotten(self, run_id: str, host: str, record: object) -> None:
        """End the lease of a device of a dead run without a proof: the operator answers for it; see `recovered`.

        Under the run's own name: of all that a run had in hand of which the journal knows nothing.
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
        """Return whether this journal is the one in which a lease was taken, and not a copy or a backup of it.

        Each lease has a generation, which is also in its file beside the journal until the lease ends. No backup has
        those files, and a copied folder has other files in their place. Where the file is damaged
        that is not known; it counts as original.
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
        """Keep a second recovery off the same devices for as long as the block runs.

        Raises:
            ConfigInvalid: Another recovery is running.
        """
        with open_private(self.directory / "recover.lock", "w") as held:
            if not lock(held):
                raise ConfigInvalid("another 'flashferry recover' is running", hint="Wait for it to end")
            yield

    def record(self, run_id: str, host: str, record: object) -> None:
        """Keep a device's record as JSON."""
        self._end(run_id, host, "record = COALESCE(?, record)", record, is_synced=False)

    def add_transfer(self, run_id: str, host: str, entry: TransferEntry) -> None:
        """Keep a transfer with its samples, delivered or not; the same one again replaces what was kept of it."""
        row = row_of(run_id, host, entry)
        self._change(lambda database: keep(database, row), is_synced=False)
        self._kept.add(key_of(run_id, host, entry.record))

    def _end(self, run_id: str, host: str, assignments: str, record: object, *, is_synced: bool) -> None:
        """Write a device's record, and beside its transfers what the record knows of them."""
        found = None if record is None else slim(run_id, host, record, self._kept)
        values = (None if record is None else json.dumps(found), now(), run_id, host)

        def write(database: sqlite3.Connection) -> None:
            database.execute(f"UPDATE devices SET {assignments}, updated_at = ? WHERE run_id = ? AND host = ?", values)  # noqa: S608 -- our own words
            annotate(database, run_id, host, found)

        self._change(write, is_synced=is_synced)

    def leased_devices(self) -> tuple[LeasedDevice, ...]:
        """Return all leased devices, the oldest first; `is_alive` says whether their run lives."""
        return tuple(row for row in self._leased() if isinstance(row, LeasedDevice))

    def other_identities(self, host: str) -> frozenset[str]:
        """Return what devices of other inventory names called themselves in any run; costs a look at all of them."""
        return self._read(lambda database: other_identities(database, host))

    def damaged_entries(self) -> tuple[DamagedEntry, ...]:
        """Return what the journal cannot be believed about; costs a look at all of it.

        Leased devices whose entry cannot be read; devices whose row is not what was written; and, under the run's own
        name, dead runs that the journal has lost.
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
        """Return the leases by the rows, and by the lease files where the rows have none."""
        rows = self._read(lease_rows)
        found = {(row.run_id, row.host): leased_device(asdict(row), is_sound=bool(row.is_sound)) for row in rows}
        for file in self._files.read():
            key = (file.entry.run_id, file.entry.host)
            known = found.get(key)
            if (isinstance(known, DamagedEntry) and isinstance(file.entry, LeasedDevice)) or (
                known is None and not self._is_over(file)
            ):
                found[key] = file.entry
        return list(found.values())

    def _is_over(self, file: LeaseFile) -> bool:
        """Return whether a lease that has only a file left is known to have ended; its file is removed then."""
        row = self._read(lambda database: lease_row(database, file.entry.run_id, file.entry.host))
        if row is None or not row.is_sound or row.attempt < file.attempt or row.state not in ENDED:
            return False
        self._files.remove(file.entry.run_id, file.entry.host)
        return True
