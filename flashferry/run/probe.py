"""Speed tests: untuned and tuned, by each transport, by each SSH cipher."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
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
from flashferry.planning.local_images import ProbeFiles, probe_files
from flashferry.run.context import RunContext
from flashferry.run.device.copy import copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.tickets import last_server_error, revoke_ticket
from flashferry.run.device.transports import next_transport, plan_now
from flashferry.run.device.tune import switch_lines, tune
from flashferry.run.device.workflow import run_device
from flashferry.run.device_plan import DevicePlan
from flashferry.run.request import RunOptions
from flashferry.run.run import run_fleet
from flashferry.store.history import Expectation, History
from flashferry.store.journal import Journal
from flashferry.store.probe_choices import SshPreference, SshPreferences
from flashferry.store.transfer_row import PROBE_AS_IS, PROBE_TUNED
from flashferry.tcp.models import predicted_seconds
from flashferry.tcp.speed_test_size import PILOT_BYTES, TARGET_S, TYPICAL_IMAGE_BYTES, TimedCopy, first_size, next_size
from flashferry.tcp.tuning_benefit import decide_tuning, nothing_to_tune
from flashferry.tcp.verdict_rules import VerdictKind
from flashferry.transports.transport_selection import profile_for, transport_request, unserved
from inventory.transport_policy import AUTO
from tasks.snapshot import Snapshot
from tasks.tcp_config import TunePlan

SAMPLE_INTERVAL_S = 0.25
"""A speed test is short, and a verdict needs several readings."""


class SpeedTestOptions(Struct, frozen=True, kw_only=True):
    """What a speed test measures.

    Attributes:
        as_is: Whether to time a copy with the device's own settings.
        tuned: Whether to time a copy with our lines.
        image_bytes: Size of the image to forecast.
        target_s: Target duration of an arm's copy, in seconds.
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
    """Test the speed of every device of an inventory; each record has a ProbeResult.

    Arguments and errors as `run_fleet`. `test` is the test made on each device; by default both arms by one transport.
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
    """A speed test on one device: copies to `null:`, first untuned, then tuned."""

    def __init__(
        self, run: DeviceRun, probe: SpeedTestOptions, files: ProbeFiles, history: History | None = None
    ) -> None:
        self.run = run
        self._probe, self._files, self._history = probe, files, history or History(())

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Time both arms. The caller restores, whatever is raised."""
        changes = plan.tune.changes
        self.run.update(probe=ProbeResult(image_bytes=self._probe.image_bytes))
        # Lines without which the device does not reach us belong to both arms.
        path = tuple(change for change in changes if not change.is_tuning)
        has_tuning = len(changes) > len(path)
        if all(change.is_mark for change in path):
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
        """Copy with growing sizes until a copy lasts long enough to count, and return its result."""
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
        """Return the server's file for a size."""
        return self.run.context.server.image(self._files.of(size_bytes).name)

    def time_copy(self, target: str, image: ImageFile, offer: SshOffer | None = None) -> TransferRecord:
        """Have the device copy a file, and return our server's account; the record has the device's too.

        Args:
            target: The destination.
            image: The file.
            offer: SSH algorithms to offer, which exclude the rate from the history; None: the usual ones.

        Raises:
            CopyFailed: The copy failed, or our server has no account of it.
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
                "our server has no record of the copy",
                host=self.run.record.host,
                step="probe",
                hint="Probe again; if that repeats, something other than our server answers at its address and port",
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
        """Return the expected tuned rate: the link's if known, else four times the untuned one."""
        if self._link_bytes_per_s is not None:
            return self._link_bytes_per_s
        as_is = self.run.record.probe.as_is if self.run.record.probe else None
        return 4 * as_is.steady_bytes_per_s if as_is else None

    def forecast(self, arm: Arm) -> float | None:
        """Return how many seconds the image will take; what is known of the flash bounds the rate."""
        to_flash = self._to_flash(arm)
        return None if to_flash is None else predicted_seconds(self._probe.image_bytes, to_flash, arm.rtt_s or 0.0)

    def _to_flash(self, arm: Arm) -> float | None:
        """Return the expected rate to flash; None if the arm was too short to measure."""
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
        """Record whether tuning pays off, if both arms were measured."""
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
            benefit = decide_tuning(
                as_is_bytes_per_s=as_is,
                tuned_bytes_per_s=tuned,
                tuned_kind=VerdictKind.SLOW_RECEIVER if is_held_back else found.tuned.verdict.kind,
                image_bytes=found.image_bytes,
            )
            if limit is not None and is_held_back:
                benefit = replace(benefit, reason=f"{benefit.reason}; {limit.source}")
            self.set_result(worth=benefit)


_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused, OutputNotUnderstood)

_OF_DEVICE = (Stopped, QuestionLeft, DialogueDisturbed)


class TransportComparison(SpeedTest):
    """A speed test that copies to `null:` by each allowed transport and finds the fastest."""

    def __init__(
        self, run: DeviceRun, probe: SpeedTestOptions, files: ProbeFiles, history: History | None = None
    ) -> None:
        super().__init__(run, probe, files, history)
        self._rows: list[TransportArm] = []

    def deliver(self, plan: DevicePlan, before: Snapshot) -> None:
        """Time each transport. The caller restores, whatever is raised."""
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
        """Add a note on each allowed transport that our side cannot serve, if none was asked for by name."""
        certificate, key = self.run.context.certificate or (None, None)
        asked, not_served = self.run.context.policy.transport, self.run.context.not_served
        request = transport_request(asked, certificate=certificate, key=key, not_served=not_served)
        for sentence in unserved(self.run.host.transport_policy, request) if request.asked == AUTO else ():
            self.run.note(sentence)

    def _timed_by(self, plan: DevicePlan, before: Snapshot) -> TransportArm:
        """Set the transport's lines, and time it."""
        transport = self.run.transport.name
        switch_lines(self.run, plan.tune, before)
        # With a small window, the size that fills the link would take an hour: a small first copy finds the right one.
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
        """Return the plan for the next transport that can be planned; each of the others gets a failed row."""
        while self.run.next_transports:
            transport = next_transport(self.run)
            self.run.update(transport=transport.name, pull=None, transfer=None)
            try:
                return plan_now(self.run, before.running)
            except ConfigInvalid as error:
                self._fail(error)
        return None

    def _fail(self, error: FlashferryError) -> None:
        """Add a row for a transport that could not be timed."""
        row = TransportArm(transport=self.run.transport.name, reason=sentence_of(error))
        self.run.event("probe", "note", f"note: by {row.transport}: {row.reason}")
        self._add(row)

    def _add(self, row: TransportArm) -> None:
        self._rows.append(row)
        self.set_result(by_transport=self._marked)

    @property
    def _marked(self) -> tuple[TransportArm, ...]:
        """Return the rows with the fastest marked.

        A transport that our own cap limited shows its share of the site, not its own speed. Of several such rows the
        first in the order of preference is marked.
        """
        timed = [row for row in self._rows if row.arm is not None]
        best = max(timed, key=_rank, default=None)
        if best is not None and _is_capped(best):
            best = next(row for row in timed if _is_capped(row))
        return tuple(replace(row, is_best=row is best) for row in self._rows)


def _is_capped(row: TransportArm) -> bool:
    return row.arm is not None and row.arm.verdict.kind is VerdictKind.CAP


def _rank(row: TransportArm) -> tuple[float, float]:
    """Return the sort key of the fastest row: the time for the image, then the rate."""
    assert row.arm is not None
    return (-(row.image_s or float("inf")), row.arm.steady_bytes_per_s)


STEP = "sweep"

COMPRESSION = "none: our server offers none, for images are compressed, and no router was seen to offer any"

_NO_MATCH = re.compile(r"no (?P<what>[\w ]+?) algorithm in common: client (?P<client>[^ ]*),? server")

_LEAST_S = 0.05


@dataclass(slots=True)
class _Cell:
    """The results so far for one cipher or MAC."""

    name: str
    copies: list[SweepCopy]
    refused: str = ""

    @property
    def row(self) -> SweepRow:
        return row_of(self.name, self.copies, self.refused)


class SshSweepTest(SpeedTest):
    """A speed test of SSH ciphers and MACs on one device."""

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
        """Time each cipher and MAC. The caller restores, whatever is raised."""
        if plan.tune.changes:
            tune(self.run, plan.tune, before)
        profile = profile_for(self.run.checked.version.release)
        login_s = self._login_s(plan.target)
        # Starting small: with a cipher that the device decrypts slowly, the link's rate says nothing.
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
        """Compare MACs under the fastest cipher that needs one, if the device has such a cipher."""
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
        """Copy with each name as often as asked for, each round in another order; leave out refused ones."""
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
        """Record why a copy failed. If the device sent its own list, exclude all names that are not in it."""
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
        """Return the seconds that the device counts for a tiny copy: almost only its login."""
        self.time_once("login", target, PILOT_BYTES, 1)
        pull = self.run.record.pull
        return float(pull.device.duration_s) if pull is not None else None

    def timed(self, size_bytes: int, login_s: float | None) -> SweepCopy:
        """Return the result of the last copy: by the device's clock without the login, else by our server's."""
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
        """Store the fastest algorithms for devices of this model, if that is asked for and there are any."""
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
        """Time one copy."""
        self.test.time_copy(self.target, self.test.image_of(self.size_bytes), offer)
        return self.test.timed(self.size_bytes, self.login_s)


def device_list(text: str, what: str) -> tuple[str, ...]:
    """Return the device's own list of ciphers or MACs, as a refusal quotes it; empty if it has none.

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
