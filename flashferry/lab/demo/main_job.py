"""The demo's last table: each router before, while and after, and what the lab sees behind its back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import typer
from nornir.core import Nornir
from rich.text import Text

from flashferry.cli.terminal.interrupt import graceful_interrupt
from flashferry.cli.terminal.output import say
from flashferry.cli.view.device_tables import print_checks, print_run_details
from flashferry.cli.view.layout import BAD, GOOD, console, line, rate, restored, show
from flashferry.cli.view.live import watching
from flashferry.cli.view.probe_table import print_probe
from flashferry.lab.demo.harness import print_line, step
from flashferry.lab.enter import enter_core
from flashferry.lab.errors import LabError
from flashferry.lab.world import DeviceSpec, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.model.exit_codes import ExitCode, exit_code, run_exit_code
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.model.record import DeviceRecord, RunReport
from flashferry.model.states import Restored
from flashferry.planning.local_images import random_image
from flashferry.run.connectivity import reach_fleet
from flashferry.run.probe import SpeedTestOptions, probe_fleet
from flashferry.run.request import RunOptions
from flashferry.run.run import run_fleet, selected
from flashferry.store.journal import Journal
from flashferry.store.status import last_as_is
from inventory.nornir_loader import open_inventory
from tasks.read_config import difference, fingerprint

_SALT = ""  # compared in memory; nothing is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """The routers' running and startup configurations as the lab has them."""

    running: dict[str, str]
    startup: dict[str, str]

    @classmethod
    def of(cls, world: World) -> Before:
        """Take them from a world, behind SSH's back."""
        names = [device.name for device in world.devices]
        return cls(
            running={name: world.running_config(name) for name in names},
            startup={name: world.startup_config(name) for name in names},
        )

    def compared(self, world: World) -> dict[str, str]:
        """Return by router what is different now; empty texts where nothing is."""
        now = Before.of(world)
        return {
            name: _different(self.running[name], now.running[name]) or _different(self.startup[name], now.startup[name])
            for name in self.running
        }


def print_result(probed: RunReport, staged: Sequence[RunReport], differences: dict[str, str]) -> bool:
    """Print the table and return whether every router is proven to be what it was."""
    before = {device.host: device for device in probed.devices}
    after = [(run, device) for run in staged for device in run.devices]
    show(_row(before[device.host], device) for _, device in after)
    for run, device in after:
        digest = device.verify.md5 if device.verify else "none"
        line(device.host, f"MD5 computed by the router: {digest}; of the file: {run.md5}")
        if device.pull is not None and device.transfer is not None:
            seen = device.pull.device
            line(device.host, f"{seen.size_bytes:,} bytes in {seen.duration_s:.3f} s by the router's own clock")
            line(device.host, device.transfer.verdict.sentence)
    for host, found in differences.items():
        line(
            host,
            f"inspected without SSH: its configuration is not what it was: {found}"
            if found
            else "inspected without SSH: its running and startup configurations are what they were",
            BAD if found else GOOD,
        )
    proven = all(device.restored is Restored.RESTORED for _, device in after)
    return proven and not any(differences.values())


def _row(before: DeviceRecord, after: DeviceRecord) -> dict[str, str | Text]:
    was = before.probe.as_is if before.probe else None
    tuned = before.probe.tuned if before.probe else None
    link = after.link_rate
    limit = payload_cap_bytes_per_s(link.rate_bps) if link else None
    return {
        "device": after.host,
        "by": after.transport,
        "as it was": _mb(was.measured_bytes_per_s if was else None),
        "tuned": _mb(tuned.measured_bytes_per_s if tuned else None),
        # By the router's own line: its window takes a part of a small image before flash has seen a byte of it.
        "to flash": _mb(after.pull.device.rate_bytes_per_s if after.pull else None),
        "link limit": _mb(limit),
        "verdict": after.transfer.verdict.kind.value if after.transfer else "-",
        "hash": "proven" if after.verify else "-",
        "config": restored(after.restored),
    }


def _mb(bytes_per_s: float | None) -> str:
    return rate(bytes_per_s).removesuffix(" MB/s")


def _different(before: str, after: str) -> str:
    return str(difference(fingerprint(before, salt=_SALT), after, salt=_SALT) or "")


STAGED = ((("xe1",), 20_000_000), (("ios1",), 3_000_000), (("web1", "scp1"), 20_000_000))
"""Which routers are staged together, and what they get. IOSv's flash takes 83 kB/s, as in the published experiment:
20 MB would be four minutes."""

POLICIES: dict[str, dict[str, list[str] | bool]] = {"web1": {"transports": ["http"]}, "scp1": {"clear_text": False}}
"""What the inventory says of transports, by router: nothing of the first two, so they fetch by FTP."""

PROBE_S = 5.0
"""What each copy of the speed test should take; by itself `flashferry probe` takes ten seconds for it."""

CAP_SHARE = 0.98
"""Nothing else uses the lab's links; on yours copies take four fifths unless the inventory says otherwise."""

_NEXT = (
    "Next, on your own routers: flashferry init DIR, then",
    "  flashferry check --inventory DIR --image FILE --reach",
    "  flashferry probe --inventory DIR --image FILE --host NAME",
    "  flashferry stage --inventory DIR --image FILE --host NAME",
)


def demo_world(seed: int = 1) -> WorldSpec:
    """Return four sites behind the published WAN, a router at each; two of them do not fetch by FTP."""
    routers = {
        "branch": DeviceSpec(name="xe1"),
        "depot": DeviceSpec(name="ios1", platform="iosv-15.8"),
        "office": DeviceSpec(name="web1", platform="c8000v-17.15"),
        "bank": DeviceSpec(name="scp1", platform="c8000v-17.15"),
    }
    sites = tuple(SiteSpec(name=site, profile="published", devices=(one,)) for site, one in routers.items())
    return WorldSpec(seed=seed, sites=sites)


def run_demo(spec: WorldSpec) -> ExitCode:
    """Start the lab, check, probe, stage, compare; return the exit code."""
    try:
        with start_world(spec) as world:
            inventory = write_inventory(world, world.directory / "inventory")
            # From here on everything of this process is where the controller is: in front of the WAN.
            enter_core(world.core_pid)
            # The routers' host keys are made anew with every lab: no known hosts may remember them.
            os.environ["FLASHFERRY_STATE_DIR"] = str(world.directory / "state")

            def fleet() -> Nornir:
                opened = open_inventory(inventory)
                for group in opened.inventory.groups.values():
                    group.data["cap_share"] = CAP_SHARE
                for name, policy in POLICIES.items():
                    opened.inventory.hosts[name].data.update(policy)
                return opened

            with Journal(world.directory / "state") as journal:
                return _Demo(world, fleet, journal).run()
    except LabError as error:
        say(f"error: {error}")
        return ExitCode.USAGE


class _Demo:
    """The parts of the demo, in their order."""

    def __init__(self, world: World, fleet: Callable[[], Nornir], journal: Journal) -> None:
        self._world = world
        self._fleet = fleet
        self._journal = journal

    def run(self) -> ExitCode:
        before = Before.of(self._world)
        self._introduce()
        self._check()
        probed = self._probe()
        staged = [self._stage(number, *what) for number, what in enumerate(STAGED, 4)]
        step(4 + len(STAGED), "Results, speeds in MB/s")
        unchanged = print_result(probed, staged, before.compared(self._world))
        if not unchanged:
            return ExitCode.RESTORE_INCOMPLETE
        # A line at a time: the console writes out a line break within a text, which might be a device's.
        for text in _NEXT:
            print_line(text)
        return ExitCode.OK

    def _introduce(self) -> None:
        step(1, f"{len(self._world.sites)} sites, each behind a WAN link of its own ({self._world.rung})")
        for site in self._world.sites:
            names = ", ".join(f"{one.name} ({one.platform} stand-in)" for one in site.devices)
            console().print(f"{site.name}: {names}; {site.profile.name} link: {site.profile.describe()}")
        for name, policy in POLICIES.items():
            said = json.dumps(policy).strip("{}").replace('"', "")
            console().print(f"the inventory says of {name}: {said}", markup=False)

    def _check(self) -> None:
        step(2, "flashferry check --reach: fit, and can they fetch from us? Nothing is changed")
        with watching("reach", devices=len(self._world.devices)) as emit, graceful_interrupt(emit.say) as stop:
            records = reach_fleet(self._fleet(), None, RunOptions(verb="check"), emit=emit, interrupted=stop.is_set)
        print_checks(records)
        _must_be_well(exit_code((record.outcome for record in records), interrupted=stop.is_set()))

    def _probe(self) -> RunReport:
        step(3, "flashferry probe: copies to null:, as they are and tuned, restored at once")
        with watching("restore", devices=len(self._world.devices)) as emit, graceful_interrupt(emit.say) as stop:
            report = probe_fleet(
                self._fleet(),
                SpeedTestOptions(target_s=PROBE_S),
                RunOptions(verb="probe"),
                journal=self._journal,
                emit=emit,
                interrupted=stop.is_set,
            )
        print_probe(report, is_kept=False)
        _must_be_well(run_exit_code(report))
        return report

    def _stage(self, number: int, names: tuple[str, ...], size_bytes: int) -> RunReport:
        why = "" if size_bytes == max(size for _, size in STAGED) else "; no more, for its flash takes 0.083 MB/s"
        step(number, f"flashferry stage: {size_bytes / 1e6:g} MB of random bytes to {' and '.join(names)}{why}")
        with (
            random_image(size_bytes, self._journal.directory, f"demo-{names[0]}.bin") as image,
            watching("restore", devices=len(names)) as emit,
            graceful_interrupt(emit.say) as stop,
        ):
            report = run_fleet(
                selected(self._fleet(), names),
                image,
                RunOptions(),
                journal=self._journal,
                emit=emit,
                interrupted=stop.is_set,
            )
        print_run_details(report, last_as_is(self._journal.directory), is_kept=False)
        _must_be_well(run_exit_code(report))
        return report


def _must_be_well(code: ExitCode) -> None:
    """End the demo where a part of it ended otherwise than well: the rest makes no sense."""
    if code is not ExitCode.OK:
        raise typer.Exit(int(code))
