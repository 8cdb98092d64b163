"""The state of one device in an activation: settings, record, journal state, events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from msgspec import Struct, field
from nornir.core.task import Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of
from flashferry.devices.errors import Stopped
from flashferry.model.activation import ActivationLimits, ActivationOutcome, ActivationReport
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, failure_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.monitor.events import Emit
from flashferry.run.device_recorder import DeviceRecorder
from flashferry.store.journal import Journal
from inventory.host_view import HostView
from tasks.activating.restart import STEP
from tasks.check import TargetImage
from tasks.readiness.values import Readiness


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
    """Return the failure of a finished activation that is not good."""
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
