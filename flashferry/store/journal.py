"""The journal: what a device was before we touched it, on disk before we touch it.

SQLite in WAL mode. Every committed row survives a kill -9. What recovery needs (a run's start and end, leases, changes,
activations, recoveries) is synced when the call returns (`synchronous=FULL`) and survives a power cut; states, records
and transfers are synced with the next of these writes.
A unique index over the devices in our hands is the lease that keeps two runs off the same device. It holds within one
state directory: two users, or two machines, must share out the devices by themselves (a WAL database does not work over
a network file system). A run holds a file lock while it lives, so a dead run is known by its free lock, whatever killed
it; process numbers are reused, locks are not.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import stored_json, to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import lock, open_private
from flashferry.devices.errors import DeviceRefused
from flashferry.model.activation import Activation
from flashferry.model.lease import DamagedEntry, JournalUnusable, LeasedDevice, leased_device
from flashferry.model.states import ENDED, State, is_allowed
from flashferry.store.control_requests import Origin
from flashferry.store.journal_rows import (
    INSERT_DEVICE,
    UPDATE_DEVICE,
    Key,
    NewDevice,
    annotate,
    begin_anew,
    keep,
    key_of,
    slim,
)
from flashferry.store.journal_runs import JournalRuns, now
from flashferry.store.lease_files import COLUMNS, LeaseFile, LeaseFiles
from flashferry.store.run_lock import lock_of
from flashferry.store.tables import columns_of, lease_row, lease_rows, other_identities, unsound_devices
from flashferry.store.transfer_row import TransferEntry, row_of
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change

if TYPE_CHECKING:
    from flashferry.model.record import DeviceRecord


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
