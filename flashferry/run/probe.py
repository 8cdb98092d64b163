"""The pre-flight speed test: timed copies to `null:` as a device is, then tuned, restored at once, in one login.

It goes the way of a staging run (check, journal, tune, copy, restore), so nothing can be left behind that a run would
not leave; only what happens between journal and restore differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.units import rough_megabytes
from flashferry.devices.errors import CopyFailed
from flashferry.fileserver import ImageFile, SshOffer, TransferRecord
from flashferry.model.link_rates import copy_share, payload_cap_bytes_per_s
from flashferry.model.probe_result import Arm, ProbeResult, arm_of
from flashferry.model.record import RunReport
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, silent
from flashferry.planning.probe_files import ProbeFiles, probe_files
from flashferry.run.context import RunContext
from flashferry.run.device.copy import copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.tune import tune
from flashferry.run.device.workflow import run_device
from flashferry.run.device_plan import DevicePlan
from flashferry.run.run import RunOptions, run_fleet
from flashferry.store.history import Expectation, History
from flashferry.store.journal import Journal
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED
from flashferry.tcp.models import predicted_seconds
from flashferry.tcp.probing import TARGET_S, TYPICAL_IMAGE_BYTES, TimedCopy, first_size, next_size
from flashferry.tcp.tuning_benefit import nothing_to_tune, worth_tuning
from flashferry.tcp.verdict_rules import VerdictKind
from tasks.run_marker import is_mark
from tasks.snapshot import Snapshot
from tasks.tcp_config import TunePlan

SAMPLE_INTERVAL_S = 0.25
"""A speed test is short, and a verdict takes several readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTestOptions:
    """What a speed test is to find out.

    Attributes:
        as_is: Whether to time a copy with the device's own settings.
        tuned: Whether to time one while tuned.
        image_bytes: Size of the image that is to follow.
        target_s: What the copy of an arm should take.
    """

    as_is: bool = True
    tuned: bool = True
    image_bytes: int = TYPICAL_IMAGE_BYTES
    target_s: float = TARGET_S


def probe_fleet(
    nornir: Nornir,
    probe: SpeedTestOptions,
    options: RunOptions,
    *,
    journal: Journal,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
    test: Callable[..., SpeedTest] | None = None,
) -> RunReport:
    """Test every device of an inventory; each record has a ProbeResult.

    Arguments and errors as in `run_fleet`; `test` is what is done to each device, usually both arms by one transport.
    """
    kind = test or SpeedTest
    policy = options.policy.changed({"tune": "auto" if probe.tuned else "never"})
    options = replace(options, verb="probe", policy=policy, to_null=True, sample_interval_s=SAMPLE_INTERVAL_S)
    history = History.read(journal.directory)
    with probe_files(journal.directory) as files:

        def probe_device(task: Task, context: RunContext) -> Result:
            run = DeviceRun(task, context)
            test = kind(run, probe, files, history)
            return run_device(run, lambda _run, plan, before: test.deliver(plan, before))

        return run_fleet(
            nornir,
            files.pilot,
            options,
            journal=journal,
            emit=emit,
            interrupted=interrupted,
            device_task=probe_device,
            more_images=files.paths,
        )


class SpeedTest:
    """What a speed test does to a device between journal and restore: copies to `null:`, as it is and then tuned."""

    def __init__(
        self, run: DeviceRun, probe: SpeedTestOptions, files: ProbeFiles, history: History | None = None
    ) -> None:
        self.run = run
        self._probe, self._files, self._history = probe, files, history or History(())

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Time both arms; whatever it raises, the caller restores."""
        changes = plan.tune.changes
        self.run.update(probe=ProbeResult(image_bytes=self._probe.image_bytes))
        # Without this line the device does not reach us, so it belongs to neither arm.
        path = tuple(change for change in changes if not change.is_tuning)
        has_tuning = len(changes) > len(path)
        if all(is_mark(change.ours) for change in path):
            path = ()
        if self._probe.as_is or not has_tuning:
            if path:
                tune(self.run, TunePlan(changes=path), before)
            arm = self.time_arm("as it is", plan.target, expected_bytes_per_s=None)
            self.set_result(as_is=arm, as_is_s=self.forecast(arm))
        if has_tuning:
            tune(self.run, plan.tune, before)
            arm = self.time_arm("tuned", plan.target, expected_bytes_per_s=self._expected_tuned())
            self.set_result(tuned=arm, tuned_s=self.forecast(arm))
        self.decide(has_tuning=has_tuning)
        self.run.update(outcome=Outcome.DONE)

    def time_arm(self, name: str, target: str, *, expected_bytes_per_s: float | None) -> Arm:
        """Copy until a copy was long enough to count, and return what that one found."""
        size_bytes: int | None = first_size(expected_bytes_per_s, self._probe.target_s)
        copies = 0
        while size_bytes is not None:
            copies += 1
            arm = self.time_once(name, target, size_bytes, copies)
            seen = TimedCopy(
                size_bytes=arm.size_bytes,
                duration_s=arm.duration_s,
                rtt_s=arm.rtt_s,
                window_bytes=self._window_bytes,
            )
            size_bytes = next_size(seen, ceiling_bytes_per_s=self._link_bytes_per_s, target_s=self._probe.target_s)
        return arm

    def time_once(self, name: str, target: str, size_bytes: int, copies: int) -> Arm:
        """Time one copy; `copies` is its number in its arm."""
        image = self.image_of(size_bytes)
        self.run.event("probe", "started", f"{name}: {rough_megabytes(image.size_bytes)}")
        seen = self.time_copy(target, image)
        return arm_of(self.run.record.pull, seen, copies)

    def image_of(self, size_bytes: int) -> ImageFile:
        """Return the file of a size, as our server has it."""
        return self.run.context.server.image(self._files.of(size_bytes).name)

    def time_copy(self, target: str, image: ImageFile, offer: SshOffer | None = None) -> TransferRecord:
        """Have the device copy a file; return our server's account, which is in the record then, with the device's.

        Args:
            target: Where to.
            image: The file.
            offer: What the device is to be offered by SSH. Its rate is no history then; None: as usual.

        Raises:
            CopyFailed: It failed, or our server has no account of it.
        """
        self.run.update(pull=None, transfer=None)
        copy(
            self.run,
            CopyOrder(
                image=image,
                target=target,
                kind=PROBE_AS_IS,
                kind_tuned=PROBE_TUNED,
                ssh=offer,
                is_history=offer is None,
            ),
        )
        seen = self.run.record.transfer
        if seen is None:
            raise CopyFailed(
                "our server has no account of the copy",
                host=self.run.record.host,
                step="probe",
                hint="Probe again; where it stays so, something else than our server answers at its address and port",
            )
        return seen

    @property
    def _window_bytes(self) -> int | None:
        return self.run.record.transfer.max_window_bytes if self.run.record.transfer else None

    @property
    def _link_bytes_per_s(self) -> float | None:
        link = self.run.record.link_rate
        return payload_cap_bytes_per_s(link.rate_bps * copy_share(self.run.host, link)) if link else None

    def _expected_tuned(self) -> float | None:
        """Return the rate to expect tuned: the link where its rate is known, else four times what it is untuned."""
        if self._link_bytes_per_s is not None:
            return self._link_bytes_per_s
        as_is = self.run.record.probe.as_is if self.run.record.probe else None
        return 4 * as_is.steady_bytes_per_s if as_is else None

    def forecast(self, arm: Arm) -> float | None:
        """Return how long the image takes: no flash is written by the test, so what is known of it bounds the rate."""
        to_flash = self._to_flash(arm)
        return None if to_flash is None else predicted_seconds(self._probe.image_bytes, to_flash, arm.rtt_s or 0.0)

    def _to_flash(self, arm: Arm) -> float | None:
        """Return the rate to flash to expect; None where the arm was too short to carry one."""
        measured, limit = arm.measured_bytes_per_s, self._flash_limit()
        return measured if measured is None or limit is None else min(measured, limit.bytes_per_s)

    def _flash_limit(self) -> Expectation | None:
        record = self.run.record
        return self._history.flash_limit(record.host, self.run.checked.facts.model, transport=record.transport)

    def set_result(self, **values: Any) -> None:
        """Set fields of the ProbeResult."""
        assert self.run.record.probe is not None
        self.run.update(probe=replace(self.run.record.probe, **values))

    def decide(self, *, has_tuning: bool) -> None:
        """Record whether tuning is worth it, where both arms were measured."""
        found = self.run.record.probe
        assert found is not None
        if self._probe.tuned and not has_tuning:
            self.set_result(worth=nothing_to_tune())
            return
        as_is = self._to_flash(found.as_is) if found.as_is else None
        tuned = self._to_flash(found.tuned) if found.tuned else None
        if found.tuned is not None and as_is is not None and tuned is not None:
            limit = self._flash_limit()
            is_held_back = limit is not None and limit.bytes_per_s < found.tuned.steady_bytes_per_s
            worth = worth_tuning(
                as_is_bytes_per_s=as_is,
                tuned_bytes_per_s=tuned,
                tuned_kind=VerdictKind.SLOW_RECEIVER if is_held_back else found.tuned.verdict.kind,
                image_bytes=found.image_bytes,
            )
            if limit is not None and is_held_back:
                worth = replace(worth, reason=f"{worth.reason}; {limit.source}")
            self.set_result(worth=worth)
