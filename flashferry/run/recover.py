"""Restore devices that killed runs left changed, and prove it: from a new process, even if the inventory changed.

An activation that was under way is completed as the run would have (see `flashferry.run.activation`).
The operator can decide two things by device name. A device is *accepted* as it is, once all our lines are gone, if a
difference of unknown origin is left. A device that is gone for good is *forgotten*: nothing is sent to it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from msgspec import Struct, field
from nornir.core import Nornir
from nornir.core.inventory import Host, Hosts, Inventory
from nornir.core.task import Result, Task

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.devices.connection import recent_of
from flashferry.devices.errors import Interrupted, OtherDevice
from flashferry.devices.identity import Identity, identity_of, is_ours
from flashferry.devices.session import DeviceSession
from flashferry.model.activation import Activation, ActivationReport
from flashferry.model.lease import DamagedEntry, LeasedDevice
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Restored, State
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.run.activation.recovery import Ending, end_activation, session_with
from flashferry.run.device.restore import held
from flashferry.store.journal import Journal
from tasks.partial_file import describe_partial_file
from tasks.read_config import read_running
from tasks.restore import RestoreReport, restore_device
from tasks.run_marker import SHOW_OUR_LINES
from tasks.snapshot import pending_change
from tasks.tcp_config import marks_in

PATIENCE_S = 900.0
"""A rollback timer takes two hours at most and mostly some minutes; a longer wait is left to the next recovery."""

RETRY_EVERY_S = 5.0


class RecoveryRecord(Struct, frozen=True, kw_only=True):
    """The result of recovery for one device.

    Attributes:
        host: Inventory name at the time of the killed run.
        run_id: The run that left the device changed.
        restored: Whether its configuration is now what it was.
        restore: The restore's report with the proof; None if it could not be tried.
        failure: Why it could not be restored; None if it was.
        partial_file: Path and size of the partial file on the device, or None.
        activation: Result of the activation that was under way, or None.
        is_accepted: Whether the restore is not proven, and the operator accepted the device as it is.
    """

    host: str
    run_id: str
    restored: Restored
    restore: RestoreReport | None
    failure: Failure | None
    partial_file: str | None
    activation: ActivationReport | None = None
    is_accepted: bool = False


def pending(journal: Journal, only: str | None = None) -> tuple[LeasedDevice, ...]:
    """Return the devices that killed runs left changed; only those of run `only` if given."""
    return tuple(
        device
        for device in journal.leased_devices()
        if only in (None, device.run_id) and not journal.is_alive(device.run_id)
    )


def recover(
    nornir: Nornir,
    journal: Journal,
    *,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    unusable: Mapping[str, FlashferryError] = MappingProxyType({}),
    only: str | None = None,
    confirmed: frozenset[str] = frozenset(),
    accepted: frozenset[str] = frozenset(),
    patience_s: float = PATIENCE_S,
) -> tuple[RecoveryRecord, ...]:
    """Restore every device that a killed run left changed.

    A device with a pending rollback or a locked configuration is read again once that has ended.

    Args:
        nornir: Source of the credentials. A device that is no longer in the inventory is reached at the address in the
            journal, with the inventory's default credentials.
        journal: The journal of the killed runs.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops: devices under way are finished, the others left for the next recovery.
        unusable: Why there is no login for a device, by inventory name; these devices are skipped.
        only: The one run to recover; None: all killed runs.
        confirmed: Devices that the operator confirms to be the right ones, whose run is not alive elsewhere.
        accepted: Devices that the operator accepts as they are, once our lines are removed as far as possible.
        patience_s: Longest wait in seconds for a rollback or a lock to end; 0: none.

    Raises:
        ConfigInvalid: Another recovery is running, or a killed run left no device of a given name.
    """
    with journal.recovery_lock():
        devices = _by_key(pending(journal, only))
        known = {device.host for device in devices.values()}
        for option, names in (("--device-is", confirmed), ("--accept", accepted)):
            if strange := sorted(names - known):
                raise ConfigInvalid(
                    f"{option} {strange[0]}: expected a device that a dead run still holds, found no such device",
                    hint="'flashferry status' names them",
                )
        damaged = tuple(
            _damaged(entry)
            for entry in journal.damaged_entries()
            if only in (None, entry.run_id) and not journal.is_alive(entry.run_id)
        )
        job = _Job(
            journal=journal,
            emit=never_failing(emit),
            interrupted=interrupted,
            unusable=unusable,
            confirmed=confirmed,
            accepted=accepted,
            patience_s=patience_s,
        )
        return (*damaged, *_recover_all(nornir, devices, job))


class _Job(Struct, frozen=True, kw_only=True):
    """The settings that all devices of a recovery share."""

    journal: Journal
    emit: Emit
    interrupted: Callable[[], bool]
    unusable: Mapping[str, FlashferryError]
    confirmed: frozenset[str]
    accepted: frozenset[str]
    patience_s: float
    started_s: float = field(default_factory=time.monotonic)

    def ending(self, host: str) -> Ending:
        """Return the settings for completing a device's activation."""
        return Ending(
            journal=self.journal,
            notify=lambda status, text: self.event(host, status, text),
            interrupted=self.interrupted,
            patience_s=self.patience_s,
        )

    def event(self, host: str, status: str, text: str) -> None:
        """Emit an event."""
        at_s = time.monotonic() - self.started_s
        self.emit(Event(host=host, step="recover", status=status, text=text, at_s=at_s))


def _recover_all(nornir: Nornir, devices: dict[str, LeasedDevice], job: _Job) -> tuple[RecoveryRecord, ...]:
    def one(task: Task) -> Result:
        device = devices[task.host.name]
        if job.interrupted():
            record = _left(device, Interrupted("stopped by the operator before this device", step="recover"))
        elif device.host in job.unusable:
            record = _left(device, job.unusable[device.host])
        else:
            job.event(device.host, "started", f"run {device.run_id} left it {device.state.value}")
            record = _recover_device(task, device, job)
        job.event(device.host, "failed" if record.failure else "done", record.failure.reason if record.failure else "")
        return Result(host=task.host, result=record)

    if not devices:
        return ()
    results = _fleet(nornir, devices).run(task=one, name="recover")
    return tuple(results[name][0].result for name in devices)


def _by_key(found: tuple[LeasedDevice, ...]) -> dict[str, LeasedDevice]:
    """Return devices by inventory name; if two entries share a name, address and run are appended.

    The address alone would not do: a router that was replaced between two killed runs keeps name and address, and
    neither entry may hide the other.
    """
    names = Counter(device.host for device in found)
    return {
        device.host
        if names[device.host] == 1
        else f"{device.host}@{device.address}:{device.port}/{device.run_id}": device
        for device in found
    }


def _recover_device(task: Task, device: LeasedDevice, job: _Job) -> RecoveryRecord:
    try:
        session = session_with(task, device, job.ending(device.host), partial(_check_is_meant, device=device, job=job))
        if device.activation is not None:
            return _activation_ended(task, device, device.activation, job)
        report = _restored(session, device, job)
        left = describe_partial_file(session, device.target or "null:")
        is_over = report.is_proven or not device.changes
        is_accepted = not is_over and device.host in job.accepted and not report.passes
        is_over = is_over or is_accepted
        record = RecoveryRecord(
            host=device.host,
            run_id=device.run_id,
            restored=_restored_state(report) if is_over else Restored.INCOMPLETE,
            restore=report,
            failure=None if is_over else held(report, device.host),
            partial_file=left,
            is_accepted=is_accepted,
        )
        if is_over:
            job.journal.recovered(device.run_id, device.host, record)
    except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' recovery
        return _left(device, error, recent_of(task).lines())
    finally:
        with suppress(Exception):  # the session goes with the process at the latest
            task.host.close_connections()
    return record


def _activation_ended(task: Task, device: LeasedDevice, activation: Activation, job: _Job) -> RecoveryRecord:
    report, is_as_it_should = end_activation(task, device, activation, job.ending(device.host))
    restored = Restored.UNTOUCHED if report.outcome.runs_new else Restored.RESTORED
    record = RecoveryRecord(
        host=device.host,
        run_id=device.run_id,
        restored=restored if is_as_it_should else Restored.FOREIGN_CHANGE,
        restore=None,
        failure=None,
        partial_file=None,
        activation=report,
    )
    job.journal.recovered(device.run_id, device.host, record)
    return record


def _restored(session: DeviceSession, device: LeasedDevice, job: _Job) -> RestoreReport:
    """Restore a device; restore it again when what could undo the restore has ended."""
    doubt = None
    if device.host not in job.confirmed and not job.journal.is_original(device):
        doubt = (
            f"this journal is a copy, or was restored from a backup: run {device.run_id} may be alive where it was "
            f"taken from, or over ('flashferry recover --device-is {device.host}' if neither is so)"
        )
    once = partial(
        restore_device,
        session,
        before=device.snapshot,
        changes=device.changes,
        is_again=device.state is State.FAILED,
        needs_mark=True,
        doubt=doubt,
        is_accepted=device.host in job.accepted,
    )
    report = once()
    deadline = time.monotonic() + job.patience_s
    while report.held_by is not None and report.passes and time.monotonic() < deadline:
        job.event(device.host, "waiting", f"{report.held_by}; it is looked at again when that is over")
        if not _is_over(session, job, deadline):
            break
        report = once()
    return report


def _is_over(session: DeviceSession, job: _Job, deadline: float) -> bool:
    """Wait until no rollback or lock can change the configuration; return whether that happened in time."""
    while time.monotonic() < deadline and not job.interrupted():
        time.sleep(RETRY_EVERY_S)
        if pending_change(session, read_running(session)) is None:
            return True
    return False


def _restored_state(report: RestoreReport) -> Restored:
    """Return the state of a released device. A line of ours that is left never counts as a change by others."""
    if report.left or report.hidden:
        return Restored.INCOMPLETE
    return Restored.RESTORED if report.is_proven else Restored.FOREIGN_CHANGE


def _check_is_meant(session: DeviceSession, *, device: LeasedDevice, job: _Job) -> None:
    """Raise if another device answers, before anything is sent, unless the operator confirmed the device."""
    if device.host in job.confirmed:
        return
    found = session.facts()
    expected = device.identity
    if expected is None or is_ours(
        session,
        Identity(name=expected, members=device.members),
        marks_in(device.changes),
        lambda: job.journal.other_identities(device.host),
    ):
        return
    raise OtherDevice(
        f"at {device.address}:{device.port} expected {expected} (serial number/host name), found "
        f"{identity_of(found)}: another device, on which nothing was set",
        host=device.host,
        step="recover",
        hint="Make the device that the run tuned reachable at this address again, then run 'flashferry recover'; if "
        f"this one is it, or took over its configuration, run 'flashferry recover --device-is {device.host}'; if that "
        f"one is gone for good, end its lease with 'flashferry recover --forget {device.host}'",
    )


def not_restored(entry: LeasedDevice | DamagedEntry, failure: Failure) -> RecoveryRecord:
    """Return the record of a device that was left as it is, with the reason."""
    return RecoveryRecord(
        host=entry.host,
        run_id=entry.run_id,
        restored=Restored.INCOMPLETE,
        restore=None,
        failure=failure,
        partial_file=None,
    )


def _left(device: LeasedDevice, error: Exception, transcript: tuple[str, ...] = ()) -> RecoveryRecord:
    return not_restored(device, failure_of("recover", error, transcript))


def _damaged(entry: DamagedEntry) -> RecoveryRecord:
    if entry.host == entry.run_id:
        failure = Failure(
            step="recover",
            reason=f"run {entry.run_id} left its lock and the journal knows nothing of it: the journal was lost, or an "
            "older one put in its place; which devices that run had in hand is not known",
            hint=f"Put the journal back, or look with '{SHOW_OUR_LINES}' on the devices of that night, then run "
            f"'flashferry recover --forget {entry.run_id}'",
            kind=Kind.JOURNAL_UNUSABLE,
        )
        return not_restored(entry, failure)
    failure = Failure(
        step="recover",
        reason=f"the journal's entry of {entry.address} is damaged",
        hint=f"Compare the lines of '{SHOW_OUR_LINES}' on the device by hand, then run 'flashferry recover "
        f"--forget {entry.host}'",
        kind=Kind.JOURNAL_UNUSABLE,
    )
    return not_restored(entry, failure)


def _fleet(nornir: Nornir, devices: dict[str, LeasedDevice]) -> Nornir:
    """Return a Nornir over the journal's devices and addresses, with the inventory's credentials."""
    hosts = Hosts()
    for name, device in devices.items():
        known = nornir.inventory.hosts.get(device.host)
        hosts[name] = Host(
            name=name,
            hostname=device.address,
            port=device.port,
            platform=device.platform,
            username=known.username if known else None,
            password=known.password if known else None,
            groups=known.groups if known else None,
            data=known.data if known else None,
            connection_options=known.connection_options if known else None,
            defaults=nornir.inventory.defaults,
        )
    inventory = Inventory(hosts=hosts, groups=nornir.inventory.groups, defaults=nornir.inventory.defaults)
    return Nornir(inventory=inventory, runner=nornir.runner, config=nornir.config)


def forget(journal: Journal, names: Iterable[str]) -> tuple[RecoveryRecord, ...]:
    """End the lease of devices that killed runs left. Nothing is sent to them, and they do not count as restored.

    The lines to remove stay in the journal and in the records.

    Args:
        journal: The journal of the killed runs.
        names: Inventory names at the time of those runs, or `RUN/NAME` if several runs left one.

    Raises:
        ConfigInvalid: No run, several runs or a live run holds a device of that name, or a recovery is running. No
            lease was ended.
    """
    with journal.recovery_lock():
        held: tuple[LeasedDevice | DamagedEntry, ...] = (*journal.leased_devices(), *journal.damaged_entries())
        meant = [_entry(journal, held, name) for name in dict.fromkeys(names)]
        records = tuple(_record(entry) for entry in meant)
        for record in records:
            journal.forgotten(record.run_id, record.host, record)
        return records


def _entry(journal: Journal, held: Iterable[LeasedDevice | DamagedEntry], name: str) -> LeasedDevice | DamagedEntry:
    found = [entry for entry in held if name in (entry.host, f"{entry.run_id}/{entry.host}")]
    if not found:
        raise ConfigInvalid(
            f"--forget {name}: expected a device that a dead run still holds, found no such device",
            hint="'flashferry status' names them",
        )
    if len(found) > 1:
        # A replaced router keeps its name: one entry may be of the old router, another of the new one.
        each = " or ".join(f"{entry.run_id}/{entry.host}" for entry in found)
        raise ConfigInvalid(f"--forget {name}: {len(found)} runs left a device of that name", hint=f"Say which: {each}")
    (entry,) = found
    if journal.is_alive(entry.run_id):
        raise ConfigInvalid(
            f"--forget {name}: run {entry.run_id} is alive and holds it",
            hint=f"Let it end, or stop it with 'flashferry run stop {entry.run_id}'",
        )
    return entry


def _record(entry: LeasedDevice | DamagedEntry) -> RecoveryRecord:
    failure = Failure(
        step="recover",
        reason=f"ended by hand, nothing was sent or looked at; {_left_to_do(entry)}",
        hint=None,
        kind=Kind.FORGOTTEN,
    )
    return not_restored(entry, failure)


def _left_to_do(entry: LeasedDevice | DamagedEntry) -> str:
    """Return in words what recovery would have undone."""
    if isinstance(entry, DamagedEntry):
        return "the journal's entry is damaged, so what was changed is not known"
    if entry.activation is not None:
        return f"the run may have restarted it into {entry.activation.image} ({entry.activation.phase.value})"
    if not entry.changes:
        return "the run meant to change no line of it"
    swaps = [(change.ours, f"'{change.before}'" if change.before else "no line") for change in entry.changes]
    return "the run may have set " + ", ".join(f"'{ours}' where there was {before}" for ours, before in swaps)
