"""Activate one device: check that it is ready, journal its state, restart it once, follow it to the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct, field
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, remark, session_of
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, Interrupted, OutputNotUnderstood, Stopped
from flashferry.devices.identity import LoginGuard, guard_logins, identity_of, member_serials
from flashferry.images.file_name import release_in
from flashferry.model.activation import Activation, ActivationLimits, ActivationOutcome, ActivationReport, Phase
from flashferry.model.doubts import doubts_about
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, failure_of, sentence_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.monitor.events import Emit
from flashferry.run.activation.following import Following, Reading
from flashferry.run.device_recorder import DeviceRecorder
from flashferry.store.journal import Journal
from flashferry.store.leases import lease_by_name, lease_on, leases
from flashferry.store.staged import doubts
from inventory.host_view import HostView
from inventory.time_window import closes_at
from tasks.activating.boot_order import BootOrder, boot_lines, boot_orders, objection_to, save, set_boot_order
from tasks.activating.restart import STEP, activate_added, reload_device
from tasks.activating.service_state import ServiceState, read_service_state
from tasks.check import TargetImage
from tasks.file_system import file_system_of_image
from tasks.read_config import read_running
from tasks.readiness.check import check_readiness
from tasks.readiness.values import Readiness, Verdict
from tasks.snapshot import Snapshot, take_snapshot
from tasks.software_state import Mode, SoftwareState, read_software

if TYPE_CHECKING:
    from flashferry.devices.session import DeviceSession


class DeviceActivation(Struct, frozen=True, kw_only=True):
    """The settings of one device.

    Attributes:
        host: The inventory's values.
        target: The image to activate.
        identity: Serial number and host name at the time of the plan, or None.
        wave: Number of its round.
    """

    host: HostView
    target: TargetImage
    identity: str | None
    wave: int


class ActivationContext(Struct, frozen=True, kw_only=True):
    """The settings that all devices of an activation share.

    Attributes:
        journal: Each phase is written to it before its command.
        interrupted: Whether nothing new may start. A device that was restarted is still followed to its end.
        hash_speeds: Hash speed in bytes per second by device, from earlier runs.
        staged_members: Numbers of the stack members at staging, by device and image.
        signature: Whether devices verify the vendor's signature again.
        started_s: Start of the run, by the monotonic clock.
    """

    run_id: str
    journal: Journal
    limits: ActivationLimits
    emit: Emit
    interrupted: Callable[[], bool]
    hash_speeds: Mapping[str, float] = field(default_factory=dict)
    staged_members: Mapping[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)
    signature: bool = True
    started_s: float = 0.0


class ActivationRun(DeviceRecorder):
    """The mutable state of one device in an activation. Only the first failure is kept.

    Attributes:
        is_held: Whether the device's lease is held.
    """

    def __init__(self, task: Task, device: DeviceActivation, context: ActivationContext) -> None:
        record = DeviceRecord(host=device.host.name, image=device.target.image.name, seconds_by_step={})
        super().__init__(
            task,
            record,
            emit=context.emit,
            started_s=context.started_s,
            site=device.host.site,
            wave=device.wave,
        )
        self._context = context
        self.is_held = False

    def move(self, *states: State) -> None:
        """Enter states one after the other. An unusable journal is ignored: the record still changes."""
        for state in states:
            if self.record.state is not state:
                with suppress(JournalUnusable, ValueError):
                    self._context.journal.move(self._context.run_id, self.record.host, state)
                self.update(state=state)

    def refuse(self, found: Readiness) -> None:
        """Record that the device is not ready."""
        why = "; ".join(one.sentence for one in found.blocking[:3]) or found.verdict.value
        failure = Failure(
            step="ready",
            reason=f"not ready to boot {found.image}: {why}",
            hint=f"Look with 'flashferry ready --host {self.record.host}' at what it rests on",
            kind=Kind.POLICY_VIOLATION,
        )
        self.update(outcome=Outcome.REFUSED, failure=failure)
        self.move(State.FAILED)

    def fail(self, error: BaseException) -> None:
        """Record the first failure. A device whose lease is held stays in the journal for recovery."""
        failure = failure_of(STEP, error, recent_of(self.task).lines())
        if self.record.failure is None:
            outcome = Outcome.FAILED if isinstance(error, FlashferryError) else Outcome.ERROR
            self.update(outcome=Outcome.INTERRUPTED if isinstance(error, Stopped) else outcome, failure=failure)
        elif self.is_held:
            # The reason why the activation is incomplete outweighs the first failure.
            self.update(restore_failure=failure)
        if not self.is_held:
            self.move(State.FAILED)
        elif self.record.activation is None:
            self.update(restored=Restored.INCOMPLETE)

    def take(self, report: ActivationReport, *, is_as_before: bool) -> None:
        """Record the result and end the lease.

        `is_as_before` says whether the configuration is unchanged; it matters where the old image runs.
        """
        is_good = report.outcome.is_good
        self.update(activation=report)
        if is_good:
            # The device is good: an earlier error does not count.
            self.update(outcome=Outcome.DONE, failure=None)
        elif self.record.failure is None:
            self.update(outcome=Outcome.FAILED, failure=failure_of_activation(report))
        if not report.outcome.runs_new:
            self.update(restored=Restored.RESTORED if is_as_before else Restored.FOREIGN_CHANGE)
        self._context.journal.release(self._context.run_id, self.record.host, self.record)
        self.is_held = False
        self.move(*((State.ACTIVATED, State.DONE) if is_good else (State.FAILED,)))

    def emit_end(self) -> None:
        """Emit the device's result as an event."""
        record = self.record
        done = record.activation.outcome.value if record.activation is not None else record.outcome.value
        is_good = record.outcome.is_good
        failure = record.failure
        self.event(
            "device",
            "done" if is_good else "failed",
            done if failure is None else f"{done}: {failure.step}: {failure.reason}",
            outcome=record.outcome.value,
            restored=record.restored.value,
            failure=failure.kind if failure else None,
        )


def failure_of_activation(report: ActivationReport) -> Failure:
    """Return why a finished activation counts as failed; only for outcomes that are not good."""
    reason, hint = _REASONS[report.outcome]
    text = reason.format(release=report.to_release, lacks="; ".join(report.lacks) or "it could not be committed")
    return Failure(step=STEP, reason=text, hint=hint, kind=Kind.DEVICE_REFUSED)


_REASONS = {
    ActivationOutcome.ROLLED_BACK: (
        "not committed, and the old image runs again: {lacks}",
        "Find out why the new image did not do what the old one does before it is tried again",
    ),
    ActivationOutcome.CAME_BACK_OLD: (
        "it restarted, and runs {release} as before",
        "Look at its console log for why it did not boot the image; its configuration is what it was",
    ),
    ActivationOutcome.LACKING: (
        "it runs {release} for good, and lacks what was there: {lacks}",
        "Look at the device; nothing restarts it a second time",
    ),
    ActivationOutcome.NOT_ACTIVATED: (
        "it runs {release} as before, and was not restarted",
        "Look at the device's lines, and ask 'flashferry ready' again",
    ),
}


def activate_device(task: Task, device: DeviceActivation, context: ActivationContext) -> Result:
    """Nornir task: activate a device and return its DeviceRecord. Never raises for a device's fault."""
    work = _Work(task, device, context)
    record = work.execute()
    try:
        context.journal.record(context.run_id, record.host, record)
    except JournalUnusable as error:
        work.run.update(failure=record.failure or failure_of("record", error))
    work.run.emit_end()
    done = record.activation
    changed = done is not None and done.outcome is not ActivationOutcome.NOT_ACTIVATED
    return Result(host=task.host, result=work.run.record, changed=changed)


class _Work:
    """The steps of one device."""

    def __init__(self, task: Task, device: DeviceActivation, context: ActivationContext) -> None:
        self._task, self._device, self._context = task, device, context
        self._name = device.host.name
        self.run = ActivationRun(task, device, context)
        guard_logins(task, LoginGuard())

    def execute(self) -> DeviceRecord:
        """Carry out all steps and return the record."""
        try:
            self._run_steps()
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others'
            self.run.fail(error)
        finally:
            with suppress(Exception):  # the session goes with the process at the latest
                self._task.host.close_connections()
        return self.run.record

    def _run_steps(self) -> None:
        with self.run.timed("connect"):
            session = session_of(self._task)
            remark(self._task, f"run {self._context.run_id}, activate")
        self._check_free(session)
        self._check_planned(session)
        if not self._is_ready(session):
            return
        with self.run.timed("snapshot"):
            software = read_software(session)
            before = read_service_state(session, software)
            snapshot = take_snapshot(session)
        self._check_comparable(session, before)
        activation = self._planned(session, software, before)
        self._check_stop()
        self._acquire(session, activation, snapshot)
        with self.run.timed(STEP):
            self._activate(activation, snapshot)

    # Before anything is sent.

    def _check_free(self, session: DeviceSession) -> None:
        """Refuse a device whose lease another run holds or left."""
        held = leases(self._context.journal.directory, besides=self._context.run_id)
        found = lease_by_name(held, self._device.host)
        if found is None and held:
            found = lease_on(held, session.facts(), member_serials(session.show_version()))
        if found is not None:
            raise found.refusal(self._name)

    def _check_planned(self, session: DeviceSession) -> None:
        found = identity_of(session.facts())
        planned = self._device.identity
        if planned is not None and planned != found:
            raise self._refusal(
                f"the plan was made for {planned} (serial number/host name), this is {found}",
                "Make a new plan",
                step="check",
            )
        self._check_window()

    def _check_window(self) -> None:
        windows = self._device.host.windows
        if windows and closes_at(windows, datetime.now(UTC)) is None:
            raise self._refusal(
                "its time window is closed",
                "Activate it when the window of its site is open (key 'windows' in the inventory)",
                step="check",
            )
        self._check_stop()

    def _is_ready(self, session: DeviceSession) -> bool:
        """Return whether the device is ready to boot the image. Checked again, since staging may be long ago."""
        with self.run.timed("ready"):
            image, names = self._device.target.image.name, (self._name, identity_of(session.facts()))
            known = doubts_about(doubts(self._context.journal.directory, *names), *names, image)
            found = check_readiness(
                session,
                self._device.target,
                false_copy=known.of_hash,
                failed_add=known.of_add,
                signature=self._context.signature,
                expected_members=self._context.staged_members.get((self._name, image)),
                known_bytes_per_s=self._context.hash_speeds.get(self._name),
                interrupted=self._context.interrupted,
            )
        self.run.update(readiness=found)
        return self._may_go_on(found)

    def _may_go_on(self, found: Readiness) -> bool:
        if found.verdict is Verdict.RUNS_IT:
            self.run.update(outcome=Outcome.ALREADY_THERE)
            self.run.move(State.CHECKED, State.DONE)
            return False
        if found.verdict is not Verdict.YES:
            self.run.refuse(found)
            return False
        self.run.move(State.CHECKED)
        return True

    def _check_comparable(self, session: DeviceSession, before: ServiceState) -> None:
        """Refuse a device that shows no interface as up: nothing could be found missing after the restart."""
        if not before.interfaces_up:
            raise OutputNotUnderstood(
                f"'{session.platform.commands.interfaces}': expected an interface that is up, found none: after the "
                "restart nothing could be found lacking",
                host=self._name,
                step="snapshot",
                hint="Give the command by hand as that user: the user must be allowed to give it",
            )

    def _planned(self, session: DeviceSession, software: SoftwareState, before: ServiceState) -> Activation:
        """Return the activation to journal. Raises where it is not possible or the boot mode is unknown."""
        name = self._device.target.image.name
        file_system = file_system_of_image(software.version, session.platform.file_systems)
        if software.mode is Mode.UNKNOWN or file_system is None:
            raise self._unknown_mode(software)
        is_install = software.mode is Mode.INSTALL
        path = f"{file_system}{name}"
        order = None if is_install else self._boot_orders(session, software, path)[0]
        return Activation(
            phase=Phase.INTENDED,
            is_install=is_install,
            image=name,
            path=path,
            version=self._added(software) if is_install else None,
            before=before,
            order=order,
            limits=self._context.limits,
            since=datetime.now(UTC).isoformat(timespec="seconds"),
        )

    def _unknown_mode(self, software: SoftwareState) -> OutputNotUnderstood:
        return OutputNotUnderstood(
            f"expected a device in install or bundle mode that was started from its flash, found mode "
            f"'{software.mode.value}', file {software.running_file or 'none'}",
            host=self._name,
            step=STEP,
        )

    def _added(self, software: SoftwareState) -> str:
        """Return the image's version as 'show install summary' lists it."""
        found = self.run.record.readiness
        release = release_in(found.version or "") if found is not None else None
        versions = [one for one in software.versions("I") if release is not None and release_in(one) == release]
        if len(versions) != 1:
            raise self._refusal(
                f"expected {self._device.target.image.name} to be added, found "
                f"{', '.join(software.versions('I')) or 'nothing'} added",
                "Stage it with --add first",
            )
        return versions[0]

    def _boot_orders(self, session: DeviceSession, software: SoftwareState, path: str) -> tuple[BootOrder, ...]:
        """Return the possible boot orders with the image first, the likeliest spelling first."""
        if software.has_standby and not software.is_stack:
            raise self._refusal(
                "expected one supervisor, or install mode; found a second one, which a reload would switch over to "
                "with the old image",
                "Activate it by hand: boot order, save, then 'redundancy reload shelf' where the platform has it",
            )
        before = boot_lines(read_running(session).lines)
        orders = boot_orders(before, path)
        if (found := objection_to(before, orders, is_stack=software.is_stack)) is not None:
            raise self._refusal(
                f"expected 'boot system' lines that an image can be put in front of, found {found}",
                "Put the image in front by hand, or make it one line for all members, save, then activate again",
            )
        return orders

    def _acquire(self, session: DeviceSession, activation: Activation, snapshot: Snapshot) -> None:
        self._context.journal.acquire_lease(
            self._context.run_id,
            self._name,
            identity=identity_of(session.facts()),
            snapshot=snapshot,
            changes=(),
            target=activation.path,
            members=member_serials(session.show_version()),
            activation=activation,
        )
        self.run.is_held = True
        # The journal has this state from the lease on.
        self.run.update(state=State.JOURNALED)

    # With the lease.

    def _following(self, activation: Activation, snapshot: Snapshot) -> Following:
        return Following(
            self._task,
            activation,
            snapshot,
            keep=lambda one: self._context.journal.activating(self._context.run_id, self._name, one),
            notify=lambda status, text: self.run.event(STEP, status, text),
            interrupted=self._context.interrupted,
        )

    def _activate(self, activation: Activation, snapshot: Snapshot) -> None:
        following = self._following(activation, snapshot)
        try:
            restart = self._restarted if activation.is_install else self._reloaded
            restart(following)
        except FlashferryError as error:
            if not _may_restart(following.activation.phase, error):
                # Not restarted: our changes are undone.
                self.run.fail(error)
                following.drop_session()
                self._end(following, self._stayed(following))
                return
            self.run.event(STEP, "note", f"{sentence_of(error)}; it may restart all the same, and is waited for")
        following.drop_session()
        self._end(following, following.await_return())

    def _stayed(self, following: Following) -> Reading:
        """Read a device that should not restart. One that refused but restarts all the same is followed to its end.

        The device's state decides: a printed failure may be another user's broadcast message.
        """
        try:
            return following.await_return(limit_s=0.0, is_going=lambda: False)
        except DeviceUnreachable as error:
            if following.activation.phase not in _COMMANDED:
                raise
            self.run.event(STEP, "note", f"it said no, and is waited for: {sentence_of(error)}")
            return following.await_return(is_going=lambda: False)

    def _end(self, following: Following, reading: Reading) -> None:
        report = following.finish(reading)
        self.run.take(report, is_as_before=report.outcome.runs_new or following.is_as_before())

    def _restarted(self, following: Following) -> None:
        following.enter(Phase.ACTIVATING)
        session = following.session()
        gone = activate_added(
            session,
            timer_min=self._context.limits.timer_min,
            notify=lambda line: self.run.event(STEP, "progress", line),
        )
        following.commands.append(gone.command)
        self.run.event(STEP, "note", f"restarting: '{gone.command}'")

    def _reloaded(self, following: Following) -> None:
        session = following.session()
        order = self._ordered(following, session)
        if not following.is_only_ours(session):
            raise self._refusal(
                "the configuration was changed by others since it was read; saving would keep that, too",
                "Have it saved or taken back by its owner, then activate again",
            )
        save(session, expected=order.wanted)
        following.commands.append(session.platform.commands.save)
        self._check_stop()
        following.enter(Phase.RELOADING)
        following.commands.append(reload_device(session).command)
        self.run.event(STEP, "note", "restarting: reload confirmed")

    def _ordered(self, following: Following, session: DeviceSession) -> BootOrder:
        """Set the boot order in the first spelling that the device accepts, and return it."""
        planned = following.activation.order
        assert planned is not None
        if boot_lines(read_running(session).lines) != planned.before:
            raise self._refusal(
                "the boot order was changed by others since it was read",
                "Have it saved or taken back by its owner, then activate again",
            )
        *others, last = boot_orders(planned.before, following.activation.path)
        for order in others:
            following.enter(Phase.ORDERING, order)
            with suppress(DeviceRefused):
                set_boot_order(session, order)
                return order
        following.enter(Phase.ORDERING, last)
        set_boot_order(session, last)
        return last

    def _refusal(self, reason: str, hint: str, *, step: str = STEP) -> DeviceRefused:
        return DeviceRefused(reason, host=self._name, step=step, hint=hint)

    def _check_stop(self) -> None:
        if self._context.interrupted():
            raise Interrupted("stopped by the operator before it was restarted", host=self._name, step=STEP)


_COMMANDED = frozenset({Phase.ACTIVATING, Phase.RELOADING})
"""Phases in which the restart command may have been sent."""


def _may_restart(phase: Phase, error: FlashferryError) -> bool:
    """Return whether a device may restart after an error: the command may have reached it and was not refused."""
    if phase not in _COMMANDED:
        return False
    return not isinstance(error, DeviceRefused | JournalUnusable | Stopped)
