"""How well the link forwards and keeps time: `python -m benchmarks.lab_link [--seconds 5]`; needs root and TUN.

Two tables: Mbit/s forwarded at rates asked for, with the processor time of the link process; and round-trip times
asked for against measured. Nothing else should run meanwhile: the link is a process like any other.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.procfs import cpu_s
from lab.world import World, WorldSpec, start_world

_RATES_MBIT_S = (50, 100, 300, 500, 1000)
_RTTS_MS = (0, 1, 5, 20, 100, 300, 600)
_ECHOES = 40


def _traffic(pid: int, *words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.lab_traffic", str(pid), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def forward(world: World, seconds: float) -> tuple[float, float]:
    """Send one bulk transfer towards the site; return bit/s of payload and the share of a core the link took."""
    address = world.devices[0].address
    with _traffic(world.site_pids[0], "sink", address) as sink:
        port = int(_line(sink))
        before_s = cpu_s(world.core_pid)
        with _traffic(world.core_pid, "source", address, port, seconds, "cubic"):
            pass
        rate_bytes_per_s = float(_line(sink))
        spent_s = cpu_s(world.core_pid) - before_s
    return rate_bytes_per_s * 8, spent_s / seconds


def round_trips_ms(world: World) -> list[float]:
    """Return round-trip times, sorted."""
    with _traffic(world.core_pid, "ping", world.devices[0].address, _ECHOES) as echo:
        times: list[float] = json.loads(_line(echo))
    return sorted(times)


def _head(title: str, columns: tuple[str, ...]) -> None:
    print(f"\n{title}\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")


def _row(*cells: Any) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each transfer")
    seconds = parser.parse_args().seconds
    print(f"Linux {platform.release()}, Python {platform.python_version()}, {os.cpu_count()} cores, ", end="")
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    with start_world(WorldSpec(profile="lan")) as world:
        _head("Forwarding, RTT 20 ms, one CUBIC flow", ("asked Mbit/s", "payload Mbit/s", "core share", "dropped"))
        for rate_mbit_s in _RATES_MBIT_S:
            world.set_link(rate_bps=rate_mbit_s * 1e6, delay_s=0.01)
            dropped = world.link_counters()["to_site"]["dropped_packets"]
            rate_bps, share = forward(world, seconds)
            dropped = world.link_counters()["to_site"]["dropped_packets"] - dropped
            _row(rate_mbit_s, f"{rate_bps / 1e6:.0f}", f"{share:.2f}", dropped)
        columns = ("asked ms", "median", "least", "95 %", "median over")
        _head(f"Round trip of {_ECHOES} ICMP echoes on an idle link", columns)
        for rtt_ms in _RTTS_MS:
            world.set_link(rate_bps=1e9, delay_s=rtt_ms / 2e3)
            times = round_trips_ms(world)
            middle = statistics.median(times)
            late = f"{middle - rtt_ms:.2f}"
            _row(rtt_ms, f"{middle:.2f}", f"{times[0]:.2f}", f"{times[int(0.95 * len(times))]:.2f}", late)


if __name__ == "__main__":
    main()
