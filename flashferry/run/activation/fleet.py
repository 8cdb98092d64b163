"""Activate the devices of a plan in rounds. A round starts only if not too many devices of the earlier ones failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct, field
from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task
from nornir.plugins.runners import ThreadedRunner

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.model.activation import LARGEST_TIMER_MIN, LEAST_TIMER_MIN, ActivationLimits
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, Failure, RunReport
from flashferry.model.states import GOOD_OUTCOMES, Outcome
from flashferry.model.waves import Wave
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.run.activation.device import ActivationContext, DeviceActivation, activate_device
from flashferry.run.control import RunControl
from flashferry.store.journal import Journal, NewDevice
from flashferry.store.staged import last_staged
from flashferry.store.status import last_hash_speeds
from inventory.host_view import view
from tasks.activating.restart import STEP
from tasks.check import TargetImage

VERB = "activate"
_MARGIN_MIN = 5


class ActivationRequest(Struct, frozen=True, kw_only=True):
    """Which devices to activate, in which order, with which settings.

    Attributes:
        images: The image of each device, by device name.
        rounds: The order; each device occurs once.
        identities: Serial number and host name at the time of the plan, by device name.
        max_failures: With more failed devices than this, no further round starts. >= 0.
        signature: Whether devices verify the vendor's signature again.
        stored: Plan and options for the journal, without secrets.
    """

    images: Mapping[str, TargetImage]
    rounds: tuple[Wave, ...]
    identities: Mapping[str, str | None] = field(default_factory=dict)
    limits: ActivationLimits = field(default_factory=ActivationLimits)
    max_failures: int = 0
    signature: bool = True
    stored: Mapping[str, object] = field(default_factory=dict)


def check_limits(limits: ActivationLimits) -> None:
    """Check that a device's auto-abort timer leaves time to check the new image.

    Raises:
        ConfigInvalid: The timer is out of range, or could restore the old image before the new one is checked.
    """
    if not LEAST_TIMER_MIN <= limits.timer_min <= LARGEST_TIMER_MIN:
        raise ConfigInvalid(
            f"auto-abort timer: expected {LEAST_TIMER_MIN} to {LARGEST_TIMER_MIN} minutes, found {limits.timer_min}",
            hint="Give another number with --timer-min",
        )
    needed_min = (limits.boot_limit_s + limits.settle_s) / 60 + _MARGIN_MIN
    if limits.timer_min < needed_min:
        raise ConfigInvalid(
            f"auto-abort timer: expected at least {needed_min:.0f} minutes, for the restart, for settling and for the "
            f"commit, found {limits.timer_min}: the old image would come back before anybody has looked",
            hint="Give a longer --timer-min, or shorter --boot-limit-min and --settle-min",
        )


def activate_fleet(
    nornir: Nornir,
    request: ActivationRequest,
    *,
    journal: Journal,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> RunReport:
    """Activate the devices of a request, each restarted at most once.

    Args:
        nornir: The devices, with credentials.
        request: Devices, order and settings.
        journal: Each phase is written to it before its command.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops the run. Restarted devices are still followed to their end.

    Returns:
        A record per device. A device's fault is in its record, never raised.

    Raises:
        ConfigInvalid: The inventory or a limit is wrong; no device was touched.
        JournalUnusable: The journal cannot be written; no device was touched.
    """
    check_limits(request.limits)
    run = _Run(nornir, request, journal, never_failing(emit))
    return run.execute(interrupted)


class _Run:
    """One activation of a fleet."""

    def __init__(self, nornir: Nornir, request: ActivationRequest, journal: Journal, emit: Emit) -> None:
        self._nornir, self._request, self._journal, self._emit = nornir, request, journal, emit
        self._views = {name: view(nornir.inventory.hosts[name]) for name in request.images}
        self._started_s = time.monotonic()
        self._stopped: str | None = None

    def execute(self, interrupted: Callable[[], bool]) -> RunReport:
        """Activate all rounds and return the report."""
        run_id = self._start()
        control = RunControl(
            self._journal,
            run_id,
            interrupted=interrupted,
            notify=self._event,
            stopping="nothing new begins; " + _FOLLOWED,
        )
        records: dict[str, DeviceRecord] = {}
        for one in self._request.rounds:
            if self._may_start(one, records, control):
                records |= self._round(one, run_id, control)
        left = self._left_out(run_id, records, is_stopped=control.is_stopping())
        with suppress(JournalUnusable):
            self._journal.finish_run(run_id)
        return self._report(run_id, records | left, is_stopped=control.is_stopping())

    def _start(self) -> str:
        """Write the run and its devices to the journal; return the run's identifier."""
        run_id = self._journal.begin_run(VERB, self._request.stored)
        at_s = time.monotonic() - self._started_s
        self._emit(Event(host=None, step="run", status="started", text=run_id, at_s=at_s, run_id=run_id))
        rounds = {host: one.number for one in self._request.rounds for host in one.hosts}
        images = {host: target.image.name for host, target in self._request.images.items()}
        devices = (NewDevice.of(one, wave=rounds[name], image=images[name]) for name, one in self._views.items())
        self._journal.add_devices(run_id, devices)
        return run_id

    def _may_start(self, one: Wave, records: Mapping[str, DeviceRecord], control: RunControl) -> bool:
        if self._stopped is not None:
            return False
        while (hold := control.hold()) is not None and not hold.for_good:
            time.sleep(1.0)
        failed = [record.host for record in records.values() if record.outcome not in GOOD_OUTCOMES]
        if hold is not None:
            self._stopped = hold.reason
        elif len(failed) > self._request.max_failures:
            self._stopped = f"{', '.join(failed[:5])} did not end well, and {self._request.max_failures} may not"
        if self._stopped is not None:
            self._event("run", "stopping", f"no further device is started: {self._stopped}")
            return False
        self._event("wave", "started", f"{self._called(one)}: {', '.join(one.hosts)}")
        return True

    def _called(self, one: Wave) -> str:
        """Return a round's name as the approver saw it."""
        number = f"round {one.number + 1}"
        return f"{number} of {len(self._request.rounds)}{'' if one.name == number else f', {one.name}'}"

    def _context(self, one: Wave, run_id: str, control: RunControl) -> ActivationContext:
        def interrupted() -> bool:
            control.poll()
            return control.is_stopping()

        staged = last_staged(self._journal.directory, one.hosts)
        return ActivationContext(
            run_id=run_id,
            journal=self._journal,
            limits=self._request.limits,
            emit=self._emit,
            interrupted=interrupted,
            hash_speeds=last_hash_speeds(self._journal.directory),
            staged_members={key: found.members for key, found in staged.items() if found.members},
            signature=self._request.signature,
            started_s=self._started_s,
        )

    def _round(self, one: Wave, run_id: str, control: RunControl) -> dict[str, DeviceRecord]:
        context = self._context(one, run_id, control)

        def device(task: Task) -> Result:
            name = task.host.name
            given = DeviceActivation(
                host=self._views[name],
                target=self._request.images[name],
                identity=self._request.identities.get(name),
                wave=one.number,
            )
            return activate_device(task, given, context)

        hosts = frozenset(one.hosts)
        chosen = self._nornir.filter(filter_func=lambda host: host.name in hosts)
        results = chosen.with_runner(ThreadedRunner(num_workers=len(hosts))).run(task=device, name=STEP)
        return {name: results[name][0].result for name in one.hosts}

    def _left_out(
        self, run_id: str, records: Mapping[str, DeviceRecord], *, is_stopped: bool
    ) -> dict[str, DeviceRecord]:
        reason = "the run was stopped before this device" if is_stopped or self._stopped is None else self._stopped
        kind = Kind.STOPPED if is_stopped else Kind.TOO_MANY_FAILED
        failure = Failure(step=STEP, reason=reason, hint=None, kind=kind)
        images = {name: target.image.name for name, target in self._request.images.items() if name not in records}
        none = DeviceRecord(host="", outcome=Outcome.NOT_STARTED, failure=failure, seconds_by_step={})
        left = {name: replace(none, host=name, image=image) for name, image in images.items()}
        with suppress(JournalUnusable):
            self._journal.record_all(run_id, left)
        return left

    def _report(self, run_id: str, records: Mapping[str, DeviceRecord], *, is_stopped: bool) -> RunReport:
        images = tuple(dict.fromkeys(target.image for target in self._request.images.values()))
        return RunReport(
            run_id=run_id,
            verb=VERB,
            image=images[0].name,
            image_bytes=images[0].size_bytes,
            md5=images[0].md5,
            devices=tuple(records[name] for name in self._ordered()),
            interrupted=is_stopped,
            images=tuple(one.of_record() for one in images),
            stopped=self._stopped,
        )

    def _ordered(self) -> Sequence[str]:
        return [host for one in self._request.rounds for host in one.hosts]

    def _event(self, step: str, status: str, text: str) -> None:
        at_s = time.monotonic() - self._started_s
        self._emit(Event(host=None, step=step, status=status, text=text, at_s=at_s))


_FOLLOWED = "what was restarted is followed to its end, or left to its own timer and reported"
