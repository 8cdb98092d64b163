"""One copy over the WAN per stack, whatever its size: `python -m benchmarks.stacks [--rounds 5]`; needs root and TUN.

A C9300 alone, a stack of three and a stack of eight, in bundle mode, are staged by the command line behind the
published WAN, with `--ready`; each round goes through all three. The image is taken off every flash behind each run,
and each run has a state folder of its own. Bytes are those that our server had acknowledged, and, beside them, all that
the link carried towards the site (headers and the SSH dialogue included). What the box needs is what it was asked to
do, by the rates of its model: its own hash, and per member a copy inside the box, its hash, and the one of `ready`.
The rest is the start of the command, the server's, and the dialogue, whose round trips cross the WAN.

The exit code is 1 where a stack got other than the image's bytes once or was not ready, or took longer than the switch
alone by more than its box needs and a few round trips per member.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lab_driver import conditions, head, row
from benchmarks.stage_driver import flashferry
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

IMAGE = "cat9k_iosxe.17.09.05.SPA.bin"
STACKS = {1: "c9300-alone-bundle-17.6", 3: "c9300-bundle-17.6", 8: "c9300-eight-bundle-17.6"}
"""The stand-in of each size."""

MEMBER_S = 2.5
"""What the dialogue with a member may cost beside its copy and its hashes: some twenty round trips of 0.1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """What staging a stack took.

    Attributes:
        members: How many switches it has.
        served_bytes: What our server had acknowledged.
        carried_bytes: What the link carried towards the site.
        wan_s: The copy over the WAN, from the command to its prompt.
        box_s: What the box needs, by the rates of its model.
        whole_s: From start to end of the command.
        is_ready: Whether every switch holds the image, proven, and `ready` says yes.
    """

    members: int
    served_bytes: int
    carried_bytes: int
    wan_s: float
    box_s: float
    whole_s: float
    is_ready: bool


def measure(world: World, inventory: Path, image: Path, members: int) -> Staged:
    """Stage one stack, and take the image off its flashes again."""
    name, before_bytes = f"stack{members}", _carried(world)
    with tempfile.TemporaryDirectory(prefix="flashferry-") as folder:
        arguments = ("stage", "--inventory", str(inventory), "--host", name, "--image", str(image), "--ready")
        whole_s, result = flashferry(world, Path(folder) / "state", *arguments)
    (device,) = result["run"]["devices"]
    carried_bytes = _carried(world) - before_bytes
    files = [root / IMAGE for root in world.flashes(name).values()]
    there = [file for file in files if file.exists() and file.read_bytes() == image.read_bytes()]
    for file in files:
        file.unlink(missing_ok=True)
    return Staged(
        members=members,
        served_bytes=device["transfer"]["bytes_acked"],
        carried_bytes=carried_bytes,
        wan_s=device["seconds_by_step"]["pull"],
        box_s=_box_s(device, members, image.stat().st_size),
        whole_s=whole_s,
        is_ready=(device["readiness"] or {}).get("verdict") == "yes" and len(there) == members,
    )


def _carried(world: World) -> int:
    return int(world.link_counters()["to_site"]["delivered_bytes"])


def _box_s(device: dict[str, Any], members: int, size_bytes: int) -> float:
    """Return what the box was asked to do by the rates of its model.

    That is a hash of its own file, and for each other switch a copy, its hash, and that of `ready`, which takes the own
    file's from the run.
    """
    flash = load_platform(STACKS[members]).flash
    copies = len((device["distribution"] or {}).get("copies", ()))
    hashes = 1 + 2 * copies
    return copies * size_bytes / flash.write_bytes_per_s + hashes * size_bytes / flash.hash_bytes_per_s


def main() -> None:
    """Print a row per run and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size-mb", type=int, default=16)
    given = parser.parse_args()
    print(conditions())
    columns = ("switches", "bytes served", "bytes on the link", "WAN copy s", "box s", "rest s", "whole s", "ready")
    head(f"{given.size_mb} MB to stacks of C9300 stand-ins in bundle mode, 50 Mbit/s, 100 ms, 0.01 % loss", *columns)
    runs = _all(given.rounds, given.size_mb * 1_000_000)
    medians = [_median([one for one in runs if one.members == members]) for members in STACKS]
    print("\nmedians:")
    for one in medians:
        _print(one)
    sys.exit(int(any(_is_wrong(one, medians[0], given.size_mb * 1_000_000) for one in medians)))


def _all(rounds: int, size_bytes: int) -> list[Staged]:
    devices = tuple(DeviceSpec(name=f"stack{members}", platform=platform) for members, platform in STACKS.items())
    spec = WorldSpec(devices=devices, profile="published")
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec) as world:
        inventory = write_inventory(world, Path(name) / "inventory", cap_share=0.98)
        image = Path(name) / IMAGE
        image.write_bytes(os.urandom(size_bytes))
        found = []
        for _ in range(rounds):
            for members in STACKS:
                found.append(measure(world, inventory, image, members))
                _print(found[-1])
        return found


def _median(runs: list[Staged]) -> Staged:
    def middle(name: str) -> float:
        return statistics.median(getattr(one, name) for one in runs)

    return Staged(
        members=runs[0].members,
        served_bytes=int(middle("served_bytes")),
        carried_bytes=int(middle("carried_bytes")),
        wan_s=middle("wan_s"),
        box_s=middle("box_s"),
        whole_s=middle("whole_s"),
        is_ready=all(one.is_ready for one in runs),
    )


def _is_wrong(stack: Staged, alone: Staged, size_bytes: int) -> bool:
    """Return whether a stack cost the WAN more than one image, or time that its box does not explain."""
    more_s, box_s = stack.whole_s - alone.whole_s, stack.box_s - alone.box_s
    is_slow = more_s > box_s + MEMBER_S * (stack.members - 1)
    return stack.served_bytes != size_bytes or not stack.is_ready or is_slow


def _print(one: Staged) -> None:
    rest_s = one.whole_s - one.wan_s - one.box_s
    row(
        one.members, f"{one.served_bytes:,}", f"{one.carried_bytes:,}", f"{one.wan_s:.1f}", f"{one.box_s:.1f}",
        f"{rest_s:.1f}", f"{one.whole_s:.1f}", "yes" if one.is_ready else "no",
    )  # fmt: skip


if __name__ == "__main__":
    main()
