"""The wire agrees with the configuration: `python -m benchmarks.lab_windows`; needs root and TUN, takes minutes.

For windows of 16 kB to 4 MB at round trips of 20, 100 and 300 ms: the rate of the device's own result line against
window / RTT or the link, whichever is less. No loss; the peer is stock pyftpdlib with CUBIC. Cells that are no more
than one second of the link apart are the link's. A copy lasts long enough that its slow start does not count for much.
"""

import argparse
from collections.abc import Sequence

from benchmarks.lab_driver import conditions, head, in_core_loop, peer, row, session, sparse
from lab.world import DeviceSpec, World, WorldSpec, start_world

_WINDOWS_BYTES = (4128, 16384, 65535, 262144, 1048576, 4194304)
_RTTS_MS = (20, 100, 300)
_LINK_BPS = 100e6
_PAYLOAD_SHARE = 1460 / 1500
"""Of a full packet: IPv4 and TCP without timestamps take 40 bytes."""
_RUN_S = 12.0
_SLOW_START_ROUNDS = 12
_LEAST_BYTES = 200_000


async def _rate_bytes_per_s(world: World, window_bytes: int, url: str) -> int:
    async with session(world.devices[0]) as opened:
        await opened.configure(f"ip tcp window-size {window_bytes}", "ip tcp selective-ack")
        return (await opened.copy(url, timeout_s=300)).rate_bytes_per_s


def expected_bytes_per_s(window_bytes: int, rtt_s: float) -> float:
    """Return window / RTT or the link, whichever is less."""
    return min(window_bytes / rtt_s, _LINK_BPS / 8 * _PAYLOAD_SHARE)


def measure(world: World, windows_bytes: Sequence[int], rtts_ms: Sequence[int]) -> None:
    """Print a row per cell."""
    with peer(world, "cubic") as (folder, url):
        for rtt_ms in rtts_ms:
            world.set_link(rate_bps=_LINK_BPS, delay_s=rtt_ms / 2e3, queue_packets=1000)
            for window_bytes in windows_bytes:
                expected = expected_bytes_per_s(window_bytes, rtt_ms / 1e3)
                size = int(max(_LEAST_BYTES, expected * max(_RUN_S, 10 * _SLOW_START_ROUNDS * rtt_ms / 1e3)))
                sparse(folder, "image.bin", size)
                seen = in_core_loop(world, lambda w=window_bytes: _rate_bytes_per_s(world, w, url("image.bin")))
                bound = "link" if window_bytes / (rtt_ms / 1e3) > expected else "window"
                off = f"{(seen / expected - 1) * 100:+.1f} %"
                row(rtt_ms, window_bytes, bound, f"{expected / 1e6:.3f}", f"{seen / 1e6:.3f}", off, f"{size / 1e6:.1f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", type=int, action="append", help="only this window; may be repeated")
    parser.add_argument("--rtt", type=int, action="append", help="only this round trip in ms; may be repeated")
    options = parser.parse_args()
    print(conditions())
    head(
        f"Link {_LINK_BPS / 1e6:g} Mbit/s, queue 1000 packets, no loss, CUBIC",
        "RTT ms", "window", "bound", "expected MB/s", "copied MB/s", "off", "copied MB",
    )  # fmt: skip
    with start_world(WorldSpec(profile="lan", devices=(DeviceSpec(name="r1"),))) as world:
        measure(world, options.window or _WINDOWS_BYTES, options.rtt or _RTTS_MS)


if __name__ == "__main__":
    main()
