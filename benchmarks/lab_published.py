"""The published experiment on the lab: `python -m benchmarks.lab_published [--seeds 3]`; needs root and TUN.

The arms of https://zenn.dev/win_beauty/articles/4b9738dc658c9f (2021-03-20): 50 MB over 100 ms, 0.01 % loss and
50 Mbit/s, from a stock server. Default arms copy less, for their rate is that of their window and does not change;
tuned arms copy the whole file, once per seed of the link's losses and length of its queue, which the article does
not name.
"""

import argparse
import statistics
from dataclasses import dataclass

from benchmarks.lab_driver import conditions, head, in_core_loop, peer, row, sparse
from flashferry.lab.experiment.servers import session
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world

_FILE_BYTES = 52_428_800
_TUNED = ("ip tcp window-size 2500000", "ip tcp selective-ack")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A case of the article.

    Attributes:
        name: What it is called there.
        platform: The stand-in.
        lines: Its configuration.
        size_bytes: What is copied here.
        published_bytes_per_s: The article's mean rate.
        queues: Lengths of the link's queue in packets.
    """

    name: str
    platform: str
    lines: tuple[str, ...]
    size_bytes: int
    published_bytes_per_s: int
    queues: tuple[int, ...] = (1000,)


_ARMS = (
    Arm(
        name="IOS-XE default", platform="csr1000v-16.11", lines=(), size_bytes=3_000_000,
        published_bytes_per_s=151_542,
    ),
    Arm(name="IOS default", platform="iosv-15.8", lines=(), size_bytes=1_500_000, published_bytes_per_s=81_984),
    Arm(name="IOS tuned", platform="iosv-15.8", lines=_TUNED, size_bytes=5_000_000, published_bytes_per_s=86_948),
    Arm(
        name="IOS-XE tuned", platform="csr1000v-16.11", lines=_TUNED, size_bytes=_FILE_BYTES,
        published_bytes_per_s=1_611_000, queues=(1000, 100, 50, 20),
    ),
)  # fmt: skip


async def _copy(world: World, arm: Arm, url: str) -> int:
    async with session(world.devices[0]) as opened:
        if arm.lines:
            await opened.configure(*arm.lines)
        return (await opened.copy(url, "flash:", timeout_s=600)).rate_bytes_per_s


def run(arm: Arm, queue_packets: int, seed: int, control: str) -> int:
    """Return the device's own rate in one run."""
    device = DeviceSpec(name="r1", platform=arm.platform)
    with start_world(WorldSpec(seed=seed, devices=(device,))) as world:
        world.set_link(queue_packets=queue_packets)
        with peer(world, control) as (folder, url):
            sparse(folder, "test_50mb.txt", arm.size_bytes)
            return in_core_loop(world, lambda: _copy(world, arm, url("test_50mb.txt")))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of the tuned IOS-XE arm per queue")
    parser.add_argument("--control", default="cubic", help="congestion control of the server")
    parser.add_argument("--quick", action="store_true", help="without the tuned IOS-XE arm: less than two minutes")
    options = parser.parse_args()
    print(conditions())
    head(
        f"100 ms, 0.01 %, 50 Mbit/s, {options.control}",
        "arm", "queue, packets", "runs", "least", "median B/s", "most", "published B/s", "median / published",
    )  # fmt: skip
    for arm in _ARMS:
        if options.quick and len(arm.queues) > 1:
            continue
        for queue in arm.queues:
            runs = options.seeds if len(arm.queues) > 1 else 1
            rates = sorted(run(arm, queue, seed, options.control) for seed in range(1, runs + 1))
            middle = statistics.median(rates)
            share = f"{middle / arm.published_bytes_per_s:.2f}"
            figures = [f"{rate:,.0f}" for rate in (rates[0], middle, rates[-1], arm.published_bytes_per_s)]
            row(arm.name, queue, runs, *figures, share)


if __name__ == "__main__":
    main()
