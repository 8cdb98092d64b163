"""200 devices at ten sites that share a line each: how busy the lines are, and whether a cap is ever passed.

How busy a line is, its own counters say, read once a second. A site's time runs from its first RETR to the last
acknowledged byte of its last copy, by the server's records: in between there is work left for its line. Whether the
copies of a site kept to its cap is told by their packets, seen where they leave (`fleet_tap`). The bound is what the
site with the most bytes needs at its cap, with nothing else to do.
"""

import math
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from benchmarks.fleet_ground import Controller, FlashWatch
from benchmarks.fleet_tap import CopyTap
from benchmarks.procfs import cpu_s
from flashferry.lab.world import World, WorldSpec, start_world
from flashferry.lab.world_spec import load_world, write_inventory
from flashferry.model.limits import Limits
from flashferry.model.link_rates import payload_cap_bytes_per_s
from flashferry.store.stored_run import StoredRun, read_run

WORLD = "sites-200"
CAP_SHARE = 0.98
IMAGE_BYTES = 10_000_000
"""Seven minutes at a cap: the longer, the less the logins at the start and the hash runs at the end weigh."""
_LONGEST_S = 900.0
_COPIES = Limits().site_copies
_PAIR_BYTES = 2 * 1460
"""The kernel sends two segments at a time at any pace (net.ipv4.tcp_min_tso_segs): a stretch of time may begin
with such a pair of each copy."""


@dataclass(slots=True)
class LinkWatch:
    """Reads the counters of all links once a second."""

    world: World
    readings: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def rates_bytes_per_s(self, site: str, begin: float, end: float) -> list[float]:
        """Return what a link delivered to its site, per second, between the readings within a time."""
        inside = [one for one in self.readings[site] if begin <= one[0] <= end]
        return [(after - before) / (later - at) for (at, before), (later, after) in pairwise(inside)]

    def delivered_bytes(self, site: str, begin: float, end: float) -> tuple[float, float]:
        """Return the bytes that a link delivered between the first and last reading within a time, and the seconds."""
        inside = [one for one in self.readings[site] if begin <= one[0] <= end]
        return inside[-1][1] - inside[0][1], inside[-1][0] - inside[0][0]

    def _look(self) -> None:
        for site in self.world.sites:
            self.readings[site.name] = []
        due_s = time.monotonic()
        while not self._stop.is_set():
            for site in self.world.sites:
                before = time.time()
                counters = self.world.link_counters(site.name)["to_site"]
                self.readings[site.name].append(((before + time.time()) / 2, counters["delivered_bytes"]))
            due_s += 1.0
            self._stop.wait(max(0.0, due_s - time.monotonic()))


def measure(*, image_bytes: int = IMAGE_BYTES, spec: WorldSpec | None = None) -> dict[str, Any]:
    """Stage an image on all devices and return what the links saw."""
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec or load_world(WORLD)) as world:
        folder = Path(name)
        image = folder / "image.bin"
        image.write_bytes(bytes(image_bytes))
        inventory = write_inventory(world, folder / "inventory", cap_share=CAP_SHARE)
        with FlashWatch(world, image) as flash, LinkWatch(world) as links, CopyTap(world) as tap:
            started = time.time()
            what = ("--image", str(image), "--inventory", str(inventory), "--no-canary", "--wave-by", "all")
            controller = Controller(world, folder, "stage", *what)
            spent_s = _wait(controller)
            ended = time.time()
            time.sleep(1)
        run = read_run(folder / "state", "latest")
        found = _figures(world, run, (links, tap), image_bytes, ended - started)
        whole = list(flash.whole().values())
    return found | {
        "exit_code": controller.process.returncode,
        "copied_once": whole.count(1),
        "devices": len(whole),
        "controller_cpu_s": round(spent_s, 1),
    }


def _wait(controller: Controller) -> float:
    """Wait for the end of a run; return the processor time it took, its server's included."""
    deadline_s, spent_s = time.monotonic() + _LONGEST_S, 0.0
    while not controller.ended_within(1.0):
        try:
            spent_s = cpu_s(controller.process.pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        if time.monotonic() > deadline_s:
            controller.kill(controller=True, server=True)
            raise TimeoutError(f"the run took more than {_LONGEST_S:.0f} s: {controller.said()}")
    return spent_s


def _figures(
    world: World, run: StoredRun, eyes: tuple[LinkWatch, CopyTap], image_bytes: int, total_s: float
) -> dict[str, Any]:
    sites, (links, tap) = {}, eyes
    bound_s, min_cap = 0.0, math.inf
    for site in world.sites:
        link_bytes_per_s = site.profile.rate_bps / 8
        cap = payload_cap_bytes_per_s(site.profile.rate_bps * CAP_SHARE)
        assert cap is not None
        min_cap = min(min_cap, cap)
        bound_s = max(bound_s, len(site.devices) * image_bytes / cap)
        times = _times(run, {device.name for device in site.devices})
        if times is None:
            continue
        begin, end = times
        delivered, seconds = links.delivered_bytes(site.name, begin, end)
        short = links.rates_bytes_per_s(site.name, begin, end)
        sites[site.name] = {
            "busy": round(delivered / seconds / link_bytes_per_s, 4),
            "busy_of_cap": round(delivered / seconds / (link_bytes_per_s * CAP_SHARE), 4),
            "bins_below_90_percent": sum(rate < 0.9 * link_bytes_per_s for rate in short),
            "bins": len(short),
            "most_payload_of_cap_1_s": round(tap.most_bytes_per_s(site.name, 1) / cap, 4),
            "most_payload_of_cap_5_s": round(tap.most_bytes_per_s(site.name, 5) / cap, 4),
            "most_payload_of_cap_30_s": round(tap.most_bytes_per_s(site.name, 30) / cap, 4),
            "mean_payload_of_cap": round(tap.mean_bytes_per_s(site.name) / cap, 4),
            "copying_s": round(end - begin, 1),
        }
    return {
        "sites": sites,
        "busy_least": min(one["busy"] for one in sites.values()),
        "busy_median": statistics.median(one["busy"] for one in sites.values()),
        "most_payload_of_cap_1_s": max(one["most_payload_of_cap_1_s"] for one in sites.values()),
        "most_payload_of_cap_5_s": max(one["most_payload_of_cap_5_s"] for one in sites.values()),
        "most_payload_of_cap_30_s": max(one["most_payload_of_cap_30_s"] for one in sites.values()),
        "ahead_of_cap_5_s": round(_COPIES * _PAIR_BYTES / (5 * min_cap), 4),
        "bound_s": round(bound_s, 1),
        "total_s": round(total_s, 1),
        "of_bound": round(total_s / bound_s, 3),
        "cap_share": CAP_SHARE,
        "image_bytes": image_bytes,
    }


def _times(run: StoredRun, hosts: set[str]) -> tuple[float, float] | None:
    """Return when the first copy of some devices began and the last one ended, in seconds since 1970."""
    records = [one.record for device in run.devices if device.host in hosts for one in device.transfers]
    spans = [(one["started_at"], one["started_at"] + one["last_ack_s"]) for one in records if one["last_ack_s"]]
    return (min(begin for begin, _ in spans), max(end for _, end in spans)) if spans else None
