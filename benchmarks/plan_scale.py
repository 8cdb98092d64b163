"""What a plan of a large fleet costs, and what it says: 1,000, 10,000 and 100,000 devices at 2,000 sites.

    python -m benchmarks.plan_scale                     # all three sizes, without an end and with one; minutes
    python -m benchmarks.plan_scale --devices 10000 --hours 8

All of `flashferry plan` runs but the logins: what a device would answer is put in its place. A third of the sites has a
depot, a third neighbours that serve each other. Every size runs in a process of its own; printed are processor seconds,
the most memory, and the simulated run: hours, and bytes over WAN links and LANs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING
from unittest.mock import patch

from flashferry.core.values import replace
from flashferry.model.fleet_plan import Action, FleetPlan, PlannedDevice
from flashferry.model.plan_file import save_plan
from flashferry.model.policy import StagePolicy
from flashferry.model.waves import WavePolicy
from flashferry.planning import fleet_planner
from flashferry.planning.fleet_planner import PlanRequest, plan_fleet
from flashferry.planning.gather import Found, Inspection
from inventory.host_view import view
from inventory.image_rules import ImageChoice
from inventory.nornir_loader import open_inventory

if TYPE_CHECKING:
    from nornir.core import Nornir

SIZES = (1_000, 10_000, 100_000)
SITES = 2_000
IMAGE_BYTES = 500_000_000
"""The file that is hashed is smaller: its hash is not what is measured."""
STARTS_AT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
MODELS = ("ISR4331/K9", "C8300-1N1S-6T", "CISCO2911/K9")


@dataclass(slots=True)
class Spent:
    """Processor seconds by part, in order."""

    parts: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        """Add the processor seconds of a block to a part."""
        start_s = time.process_time()
        yield
        self.parts[part] = self.parts.get(part, 0.0) + time.process_time() - start_s


def main() -> None:
    """Measure each size, in a process of its own, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, help="this size alone, in this process")
    parser.add_argument("--hours", type=float, help="when the run is to end, in hours from its start")
    parser.add_argument("--by-site", action="store_true", help="one site after the other, not all at once")
    given = parser.parse_args()
    if given.devices is not None:
        with tempfile.TemporaryDirectory(prefix="flashferry-") as name:
            measure(Path(name), given.devices, given.hours, by_site=given.by_site)
        return
    for hours in (None, 8.0):
        for devices in SIZES:
            end = [] if hours is None else ["--hours", str(hours)]
            command = [sys.executable, "-m", "benchmarks.plan_scale", "--devices", str(devices), *end]
            subprocess.run(command, check=True)


def measure(folder: Path, devices: int, hours: float | None, *, by_site: bool = False) -> None:
    """Write an inventory, plan it, and print what that cost and what the plan says."""
    write_inventory(folder, devices)
    image = folder / "isr4300-universalk9.17.09.04a.SPA.bin"
    image.write_bytes(bytes(1_000_000))
    spent = Spent()
    with spent.on("read the inventory"):
        nornir = open_inventory(folder)
    until = None if hours is None else STARTS_AT + timedelta(hours=hours)
    waves = WavePolicy(by="site" if by_site else None)
    policy = StagePolicy(any_image=True, until=until, policy=waves)
    request = PlanRequest(image=image, policy=policy, starts_at=STARTS_AT, state_directory=folder / "state")
    parts = {name: getattr(fleet_planner, name) for name in ("estimates_of", "links_of", "forecast")}
    with spent.on("plan"), patch.multiple(fleet_planner, gather=answers, **_timed(spent, parts)):
        plan = plan_fleet(nornir, request, now=STARTS_AT)
    with spent.on("write the plan"):
        save_plan(plan, folder / "plan.json")
    print_figures(plan, spent, devices)


def _timed(spent: Spent, functions: dict[str, object]) -> dict[str, object]:
    """Return functions that add their processor seconds to a part of their name."""

    def timed(name: str, function: object) -> object:
        def call(*args: object) -> object:
            with spent.on(f"  {name}"):
                return function(*args)

        return call

    return {name: timed(name, function) for name, function in functions.items()}


def answers(nornir: Nornir, inspection: Inspection) -> tuple[Found, ...]:
    """Return what every device would answer: it takes the image, at 50 ms."""
    path = inspection.hasher.find(inspection.everyone or ImageChoice(image="", reason=""))
    small = inspection.hasher.target(path)
    wanted = replace(small, image=replace(small.image, size_bytes=IMAGE_BYTES))
    found = []
    for number, host in enumerate(nornir.inventory.hosts.values()):
        device = view(host)
        planned = PlannedDevice(
            host=device.name,
            address=device.address,
            site=device.site,
            group=device.groups[0],
            action=Action.STAGE,
            model=MODELS[number % len(MODELS)],
            version="17.6.4",
            image=wanted.image.name,
            rtt_s=0.05,
        )
        link = inspection.links.of(device, device.address)
        found.append(Found(planned=planned, view=device, platform="ios-xe", target=wanted, link_rate=link))
    return tuple(found)


def write_inventory(folder: Path, devices: int) -> None:
    """Write so many devices at 2,000 sites of 10 Mbit/s, or each at one of its own where there are fewer."""
    sites = min(SITES, devices)
    kinds = ("depot: depot{number}.example.net", "neighbours: true", "max_copies: 4")
    with (folder / "groups.yaml").open("w") as file:
        for number in range(sites):
            kind = kinds[number % len(kinds)].format(number=number)
            data = f"site: site{number}, link_rate_bps: 10_000_000, {kind}"
            file.write(f"site{number}:\n  data: {{{data}}}\n")
    with (folder / "hosts.yaml").open("w") as file:
        for number in range(devices):
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            file.write(f"r{number}:\n  hostname: {address}\n  groups: [site{number % sites}]\n")
    (folder / "defaults.yaml").write_text("platform: ios\nusername: netops\n")


def print_figures(plan: FleetPlan, spent: Spent, devices: int) -> None:
    """Print what a plan cost and what it says."""
    whole_s = sum(seconds for part, seconds in spent.parts.items() if not part.startswith(" "))
    memory_bytes = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    wan = [site.bytes for site in plan.sites]
    lan = [site.lan_bytes or 0 for site in plan.sites]
    print(f"{devices:,} devices: {whole_s:.2f} s, {whole_s / devices * 1e6:.0f} us each, {memory_bytes / 1e6:.0f} MB")
    for part, seconds in spent.parts.items():
        print(f"    {part:<22} {seconds:7.2f} s")
    print(
        f"    the run takes {plan.duration_s / 3600:.1f} h at {len(plan.sites):,} sites; over WAN links "
        f"{sum(wan) / 1e12:.3f} TB, {min(wan) / 1e9:.3f} to {max(wan) / 1e9:.3f} GB each; over LANs "
        f"{sum(lan) / 1e12:.3f} TB; on average {sum(wan) * 8 / max(plan.duration_s, 1) / 1e9:.3f} Gbit/s leave the "
        f"controller",
    )
    print(f"    {plan.fit.sentence}", flush=True)


if __name__ == "__main__":
    main()
