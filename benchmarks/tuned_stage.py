"""What a tuned router reaches in the published WAN: `python -m benchmarks.tuned_stage [--runs 5]`; needs root and TUN.

Each run has a world of its own with the next seed, and stages the published experiment's 50 MB of random bytes by the
command line. The rate is the router's own, by its `bytes copied` line. The link's 50 Mbit/s carry at most 6.08 MB/s of
payload in segments of 1460 bytes without timestamps; the article's tuned router had 1.6 MB/s.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.lab_driver import conditions, head, row
from benchmarks.stage_driver import flashferry
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

_TARGET_MB_PER_S = 5.4


def one_run(seed: int, image: Path, cap_share: float) -> dict[str, Any]:
    """Return the record of one router in a world of its own."""
    spec = WorldSpec(devices=(DeviceSpec(name="xe1"),), profile="published", seed=seed)
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec) as world:
        inventory = write_inventory(world, Path(name) / "inventory")
        groups = inventory / "groups.yaml"
        groups.write_text(groups.read_text().rstrip() + f"\n    cap_share: {cap_share}\n")
        arguments = ("stage", "--inventory", str(inventory), "--image", str(image))
        _, result = flashferry(world, Path(name) / "state", *arguments)
    (device,) = result["run"]["devices"]
    assert (device["outcome"], device["restored"]) == ("done", "restored")
    return dict(device)


def main() -> None:
    """Print a row per seed and the median; the exit code is 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size-mb", type=int, default=50)
    parser.add_argument("--cap-share", type=float, default=0.98)
    options = parser.parse_args()
    print(conditions())
    title = f"{options.size_mb} MB to flash, CSR1000v stand-in, cap {options.cap_share:g} of the link"
    head(title, "seed", "MB/s by the router", "MB/s by the server", "sent again", "sender", "verdict")
    rates = []
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name:
        image = Path(name) / "image.bin"
        image.write_bytes(os.urandom(options.size_mb * 1_000_000))
        for seed in range(1, options.runs + 1):
            device = one_run(seed, image, options.cap_share)
            copied, transfer = device["pull"]["device"], device["transfer"]
            rates.append(copied["size_bytes"] / copied["duration_s"] / 1e6)
            served = transfer["rate_bytes_per_s"] / 1e6
            again = f"{transfer['retransmitted_bytes'] / copied['size_bytes']:.2%}"
            row(
                str(seed),
                f"{rates[-1]:.2f}",
                f"{served:.2f}",
                again,
                transfer["sender"]["congestion_control"],
                transfer["verdict"]["kind"],
            )
    median = statistics.median(rates)
    row("median", f"{median:.2f}", "", "", "", f"target {_TARGET_MB_PER_S}")
    sys.exit(median < _TARGET_MB_PER_S)


if __name__ == "__main__":
    main()
