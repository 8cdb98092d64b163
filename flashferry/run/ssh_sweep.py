"""`flashferry probe --ssh-sweep`: which cipher and MAC a device takes fastest, found without a line about its crypto.

The way of a speed test: in hand, tuned, copies to `null:`, restored. Between them our server offers the device's
address one cipher alone for each copy, then one MAC. Each round has another order, so that what changes on the path
meets all alike.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flashferry.core.units import exact_rate
from flashferry.devices.errors import CopyFailed, DeviceRefused, Stopped, TransferStalled
from flashferry.fileserver import SshOffer
from flashferry.model.ssh_sweep import (
    CIPHERS,
    MACS,
    SshSweep,
    SweepCopy,
    SweepOptions,
    SweepRow,
    authenticates_itself,
    best_of,
    conclusion_of,
    ranked,
    row_of,
)
from flashferry.model.states import Outcome
from flashferry.planning.probe_files import ProbeFiles
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import last_server_error
from flashferry.run.device.tune import tune
from flashferry.run.device_plan import DevicePlan
from flashferry.run.probe import SpeedTest, SpeedTestOptions
from flashferry.store.history import History
from flashferry.store.ssh_preferences import SshPreference, SshPreferences
from flashferry.tcp.probing import PILOT_BYTES
from flashferry.transports.algorithms import profile_for
from tasks.snapshot import Snapshot

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
