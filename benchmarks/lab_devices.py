"""How many devices one process carries: `python -m benchmarks.lab_devices [--idle 1000] [--copying 100]`.

Starts a world of idle devices behind one link, then lets some of them copy a file at the same time. Needs root and
TUN.
"""

import argparse
import asyncio
import statistics
import time

from benchmarks.lab_driver import conditions, head, in_core_loop, peer, row, sparse
from benchmarks.procfs import cpu_s, pss_bytes, rss_bytes
from flashferry.lab.experiment.servers import Copied, session
from flashferry.lab.world import DeviceAccess, DeviceSpec, World, WorldSpec, start_world

_LINK_MBIT_S = 300
_LOGINS_AT_ONCE = 10


async def _all(devices: tuple[DeviceAccess, ...], url: str) -> list[Copied]:
    """Log in everywhere first, then copy everywhere at once."""
    ready, gate, go = 0, asyncio.Semaphore(_LOGINS_AT_ONCE), asyncio.Event()

    async def one(device: DeviceAccess) -> Copied:
        nonlocal ready
        await gate.acquire()
        async with session(device) as opened:
            await opened.configure("ip tcp window-size 1000000", "ip tcp selective-ack")
            gate.release()
            ready += 1
            if ready == len(devices):
                go.set()
            await go.wait()
            return await opened.copy(url, timeout_s=300)

    return await asyncio.gather(*map(one, devices))


def _memory(label: str, world: World) -> None:
    pid = world.site_pids[0]
    row(label, f"{rss_bytes(pid) / 1e6:.0f}", f"{pss_bytes(pid) / 1e6:.0f}", f"{cpu_s(pid):.1f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--copying", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=2_000_000)
    options = parser.parse_args()
    print(conditions())
    start_s = time.monotonic()
    devices = tuple(DeviceSpec(name=f"r{number}") for number in range(1, options.idle + 1))
    with start_world(WorldSpec(profile="lan", devices=devices)) as world:
        took_s = time.monotonic() - start_s
        world.set_link(rate_bps=_LINK_MBIT_S * 1e6, delay_s=0.02)
        head(f"{options.idle} devices, started in {took_s:.1f} s", "when", "RSS MB", "PSS MB", "processor s")
        _memory("idle", world)
        with peer(world, "cubic") as (folder, url):
            sparse(folder, "image.bin", options.bytes)
            start_s = time.monotonic()
            copies = in_core_loop(world, lambda: _all(world.devices[: options.copying], url("image.bin")))
            took_s = time.monotonic() - start_s
        _memory(f"after {options.copying} copies", world)
        rates = sorted(each.rate_bytes_per_s for each in copies)
        head(
            f"{options.copying} devices copy {options.bytes:,} bytes to null: at once, {_LINK_MBIT_S} Mbit/s, 40 ms",
            "completed", "least MB/s", "median MB/s", "most MB/s", "logins and copies s",
        )  # fmt: skip
        rates_mb_s = [f"{rate / 1e6:.2f}" for rate in (rates[0], statistics.median(rates), rates[-1])]
        row(sum(each.size_bytes == options.bytes for each in copies), *rates_mb_s, f"{took_s:.1f}")


if __name__ == "__main__":
    main()
