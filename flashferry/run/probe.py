"""Speed tests: as is and tuned, by each transport, by each SSH cipher."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.core.units import exact_rate, rough_megabytes
from flashferry.devices.errors import (
    CopyFailed,
    DeviceRefused,
    DialogueDisturbed,
    OutputNotUnderstood,
    QuestionLeft,
    Stopped,
    TransferStalled,
)
from flashferry.devices.session import cpu_use
from flashferry.fileserver import ImageFile, SshOffer, TransferRecord
from flashferry.model.link_rates import copy_share, payload_cap_bytes_per_s
from flashferry.model.probe_result import (
    CIPHERS,
    MACS,
    Arm,
    ProbeResult,
    SshSweep,
    SweepCopy,
    SweepOptions,
    SweepRow,
    TransportArm,
    arm_of,
    authenticates_itself,
    best_of,
    conclusion_of,
    ranked,
    row_of,
    window_ceiling_bytes_per_s,
)
from flashferry.model.record import RunReport, sentence_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, silent
from flashferry.planning.probe_files import ProbeFiles, probe_files
from flashferry.run.context import RunContext
from flashferry.run.device.copy import copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.tickets import last_server_error, revoke_ticket
from flashferry.run.device.transports import next_transport, plan_now
from flashferry.run.device.tune import switch_lines, tune
from flashferry.run.device.workflow import run_device
from flashferry.run.device_plan import DevicePlan
from flashferry.run.run import RunOptions, run_fleet
from flashferry.store.history import Expectation, History
from flashferry.store.journal import Journal
from flashferry.store.ssh_preferences import SshPreference, SshPreferences
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED
from flashferry.tcp.models import predicted_seconds
from flashferry.tcp.speed_test_size import PILOT_BYTES, TARGET_S, TYPICAL_IMAGE_BYTES, TimedCopy, first_size, next_size
from flashferry.tcp.tuning_benefit import decide_tuning, nothing_to_tune
from flashferry.tcp.verdict_rules import VerdictKind
from flashferry.transports.transport_selection import profile_for, transport_request, unserved
from inventory.transport_policy import AUTO
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
            worth = decide_tuning(
                as_is_bytes_per_s=as_is,
                tuned_bytes_per_s=tuned,
                tuned_kind=VerdictKind.SLOW_RECEIVER if is_held_back else found.tuned.verdict.kind,
                image_bytes=found.image_bytes,
            )
            if limit is not None and is_held_back:
                worth = replace(worth, reason=f"{worth.reason}; {limit.source}")
            self.set_result(worth=worth)


_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused, OutputNotUnderstood)

_OF_DEVICE = (Stopped, QuestionLeft, DialogueDisturbed)


class TransportComparison(SpeedTest):
    """Copies to `null:` by each transport that is allowed, and says which was the fastest."""

    def __init__(
        self, run: DeviceRun, probe: SpeedTestOptions, files: ProbeFiles, history: History | None = None
    ) -> None:
        super().__init__(run, probe, files, history)
        self._rows: list[TransportArm] = []

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Time each transport; whatever it raises, the caller restores."""
        self.run.update(probe=ProbeResult(image_bytes=self._probe.image_bytes))
        self._note_unserved()
        for tried in self.run.record.transports_tried:
            self._add(TransportArm(transport=tried.transport, reason=tried.reason))
        last: FlashferryError | None = None
        going_on: DevicePlan | None = plan
        while going_on is not None:
            try:
                self._add(self._timed_by(going_on, before))
            except _OF_TRANSPORT as error:
                if isinstance(error, _OF_DEVICE) or self.run.context.interrupted():
                    raise
                last = error
                self._fail(error)
            revoke_ticket(self.run)
            going_on = self._next_plan(before)
        best = next((row.transport for row in self._marked if row.is_best), None)
        if best is None:
            assert last is not None, "who timed nothing has failed"
            raise last
        self.run.update(transport=best, transports_tried=(), outcome=Outcome.DONE)

    def _note_unserved(self) -> None:
        """Have the report say by what no copy is timed though the inventory allows it, where no names were given."""
        certificate, key = self.run.context.certificate or (None, None)
        asked, not_served = self.run.context.policy.transport, self.run.context.not_served
        request = transport_request(asked, certificate=certificate, key=key, not_served=not_served)
        for sentence in unserved(self.run.host.transport_policy, request) if request.asked == AUTO else ():
            self.run.note(sentence)

    def _timed_by(self, plan: DevicePlan, before: Snapshot) -> TransportArm:
        """Have the lines of the transport in force, and copy until a copy was long enough to count."""
        transport = self.run.transport.name
        switch_lines(self.run, plan.tune, before)
        # Behind a small window the size that fills the link would take an hour: a pilot finds it.
        arm = self.time_arm(f"by {transport}", plan.target, expected_bytes_per_s=None)
        seen = self.run.record.transfer
        return TransportArm(
            transport=transport,
            arm=arm,
            image_s=self.forecast(arm),
            ceiling_bytes_per_s=window_ceiling_bytes_per_s(seen) if seen is not None else None,
            cpu=cpu_use(self.run.session()),
        )

    def _next_plan(self, before: Snapshot) -> DevicePlan | None:
        """Go on to the next transport that can be planned; those that cannot have a row of their own."""
        while self.run.next_transports:
            transport = next_transport(self.run)
            self.run.update(transport=transport.name, pull=None, transfer=None)
            try:
                return plan_now(self.run, before.running)
            except ConfigInvalid as error:
                self._fail(error)
        return None

    def _fail(self, error: FlashferryError) -> None:
        """Have a row for a transport that could not be timed."""
        row = TransportArm(transport=self.run.transport.name, reason=sentence_of(error))
        self.run.event("probe", "note", f"note: by {row.transport}: {row.reason}")
        self._add(row)

    def _add(self, row: TransportArm) -> None:
        self._rows.append(row)
        self.set_result(by_transport=self._marked)

    @property
    def _marked(self) -> tuple[TransportArm, ...]:
        """Return the rows with the fastest marked.

        What our own cap held back was as fast as its share, which is the neighbours' doing and not the transport's: of
        several such the first in the order of preference is marked.
        """
        timed = [row for row in self._rows if row.arm is not None]
        best = max(timed, key=_rank, default=None)
        if best is not None and _is_capped(best):
            best = next(row for row in timed if _is_capped(row))
        return tuple(replace(row, is_best=row is best) for row in self._rows)


def _is_capped(row: TransportArm) -> bool:
    return row.arm is not None and row.arm.verdict.kind is VerdictKind.CAP


def _rank(row: TransportArm) -> tuple[float, float]:
    """Return what the fastest has most of: by the time for the image, else by the rate."""
    assert row.arm is not None
    return (-(row.image_s or float("inf")), row.arm.steady_bytes_per_s)


STEP = "sweep"

COMPRESSION = "none: our server offers none, for images are compressed, and no router was seen to offer any"

_NO_MATCH = re.compile(r"no (?P<what>[\w ]+?) algorithm in common: client (?P<client>[^ ]*),? server")

_LEAST_S = 0.05


@dataclass(slots=True)
class _Cell:
    """What was found so far of one cipher or MAC."""

    name: str
    copies: list[SweepCopy]
    refused: str = ""

    @property
    def row(self) -> SweepRow:
        return row_of(self.name, self.copies, self.refused)


class SshSweepTest(SpeedTest):
    """What a sweep does to a device between journal and restore."""

    def __init__(
        self,
        run: DeviceRun,
        probe: SpeedTestOptions,
        files: ProbeFiles,
        history: History | None = None,
        *,
        options: SweepOptions | None = None,
    ) -> None:
        super().__init__(run, probe, files, history)
        self._options = options or SweepOptions()
        self._lists: dict[str, tuple[str, ...]] = {}

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Sweep; whatever it raises, the caller restores."""
        if plan.tune.changes:
            tune(self.run, plan.tune, before)
        profile = profile_for(self.run.checked.version.release)
        login_s = self._login_s(plan.target)
        # From a tiny one up: by a cipher that the device decrypts slowly the link would be no measure.
        arm = self.time_arm("size of a copy", plan.target, expected_bytes_per_s=None)
        sweep = SshSweep(size_bytes=arm.size_bytes, login_s=login_s, compression=COMPRESSION)
        time = _Timer(self, plan.target, arm.size_bytes, login_s)

        def by_cipher(name: str) -> SweepCopy:
            return time.copy(SshOffer(profile=profile, encryption=(name,)))

        ciphers = self._rounds("cipher", CIPHERS, by_cipher)
        best = best_of(ciphers)
        sweep = replace(
            sweep,
            ciphers=ciphers,
            best_cipher=best,
            conclusion=conclusion_of(ciphers, best),
            device_ciphers=self._lists.get("cipher", ()),
        )
        sweep = self._with_macs(sweep, time, profile)
        self.run.update(ssh_sweep=self._kept(sweep), outcome=Outcome.DONE)

    def _with_macs(self, sweep: SshSweep, time: _Timer, profile: str) -> SshSweep:
        """Compare MACs under the fastest cipher that has one, where the device takes one."""
        under = next((row.name for row in sweep.ciphers if row.copies and not authenticates_itself(row.name)), "")
        if not under:
            return sweep

        def by_mac(name: str) -> SweepCopy:
            return time.copy(SshOffer(profile=profile, encryption=(under,), mac=(name,)))

        macs = self._rounds("mac", MACS, by_mac)
        return replace(
            sweep, macs=macs, mac_cipher=under, best_mac=best_of(macs), device_macs=self._lists.get("mac", ())
        )

    def _rounds(self, what: str, names: Sequence[str], copy: Callable[[str], SweepCopy]) -> tuple[SweepRow, ...]:
        """Copy by each as often as is asked for, each round in another order; leave out what the device refuses."""
        cells = [_Cell(name, []) for name in names]
        chance = random.Random(f"{self._options.seed} {what}")  # noqa: S311 -- an order, no secret
        for number in range(1, self._options.copies + 1):
            order = [cell for cell in cells if not cell.refused]
            chance.shuffle(order)
            for cell in order:
                if not cell.refused:
                    self.run.event(STEP, "started", f"{cell.name}, copy {number} of {self._options.copies}")
                    self._try(what, cell, cells, copy)
        return ranked(cell.row for cell in cells)

    def _try(self, what: str, cell: _Cell, cells: list[_Cell], copy: Callable[[str], SweepCopy]) -> None:
        try:
            one = copy(cell.name)
        except Stopped:
            raise
        except (CopyFailed, TransferStalled, DeviceRefused) as error:
            self._refused(what, cell, cells, error.message)
        else:
            cell.copies.append(one)
            rate = exact_rate(one.rate_bytes_per_s)
            self.run.event(STEP, "done", f"{cell.name}: {rate}, {one.verdict.value}")

    def _refused(self, what: str, cell: _Cell, cells: list[_Cell], message: str) -> None:
        """Record why a copy failed; where the device sent its own list, leave out all that is not in it."""
        theirs = device_list(last_server_error(self.run), what) or device_list(message, what)
        if not theirs:
            cell.refused = message
        else:
            self._lists[what] = theirs
            for one in cells:
                if one.name not in theirs and not one.copies:
                    one.refused = "not in the device's list"
        self.run.event(STEP, "failed", f"{cell.name}: {cell.refused or message}")

    def _login_s(self, target: str) -> float | None:
        """Return what the device's own clock counts for a tiny copy: its login, and next to nothing else."""
        self.time_once("login", target, PILOT_BYTES, 1)
        pull = self.run.record.pull
        return float(pull.device.duration_s) if pull is not None else None

    def timed(self, size_bytes: int, login_s: float | None) -> SweepCopy:
        """Return what the last copy comes to: by the device's clock less its login, else by our server's."""
        seen, pull = self.run.record.transfer, self.run.record.pull
        assert seen is not None
        by_device = float(pull.device.duration_s) - login_s if pull is not None and login_s is not None else 0.0
        seconds = by_device if by_device > _LEAST_S else seen.duration_s
        return SweepCopy(
            cipher=seen.cipher,
            mac=seen.mac,
            rate_bytes_per_s=size_bytes / seconds if seconds > 0 else seen.rate_bytes_per_s,
            verdict=seen.verdict.kind,
        )

    def _kept(self, sweep: SshSweep) -> SshSweep:
        """Keep what is the fastest for devices of this model, where that is asked for and there is one."""
        if not (self._options.keeps and sweep.best_cipher):
            return sweep
        model = self.run.checked.facts.model
        row = next(row for row in sweep.ciphers if row.name == sweep.best_cipher)
        mac = "" if authenticates_itself(sweep.best_cipher) else sweep.best_mac
        SshPreferences.read(self.run.context.journal.directory).keep(
            SshPreference(
                model=model,
                cipher=sweep.best_cipher,
                mac=mac,
                rate_bytes_per_s=row.median_bytes_per_s or 0.0,
                host=self.run.record.host,
                run_id=self.run.context.run_id,
            )
        )
        return replace(sweep, is_kept=True)


@dataclass(frozen=True, slots=True)
class _Timer:
    """Times copies of one size to one target."""

    test: SshSweepTest
    target: str
    size_bytes: int
    login_s: float | None

    def copy(self, offer: SshOffer) -> SweepCopy:
        """Time one."""
        self.test.time_copy(self.target, self.test.image_of(self.size_bytes), offer)
        return self.test.timed(self.size_bytes, self.login_s)


def device_list(text: str, what: str) -> tuple[str, ...]:
    """Return the device's own list of ciphers or MACs out of our server's word on a refusal; empty where it has none.

    Args:
        text: For example `SSH: no encryption algorithm in common: client aes128-cbc,3des-cbc, server aes128-ctr`.
        what: `cipher` or `mac`.
    """
    found = _NO_MATCH.search(text)
    if found is None or not _is_about(found["what"], what):
        return ()
    return tuple(name for name in found["client"].split(",") if name)


def _is_about(found: str, what: str) -> bool:
    words = found.lower()
    return ("encryption" in words or "cipher" in words) if what == "cipher" else ("mac" in words)
