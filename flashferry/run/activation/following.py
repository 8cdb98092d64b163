"""Follow a device from its restart to a proven end: commit, automatic rollback, or the old image again."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import (
    DeviceRefused,
    DeviceUnreachable,
    HostKeyRefused,
    Interrupted,
    LoginRefused,
    OtherDevice,
    OutputNotUnderstood,
    RestoreIncomplete,
)
from flashferry.devices.session import DeviceSession
from flashferry.model.activation import Activation, ActivationOutcome, ActivationReport, Phase, Sighting, sighting
from flashferry.run.device_recorder import drop_session
from tasks.activating.boot_order import BootOrder, boot_lines, differs_only_by, save, undo_boot_order
from tasks.activating.restart import STEP, commit_active
from tasks.activating.service_state import ServiceState, read_service_state
from tasks.read_config import difference, read_running, read_startup
from tasks.snapshot import Snapshot
from tasks.software_state import SoftwareState, Topic, read_software


class Reading(Struct, frozen=True, kw_only=True):
    """One reading of a device after its restart.

    Attributes:
        software: The software state that was read.
        seen: What that means for the activation.
        has_restarted: Whether the device was restarted since the command; None if unknown or not read.
    """

    session: DeviceSession
    software: SoftwareState
    seen: Sighting
    has_restarted: bool | None = None


class Wait:
    """The wait for a restarting device to answer, for at most `limit_s` seconds.

    Attributes:
        refused: Number of refused logins.
        last: The last state read, or the last error.
    """

    def __init__(self, *, host: str, limit_s: float) -> None:
        self._host, self._limit_s = host, limit_s
        self._began_s = time.monotonic()
        self._away_since_s: float | None = None
        self.refused = 0
        self.last = "nothing"

    @property
    def was_away(self) -> bool:
        """Return whether the device failed to answer at least once."""
        return self._away_since_s is not None

    @property
    def away_s(self) -> float | None:
        """Return for how many seconds the device has been away; None if it always answered."""
        return None if self._away_since_s is None else round(time.monotonic() - self._away_since_s, 1)

    def is_away(self, why: str) -> None:
        """Record that the device does not answer."""
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
        self.last = why

    def check(self, last: str) -> None:
        """Raise if the limit has passed.

        Raises:
            DeviceUnreachable: The limit has passed.
        """
        if time.monotonic() - self._began_s > self._limit_s:
            raise DeviceUnreachable(
                f"expected it back within {self._limit_s / 60:.0f} min with one image or the other, found: {last}",
                host=self._host,
                step=STEP,
                hint="Look at its console. Nothing restarts it a second time; 'flashferry recover' shows what it "
                "runs once it answers, and completes the activation",
            )


def is_for_good(reading: Reading, *, was_away: bool, is_going: bool) -> bool:
    """Return whether a reading is final: the new image runs, or the old one and no restart is to come."""
    if reading.seen is Sighting.COMMITTED:
        return True
    if reading.seen is Sighting.NEW_RUNS:
        return reading.has_restarted is not False
    if reading.seen is not Sighting.OLD_RUNS:
        return False
    return not is_going or (was_away if reading.has_restarted is None else reading.has_restarted)


LOGINS_REFUSED = 3
"""Refused logins that end the wait. An AAA server may be unreachable just after a start, but attempts lock accounts."""

COMMITS = 3
"""Attempts to commit. A commit restarts nothing, and another operation may block it for a minute."""

COMMIT_PAUSE_S = 20.0

UPTIME_SLACK_S = 120.0
"""Uptimes are printed to the minute, and our own clock may be set."""

_BEFORE_RESTART = frozenset({Phase.INTENDED, Phase.ORDERING, Phase.RELOADING, Phase.ACTIVATING})
"""Phases that a device enters before its restart."""

Notify = Callable[[str, str], None]
"""Receives a step's status and text."""


class Following:
    """Follows one device after its restart. Its logins are guarded against other devices.

    Args:
        activation: The device's entry in the journal.
        before: The configuration before the activation.
        keep: Writes the activation's phase to disk.
        patience_s: Longest wait for the device's own timer, in seconds; None: until it must have expired.
    """

    def __init__(
        self,
        task: Task,
        activation: Activation,
        before: Snapshot,
        *,
        keep: Callable[[Activation], None],
        notify: Notify,
        interrupted: Callable[[], bool],
        patience_s: float | None = None,
    ) -> None:
        self._patience_s = patience_s
        self._task, self._before = task, before
        self._keep, self._notify, self._interrupted = keep, notify, interrupted
        self.activation = activation
        self.commands: list[str] = []
        self.away_s: float | None = None

    # What the journal has.

    def enter(self, phase: Phase, order: BootOrder | None = None) -> None:
        """Write a phase to disk before its first command, with the boot order if one is about to be sent.

        Raises:
            JournalUnusable: The phase could not be written; nothing may be sent.
        """
        activation = replace(self.activation, phase=phase, since=_now(), order=order or self.activation.order)
        self._keep(activation)
        self.activation = activation

    # Sessions.

    def session(self) -> DeviceSession:
        """Return the open session, or a new one if it was lost."""
        return session_of(self._task)

    def drop_session(self) -> None:
        """Close the session without a dialogue: the device may be restarting."""
        drop_session(self._task)

    # After the restart.

    def await_return(self, *, limit_s: float | None = None, is_going: Callable[[], bool] = lambda: True) -> Reading:
        """Wait until the device shows a final state: the new image, or the old one after a restart.

        Args:
            limit_s: Longest wait in seconds; None: the activation's own limit.
            is_going: Whether a restart may still come. Then a running old image proves nothing, and neither does a
                device that was away but shows an older uptime: the path to it may break.

        Raises:
            DeviceUnreachable: The device does not answer within the limit, or shows no known state.
            OtherDevice: Another device answers.
            LoginRefused: The device refuses logins.
        """
        limits = self.activation.limits
        wait = Wait(host=self._task.host.name, limit_s=limits.boot_limit_s if limit_s is None else limit_s)
        while True:
            reading = self._tried(wait)
            if reading is not None and is_for_good(reading, was_away=wait.was_away, is_going=is_going()):
                return reading
            self.drop_session()
            wait.check(reading.seen.value if reading is not None else wait.last)
            time.sleep(limits.look_every_s)

    def _tried(self, wait: Wait) -> Reading | None:
        """Return a reading, or None. Raises if another device answers or logins are refused."""
        try:
            reading = self._read()
        except (OtherDevice, HostKeyRefused):
            raise
        except LoginRefused:
            wait.refused += 1
            if wait.refused == LOGINS_REFUSED:
                raise
            wait.last = "it refuses the login"
            return None
        except (DeviceUnreachable, OutputNotUnderstood, DeviceRefused) as error:
            wait.is_away(error.message)
            return None
        if self.away_s is None:
            self.away_s = wait.away_s
        return reading

    def _read(self) -> Reading:
        session = self.session()
        software = read_software(session)
        seen = sighting(self.activation, software)
        is_asked = seen in {Sighting.OLD_RUNS, Sighting.NEW_RUNS}
        restarted = self._has_restarted(read_service_state(session, software)) if is_asked else None
        return Reading(session=session, software=software, seen=seen, has_restarted=restarted)

    def _has_restarted(self, found: ServiceState) -> bool | None:
        """Return whether the device was restarted since the command; None if unknown.

        An uptime longer than the current phase outweighs the start time, which moves when the clock is set and which
        not every release prints.
        """
        phase_s = (datetime.now(UTC) - datetime.fromisoformat(self.activation.since)).total_seconds()
        runs_since_before = found.uptime_s is not None and found.uptime_s > max(phase_s, 0.0) + UPTIME_SLACK_S
        if self.activation.phase in _BEFORE_RESTART and runs_since_before:
            return False
        return found.has_restarted_since(self._was)

    @property
    def _was(self) -> ServiceState:
        return self.activation.before

    def _settled(self) -> tuple[ServiceState, tuple[str, ...]]:
        """Wait for the services to recover; return them, and what is missing compared with before."""
        limits = self.activation.limits
        deadline_s = time.monotonic() + limits.settle_s
        noted: tuple[str, ...] = ()
        while True:
            is_last = time.monotonic() > deadline_s
            found = self._done_now(is_last=is_last)
            if found is not None:
                lacks = found.lacks(self._was)
                if not lacks or is_last:
                    return found, lacks
                if lacks != noted:
                    self._notify("waiting", f"not as before yet: {'; '.join(lacks)}")
                noted = lacks
            time.sleep(limits.look_every_s)

    def _done_now(self, *, is_last: bool) -> ServiceState | None:
        """Return the services; None if they cannot be read. On the last attempt, raises instead."""
        try:
            return read_service_state(self.session())
        except (DeviceUnreachable, OutputNotUnderstood):
            self.drop_session()
            if is_last:
                raise
            return None

    # Ends.

    def finish(self, reading: Reading) -> ActivationReport:
        """Complete the activation of a device that answers again: commit, undo, wait for the rollback, or report.

        Raises:
            Interrupted: The operator stopped the run while the device's own timer ran; the journal keeps the device.
            DeviceUnreachable: The session was lost for longer than a restart may take.
            RestoreIncomplete: The boot order could not be restored.
        """
        if reading.seen is Sighting.OLD_RUNS:
            return self._old_runs(reading)
        if reading.seen is Sighting.NEW_RUNS and self.activation.phase is Phase.ROLLING_BACK:
            return self._roll_back()
        self._notify("note", f"back with {reading.software.version.release}; waiting until it does what it did")
        found, lacks = self._settled()
        now = self.await_return()
        if now.seen is not reading.seen:
            # Committed or aborted by others, or restarted again: the services compared may be those of the other image.
            return self.finish(now)
        if now.seen is Sighting.COMMITTED:
            return self.report(ActivationOutcome.LACKING if lacks else ActivationOutcome.COMMITTED, now, found, lacks)
        if not self.activation.is_install:
            return self.report(ActivationOutcome.LACKING if lacks else ActivationOutcome.ACTIVATED, now, found, lacks)
        committed = None if lacks else self._committed()
        if committed is None:
            return self._roll_back(lacks)
        return self.report(ActivationOutcome.COMMITTED, committed, found, ())

    def _old_runs(self, reading: Reading) -> ActivationReport:
        """Complete an activation after which the old image runs: it was restored, or the device never restarted."""
        was_started = self.away_s is not None if reading.has_restarted is None else reading.has_restarted
        if self.activation.order is not None and self.activation.phase is not Phase.INTENDED:
            self._take_back()
        if not was_started:
            return self.report(ActivationOutcome.NOT_ACTIVATED, reading, read_service_state(self.session()), ())
        is_rolled = self.activation.phase is Phase.ROLLING_BACK
        outcome = ActivationOutcome.ROLLED_BACK if is_rolled else ActivationOutcome.CAME_BACK_OLD
        return self.report(outcome, reading, *self._settled())

    def _committed(self) -> Reading | None:
        """Commit, and return the reading that proves it; None if none does.

        A refused commit is repeated only while the new image still runs.
        """
        self.enter(Phase.COMMITTING)
        for attempt in range(COMMITS):
            time.sleep(COMMIT_PAUSE_S if attempt else 0.0)
            try:
                answer = commit_active(self.session(), notify=lambda line: self._notify("progress", line))
                self.commands.append(answer.command)
                said = "; ".join(answer.lines[-2:])
            except (DeviceUnreachable, OutputNotUnderstood) as error:
                said = error.message
                self.drop_session()
            reading = self._read_again()
            if reading is not None and reading.seen is Sighting.COMMITTED:
                return reading
            self._notify("note", f"not committed: {said}")
            if reading is not None and reading.seen is not Sighting.NEW_RUNS:
                break
        return None

    def _read_again(self) -> Reading | None:
        """Return a reading, with one more login if the session was lost; None if the device does not answer."""
        for _ in range(2):
            reading = self._tried(Wait(host=self._task.host.name, limit_s=0.0))
            if reading is not None:
                return reading
            self.drop_session()
        return None

    def _roll_back(self, lacks: tuple[str, ...] = ()) -> ActivationReport:
        """Leave the device uncommitted, and wait until its own timer has restored the old image."""
        if self.activation.phase is not Phase.ROLLING_BACK:
            self.enter(Phase.ROLLING_BACK)
        why = f": {'; '.join(lacks)}" if lacks else ""
        self._notify("waiting", f"not committed, its own timer brings the old image back{why}")
        deadline_s = time.monotonic() + self._longest_roll_back_s
        while True:
            self._wait_for_timer(deadline_s)
            reading = self._tried(Wait(host=self._task.host.name, limit_s=0.0))
            if reading is not None and reading.seen is Sighting.OLD_RUNS:
                return self._rolled_back(reading, lacks)
            if reading is not None and reading.seen is Sighting.COMMITTED:
                # Committed by others, or late by us: the new image stays, and its services are compared again.
                return self.finish(reading)
            self.drop_session()

    def _rolled_back(self, reading: Reading, lacks: tuple[str, ...]) -> ActivationReport:
        self._notify("note", f"the old image runs again: {reading.software.version.release}")
        state, left = self._settled()
        report = self.report(ActivationOutcome.ROLLED_BACK, reading, state, ())
        return replace(report, lacks=(*lacks, *(f"with the old image again: {one}" for one in left)))

    @property
    def _longest_roll_back_s(self) -> float:
        limits = self.activation.limits
        longest_s = limits.timer_min * 60 + limits.boot_limit_s
        return longest_s if self._patience_s is None else min(longest_s, self._patience_s)

    def _wait_for_timer(self, deadline_s: float) -> None:
        """Wait until the next reading. Raises if the operator stops the run or the deadline has passed."""
        time.sleep(self.activation.limits.look_every_s)
        if self._interrupted():
            raise Interrupted(
                "stopped while the device's own timer brings the old image back; it goes on by itself",
                host=self._task.host.name,
                step=STEP,
                hint="Run 'flashferry recover' later: it shows whether the old image runs",
            )
        if time.monotonic() > deadline_s:
            raise RestoreIncomplete(
                "expected the device's own timer to have brought the old image back; it does not run yet",
                host=self._task.host.name,
                step=STEP,
                hint="Run 'flashferry recover' later; if its timer has run out, check its console",
            )

    def _take_back(self) -> None:
        """Restore the boot order, running and saved. A device whose order is already restored is left alone."""
        order = self.activation.order
        assert order is not None
        if self.activation.phase is not Phase.TAKING_BACK:
            self.enter(Phase.TAKING_BACK)
        session = self.session()
        undo_boot_order(session, order)
        if boot_lines(read_startup(session).lines) == order.before:
            return
        self._check_nothing_else(session, order)
        save(session, expected=order.before)
        self.commands.append(session.platform.commands.save)

    def _check_nothing_else(self, session: DeviceSession, order: BootOrder) -> None:
        """Raise if saving the boot order would also save other users' lines."""
        changed = difference(self._before.running_fingerprint, read_running(session).sections, salt=self._before.salt)
        if changed:
            raise RestoreIncomplete(
                f"the startup configuration boots {', '.join(order.wanted)}, and the running one has lines of "
                f"others ({changed}), which saving would keep: nothing was saved",
                host=session.name,
                step=STEP,
                hint="The running 'boot system' lines are as they were. Save ('write memory') if those lines may stay, "
                "then run 'flashferry recover'",
            )

    def is_only_ours(self, session: DeviceSession) -> bool:
        """Return whether the running configuration differs from before only by our boot order."""
        order = self.activation.order
        assert order is not None
        return differs_only_by(order, self._before.running_fingerprint, self._before.salt, read_running(session))

    def is_as_before(self) -> bool:
        """Return whether the running configuration is unchanged."""
        running = read_running(self.session(), without_syslog=True)
        return not difference(self._before.running_fingerprint, running.sections, salt=self._before.salt)

    def report(
        self, outcome: ActivationOutcome, reading: Reading, after: ServiceState, lacks: tuple[str, ...]
    ) -> ActivationReport:
        """Return the result."""
        summary = reading.software.answers[Topic.INSTALL]
        booted = reading.software.answers[Topic.VERSION].lines_with("System image")
        rows = summary.lines_with("IMG ", "Auto abort") if summary.is_read else ()
        return ActivationReport(
            outcome=outcome,
            mode="install" if self.activation.is_install else "bundle",
            from_release=self._was.release,
            to_release=after.release,
            commands=tuple(self.commands),
            before=self._was,
            after=after,
            lacks=lacks,
            lines=(*booted, *rows),
            away_s=self.away_s,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
