"""What waiting costs: a fleet that copies at a trickle, one controller, and the naive way beside it."""

import json
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.fleet_server import PASSWORD, USER
from benchmarks.fleet_watch import Subject, SubjectFailed, Waiting, subject
from benchmarks.procfs import rss_bytes
from benchmarks.report import print_progress
from flashferry.lab.world import DeviceSpec, Rung, SiteSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory
from flashferry.store.stored_run import read_run

LINK_BPS = 40_000
"""Of each device: a router behind a modem. Its copy has 80 % of it, less headers: about 3.9 kB/s."""
IMAGE_BYTES = 2_000_000
"""Over eight minutes of copying: time for all to log in, and to be watched."""
NAIVE_IMAGE_BYTES = 2 * IMAGE_BYTES
"""The naive fleet begins its copies first and watches them together then: none may have ended by that time."""
RUNNERS = 40
RUNNER_BPS = 250_000
"""The last devices have a faster link: their copies end after eighty seconds, while all others still copy, and show how
soon we react to the end of a copy."""
SATURATED = 0.9
"""Of one core: only calls of the kernel run beside Python's one thread, so a process that takes more is late. What it
takes then is what it gets, not what it wants, and is a lower bound."""
_BEGUN_WITHIN_S = 600.0
_SETTLE_S = 5.0


def trickling_inventory(world: World, folder: Path) -> Path:
    """Write an inventory whose devices have a slow link each and share it with nobody."""
    inventory = write_inventory(world, folder)
    (inventory / "groups.yaml").write_text(
        "---\n"
        + "".join(
            f"{site.name}:\n  platform: ios\n  data:\n    link_rate_bps: {rate_bps}\n"
            for site, rate_bps in zip(world.sites, (LINK_BPS, RUNNER_BPS), strict=True)
        )
    )
    return inventory


def ours(world: World, folder: Path, devices: int, hold_s: float, image_bytes: int = IMAGE_BYTES) -> dict[str, Any]:
    """Return what our controller costs while all devices copy, and how soon it reacts."""
    image = _image(folder, "ours.bin", image_bytes)
    inventory = trickling_inventory(world, folder / f"inventory-ours{devices}")
    arguments = [
        "-m",
        "benchmarks.fleet_ours",
        str(inventory),
        str(image),
        str(folder / "state"),
        str(max(1, min(devices // 2, RUNNERS))),
    ]
    with subject(world, arguments, folder / "ours.log") as process:
        before_bytes, waiting = _watched(process, hold_s)
        seen = process.hear("enough", 600)
    return _figures(devices, before_bytes, waiting) | {
        "ended_before_all_began": process.hear("all copying", 1)["ended"],
        "reaction_s": _spread(_reactions_s(folder / "state", seen["verify_at"])),
        "steps_s": {step: _spread(values) for step, values in seen["steps_s"].items()},
    }


def naive(
    world: World, folder: Path, devices: int, hold_s: float, image_bytes: int = NAIVE_IMAGE_BYTES
) -> dict[str, Any]:
    """Return what the naive fleet costs while all devices copy; it is ended when that is known.

    Raises:
        SubjectFailed: A copy ended before: what was watched was not a fleet that waits.
    """
    image = _image(folder, "naive.bin", image_bytes)
    inventory = trickling_inventory(world, folder / f"inventory-naive{devices}")
    with subject(
        world, ["-m", "benchmarks.fleet_server", str(image), str(LINK_BPS // 10)], folder / "server.log"
    ) as server:
        port = server.hear("ready", 30)["port"]
        url = f"ftp://{USER}:{PASSWORD}@{world.server_address}:{port}/{image.name}"
        arguments = ["-m", "benchmarks.fleet_naive", str(inventory), url, str(devices)]
        with subject(world, arguments, folder / "naive.log") as process:
            before_bytes, waiting = _watched(process, hold_s)
            if process.has_said("ended"):
                ended = process.hear("ended", 1)
                raise SubjectFailed(f"expected all naive copies to go on while they were watched, one ended: {ended}")
        return _figures(devices, before_bytes, waiting) | {"saturated": waiting.cpu_share >= SATURATED}


def measure(devices: int, hold_s: float, *, with_naive: bool = True) -> dict[str, Any]:
    """Return the figures of both."""
    fleet = tuple(DeviceSpec(name=f"r{number}") for number in range(1, devices + 1))
    last = max(1, min(RUNNERS, devices // 2))
    parts = {"slow": fleet[:-last], "runners": fleet[-last:]}
    spec = WorldSpec(sites=tuple(SiteSpec(name=name, profile="lan", devices=part) for name, part in parts.items()))
    found = {"ours": _in_a_world(spec, lambda world, folder: ours(world, folder, devices, hold_s))}
    print_progress(json.dumps(found))
    if with_naive:
        # Fresh stand-ins of the same kind: those before were left in the middle of their copies.
        found["naive"] = _in_a_world(spec, lambda world, folder: naive(world, folder, devices, hold_s))
    return found


def _in_a_world(spec: WorldSpec, work: Callable[[World, Path], dict[str, Any]]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec, rung=Rung.NAMESPACES) as world:
        return work(world, Path(name))


def _watched(process: Subject, hold_s: float) -> tuple[int, Waiting]:
    process.hear("ready", 60)
    before_bytes = rss_bytes(process.process.pid)
    process.go()
    process.hear("all copying", _BEGUN_WITHIN_S)
    process.held(_SETTLE_S)
    return before_bytes, process.held(hold_s)


def _figures(devices: int, before_bytes: int, waiting: Waiting) -> dict[str, Any]:
    return {
        "devices": devices,
        "held_s": round(waiting.held_s, 1),
        "cpu_ms_per_s_and_device": round(waiting.cpu_share * 1e3 / devices, 4),
        "server_cpu_ms_per_s_and_device": round(waiting.child_cpu_share * 1e3 / devices, 4),
        "rss_before_bytes": before_bytes,
        "rss_bytes": waiting.rss_bytes,
        "rss_bytes_per_device": round((waiting.rss_bytes - before_bytes) / devices),
        "threads": waiting.threads,
    }


def _reactions_s(state: Path, verify_at: dict[str, float]) -> list[float]:
    """Return for each device the time from its last acknowledged byte to our next step, the hash, in seconds.

    In it are the device's own end of the copy, its prompt, and the quarter of a second for which a prompt must stand.
    """
    ended = {
        device.host: one.record["started_at"] + one.record["last_ack_s"]
        for device in read_run(state, "latest").devices
        for one in device.transfers
    }
    return [at - ended[host] for host, at in verify_at.items() if host in ended]


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    if not ordered:
        return {}
    ninth = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered), 2),
        "p95": round(ninth, 2),
        "most": round(ordered[-1], 2),
    }


def _image(folder: Path, name: str, size_bytes: int) -> Path:
    path = folder / name
    path.write_bytes(os.urandom(size_bytes))
    return path
