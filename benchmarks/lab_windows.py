"""The wire agrees with the configuration: `python -m benchmarks.lab_windows [--runs 3] [--quick]`; needs root and TUN.

For windows of 16 kB to 4 MB (and 4128 bytes, the documented default) at round trips of 20, 100 and 300 ms: the rate of
the device's own result line against window / RTT or the link, whichever is less. No loss; the peer is stock
pyftpdlib with CUBIC. A copy lasts twenty times as long as its slow start, so that this costs it 5 % at the most. A run
takes about four minutes, with `--quick` (without 300 ms) less than two.
"""

import argparse
import math
from collections.abc import Sequence
from functools import partial

from benchmarks.lab_driver import conditions, head, in_core_loop, peer, row, sparse
from flashferry.lab.experiment.servers import session
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world

_WINDOWS_BYTES = (4128, 16384, 65535, 262144, 1048576, 4194304)
_RTTS_MS = (20, 100, 300)
_LINK_BPS = 100e6
_PAYLOAD_SHARE = 1460 / 1500
"""Of a full packet: IPv4 and TCP without timestamps take 40 bytes."""
_LEAST_RUN_S = 6.0
_FIRST_FLIGHT_BYTES = 10 * 1460
"""RFC 6928."""
_SLOW_STARTS = 20


async def _rate_bytes_per_s(world: World, window_bytes: int, url: str) -> int:
    async with session(world.devices[0]) as opened:
        await opened.configure(f"ip tcp window-size {window_bytes}", "ip tcp selective-ack")
        return (await opened.copy(url, timeout_s=300)).rate_bytes_per_s


def expected_bytes_per_s(window_bytes: int, rtt_s: float) -> float:
    """Return window / RTT or the link, whichever is less."""
    return min(window_bytes / rtt_s, _LINK_BPS / 8 * _PAYLOAD_SHARE)


def run_s(window_bytes: int, rtt_s: float) -> float:
    """Return how long a copy has to last for its slow start to cost at most a twentieth.

    Slow start doubles the flight each round trip, and all its rounds but the last together carry about one flight:
    so it costs a round trip for each doubling.
    """
    flight_bytes = min(window_bytes, _LINK_BPS / 8 * rtt_s)
    doublings = max(1.0, math.log2(max(1.0, flight_bytes / _FIRST_FLIGHT_BYTES)))
    return max(_LEAST_RUN_S, _SLOW_STARTS * doublings * rtt_s)


def measure(world: World, windows_bytes: Sequence[int], rtts_ms: Sequence[int], runs: int) -> None:
    """Print a row per cell."""
    with peer(world, "cubic") as (folder, url):
        for rtt_ms in rtts_ms:
            world.set_link(rate_bps=_LINK_BPS, delay_s=rtt_ms / 2e3, queue_packets=1000)
            for window_bytes in windows_bytes:
                expected = expected_bytes_per_s(window_bytes, rtt_ms / 1e3)
                size = int(expected * run_s(window_bytes, rtt_ms / 1e3))
                sparse(folder, "image.bin", size)
                work = partial(_rate_bytes_per_s, world, window_bytes, url("image.bin"))
                seen = [in_core_loop(world, work) for _ in range(runs)]
                bound = "link" if window_bytes / (rtt_ms / 1e3) > expected else "window"
                rates = ", ".join(f"{each / 1e6:.3f}" for each in seen)
                off = max((each / expected - 1 for each in seen), key=abs)
                row(rtt_ms, window_bytes, bound, f"{expected / 1e6:.3f}", rates, f"{off:+.1%}", f"{size / 1e6:.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, action="append", help="only this window; may be repeated")
    parser.add_argument("--rtt", type=int, action="append", help="only this round trip in ms; may be repeated")
    parser.add_argument("--runs", type=int, default=1, help="copies per cell")
    parser.add_argument("--quick", action="store_true", help="without the round trip of 300 ms")
    options = parser.parse_args()
    print(conditions())
    head(
        f"Link {_LINK_BPS / 1e6:g} Mbit/s, queue 1000 packets, no loss, CUBIC",
        "RTT ms", "window", "bound", "expected MB/s", "copied MB/s", "furthest off", "MB per copy",
    )  # fmt: skip
    with start_world(WorldSpec(profile="lan", devices=(DeviceSpec(name="r1"),))) as world:
        rtts_ms = options.rtt or (_RTTS_MS[:-1] if options.quick else _RTTS_MS)
        measure(world, options.window or _WINDOWS_BYTES, rtts_ms, options.runs)


if __name__ == "__main__":
    main()
