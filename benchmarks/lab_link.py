"""How much the link forwards, and how well it keeps time: `python -m benchmarks.lab_link [--seconds 5]`.

Needs root and TUN, takes two minutes. Three tables: what one CUBIC flow gets at rates asked for, once its slow
start is over, by the link's own counters (IP packets) and by the receiver (payload), with the processor time of the
link process; round-trip times on an idle link; and the same while a flow of 300 Mbit/s passes that leaves no queue.
Nothing else should run meanwhile: the link is a process like any other.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.lab_driver import conditions, head, row
from benchmarks.procfs import cpu_s
from flashferry.lab.world import World, WorldSpec, start_world

_FORWARDING = {20: (50, 100, 320, 500, 1000, 10_000), 100: (50, 100)}
"""Round trip in ms, and the rates asked for in Mbit/s: as much as one CUBIC flow reaches within seconds."""
_RTTS_MS = (0, 1, 5, 20, 100, 300, 600)
_BUSY_RTTS_MS = (20, 100, 300)
_BUSY_PAYLOAD_MBIT_S = 300
_BUSY_LINK_BPS = 1e9
_ECHOES = 40
_LEAST_WARM_UP_S = 2.0
_WARM_UP_ROUNDS = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """What passed towards the site in a stretch of time.

    Attributes:
        wire_bps: Bits of IP packets per second, by the link's counters.
        payload_bps: Bits per second that the receiver got.
        core_share: Share of one core that the link process took.
        dropped_packets: What its queue had no room for.
    """

    wire_bps: float
    payload_bps: float
    core_share: float
    dropped_packets: int


def _traffic(pid: int, *words: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.lab_traffic", str(pid), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def _total(sink: "subprocess.Popen[str]") -> int:
    assert sink.stdin is not None
    sink.stdin.write("\n")
    sink.stdin.flush()
    return int(_line(sink))


@contextlib.contextmanager
def _flow(world: World, payload_mbit_s: float = 0) -> "Iterator[subprocess.Popen[str]]":
    """Keep one bulk transfer towards the site going; yield its receiver when its slow start is over."""
    address = world.devices[0].address
    with _traffic(world.site_pids[0], "sink", address) as sink:
        pace = int(payload_mbit_s * 1e6 / 8)
        with _traffic(world.core_pid, "source", address, _line(sink), 600, "cubic", pace) as source:
            time.sleep(
                max(_LEAST_WARM_UP_S, _WARM_UP_ROUNDS * world.link_counters()["profile"]["to_site"]["delay_s"] * 2)
            )
            try:
                yield sink
            finally:
                source.kill()
                sink.kill()


def forward(world: World, seconds: float) -> Forwarded:
    """Measure one bulk transfer for a while."""
    with _flow(world) as sink:
        counters, total, spent_s = world.link_counters()["to_site"], _total(sink), cpu_s(world.core_pid)
        start_s = time.monotonic()
        time.sleep(seconds)
        took_s = time.monotonic() - start_s
        after, total_after = world.link_counters()["to_site"], _total(sink)
        spent_s = cpu_s(world.core_pid) - spent_s
    return Forwarded(
        wire_bps=(after["delivered_bytes"] - counters["delivered_bytes"]) * 8 / took_s,
        payload_bps=(total_after - total) * 8 / took_s,
        core_share=spent_s / took_s,
        dropped_packets=after["dropped_packets"] - counters["dropped_packets"],
    )


def round_trips_ms(world: World) -> list[float]:
    """Return round-trip times, sorted."""
    with _traffic(world.core_pid, "ping", world.devices[0].address, _ECHOES) as echo:
        times: list[float] = json.loads(_line(echo))
    return sorted(times)


def _forwarding(world: World, seconds: float) -> None:
    columns = ("RTT ms", "asked Mbit/s", "on the wire", "payload", "share of a core", "dropped")
    head("Forwarding, one CUBIC flow after its slow start", *columns)
    for rtt_ms, rates_mbit_s in _FORWARDING.items():
        for rate_mbit_s in rates_mbit_s:
            world.set_link(rate_bps=rate_mbit_s * 1e6, delay_s=rtt_ms / 2e3)
            seen = forward(world, seconds)
            figures = (f"{seen.wire_bps / 1e6:.0f}", f"{seen.payload_bps / 1e6:.0f}", f"{seen.core_share:.2f}")
            row(rtt_ms, rate_mbit_s, *figures, seen.dropped_packets)


def _round_trip_row(world: World, rtt_ms: float, *more: Any) -> None:
    times = round_trips_ms(world)
    middle = statistics.median(times)
    figures = (middle, times[0], times[int(0.95 * len(times))], middle - rtt_ms)
    row(rtt_ms, *(f"{each:.2f}" for each in figures), *more)


def _round_trips(world: World) -> None:
    columns = ("asked ms", "median", "least", "95 %", "median over")
    head(f"Round trip of {_ECHOES} ICMP echoes on an idle link", *columns)
    for rtt_ms in _RTTS_MS:
        world.set_link(rate_bps=_BUSY_LINK_BPS, delay_s=rtt_ms / 2e3)
        _round_trip_row(world, rtt_ms)
    title = f"The same beside a flow of {_BUSY_PAYLOAD_MBIT_S} Mbit/s of payload on a link of {_BUSY_LINK_BPS / 1e6:g}"
    head(title, *columns, "payload Mbit/s")
    for rtt_ms in _BUSY_RTTS_MS:
        world.set_link(rate_bps=_BUSY_LINK_BPS, delay_s=rtt_ms / 2e3)
        with _flow(world, _BUSY_PAYLOAD_MBIT_S) as sink:
            total, start_s = _total(sink), time.monotonic()
            time.sleep(1)
            rate_bps = (_total(sink) - total) * 8 / (time.monotonic() - start_s)
            _round_trip_row(world, rtt_ms, f"{rate_bps / 1e6:.0f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of each transfer after its slow start")
    parser.add_argument("--only", choices=("forwarding", "round-trips"), help="only these tables")
    options = parser.parse_args()
    print(conditions())
    with start_world(WorldSpec(profile="lan")) as world:
        if options.only != "round-trips":
            _forwarding(world, options.seconds)
        if options.only != "forwarding":
            _round_trips(world)


if __name__ == "__main__":
    main()
