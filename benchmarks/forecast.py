"""Is the forecast of `flashferry plan` right? Planned, staged, and compared, in a world of the lab.

    python -m benchmarks.forecast                      # fleet-40, all sites side by side; about three minutes
    python -m benchmarks.forecast --rounds 2 --world two-sites --size-bytes 30000000
    python -m benchmarks.forecast --play 1000          # how long a forecast of so many devices takes; seconds

The first round plans without any history, from assumptions; a second one, with another image of the same size, from
what the first one left. Printed are the forecast and the run, as a whole and per site.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashferry.lab.world import World, start_world
from flashferry.lab.world_spec import load_world, write_inventory
from flashferry.model.fleet_plan import FleetPlan
from flashferry.model.limits import Limits
from flashferry.model.plan_file import load_plan
from flashferry.model.waves import WavePolicy
from flashferry.planning.forecast import forecast
from flashferry.planning.scenario import Estimate, LinkFacts, Rate, Scenario
from flashferry.store.stored_run import StoredRun, read_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A part of the run: forecast and measured length in seconds."""

    name: str
    forecast_s: float
    measured_s: float


def main() -> None:
    """Run both rounds and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", default="fleet-40")
    parser.add_argument("--size-bytes", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, choices=(1, 2), default=1)
    parser.add_argument("--play", type=int, metavar="DEVICES", help="play a fleet of so many through, and no more")
    given = parser.parse_args()
    if given.play:
        _play(given.play)
        return
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(load_world(given.world)) as world:
        folder = Path(name)
        inventory = write_inventory(world, folder / "inventory")
        rounds = ("without history", "with the history of the first round")[: given.rounds]
        for number, words in enumerate(rounds, 1):
            image = folder / f"image-{number}.bin"
            image.write_bytes(os.urandom(given.size_bytes))
            plan, run = _round(world, inventory, image, folder)
            print(f"round {number}, {words}: {len(run.devices)} devices, {given.size_bytes:,} bytes each")
            for row in _rows(plan, run):
                share = row.measured_s / row.forecast_s if row.forecast_s else 0.0
                print(
                    f"  {row.name:<12} forecast {row.forecast_s:6.1f} s  run {row.measured_s:6.1f} s  {share:5.2f}",
                    flush=True,
                )


def _play(devices: int) -> None:
    """Print the processor seconds that forecasts of a fleet take: 20 devices a site, 500 MB each, two images."""
    starts_at = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
    for words, facts, until_s in (
        ("no depot, no end", {}, None),
        ("no depot, 1 hour, which is too short", {}, 3600.0),
        ("depots, 1 hour", {"depot": "depot-1"}, 3600.0),
        ("neighbours, 1 hour", {"neighbours": True}, 3600.0),
    ):
        scenario = _fleet(devices, facts, until_s)
        begin_s = time.process_time()
        told = forecast(scenario, starts_at)
        spent_s = time.process_time() - begin_s
        print(
            f"{words:<38} {spent_s:6.2f} s  run {told.duration_s / 3600:5.2f} h, "
            f"{len(told.fit.late)} late, {len(told.depot_advice)} sites should have a depot",
            flush=True,
        )


def _fleet(devices: int, facts: dict[str, Any], until_s: float | None) -> Scenario:
    rate = Rate(bytes_per_s=1e6, source="measured", is_of_link=True)
    sites = [f"s{number // 20}" for number in range(devices)]
    estimates = tuple(
        Estimate(
            host=f"r{number}",
            link=site,
            site=site,
            group=None,
            model="ISR4331/K9",
            image=f"image-{number % 2}.bin",
            size_bytes=500_000_000,
            rate=rate,
            hash_bytes_per_s=4.2e6,
            rtt_s=0.05,
        )
        for number, site in enumerate(sites)
    )
    links = {site: LinkFacts(name=site, rate_bps=10e6, cap_share=0.8, **facts) for site in sites}
    policy = WavePolicy(canary=False, by=None)
    return Scenario(estimates=estimates, links=links, limits=Limits(), policy=policy, until_s=until_s)


def _round(world: World, inventory: Path, image: Path, folder: Path) -> tuple[FleetPlan, StoredRun]:
    path = folder / f"{image.stem}.json"
    common = ("--inventory", inventory, "--state-dir", folder / "state", "--json")
    _inside(world, "plan", *common, "--image", image, "--any-image", "--wave-by", "all", "--no-canary", "-o", path)
    _inside(world, "stage", *common, "--plan", path)
    return load_plan(path), read_run(folder / "state", "latest")


def _inside(world: World, *arguments: str | Path) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"]
    command += [sys.executable, "-P", "-m", "flashferry", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"flashferry {arguments[0]} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _rows(plan: FleetPlan, run: StoredRun) -> list[Row]:
    assert run.finished_at is not None, "the run ended in order"
    whole = (_time(run.finished_at) - _time(run.started_at)).total_seconds()
    rows = [Row(name="whole run", forecast_s=plan.duration_s, measured_s=whole)]
    for site in plan.sites:
        spans = [_span(one.record) for device in run.devices if device.site == site.site for one in device.transfers]
        measured = max(end for _, end in spans) - min(start for start, _ in spans)
        rows.append(Row(name=f"link {site.site}", forecast_s=site.busy_s, measured_s=measured))
    return rows


def _span(record: dict[str, Any]) -> tuple[float, float]:
    """Return when a transfer's bytes began and ended, in seconds since 1970."""
    start = float(record["started_at"])
    return start, start + float(record["duration_s"])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


if __name__ == "__main__":
    main()
