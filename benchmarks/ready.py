"""How long `flashferry ready` takes over a fleet, in a world of the lab.

    python -m benchmarks.ready                       # 500 routers; a few minutes with the world's start
    python -m benchmarks.ready --devices 50 --broken 5

All routers hold the image and boot from one file. Of some one condition is broken each, in turn; the answer must be yes
of all others and of none of these. Stand-ins and the command line share this machine: what they take of its processors
is in the figure.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashferry.lab.standin.files import sign
from flashferry.lab.world import DeviceSpec, Rung, World, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

LIMIT_S = 180.0
"""What 500 devices may take."""

IMAGE = "isr4300-universalk9.16.12.04.SPA.bin"
IMAGE_BYTES = 200_000
_PLATFORM = "isr4321-16.6"
_RUNNING = "bootflash:isr4300-universalk9.16.06.05.SPA.bin"
_BREAKS = ("missing", "truncated", "damaged", "boots what is gone", "boots anything")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a look at a fleet took and found.

    Attributes:
        devices: How many there are.
        took_s: From start to end of the command.
        answers: How many devices got which answer.
        wrong: Devices with a yes that are broken, or without one though they are not.
    """

    devices: int
    took_s: float
    answers: dict[str, int]
    wrong: tuple[str, ...]


def measure(devices: int, broken: int, *, rung: Rung = Rung.LOOPBACK) -> Figures:
    """Ask a fleet of stand-ins whether it is ready.

    Args:
        devices: How many there are.
        broken: Of how many a condition is broken; <= devices.
        rung: How much of a WAN is around them.
    """
    spec = WorldSpec(devices=tuple(_device(number, is_broken=number < broken) for number in range(devices)))
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec, rung=rung) as world:
        folder = Path(name)
        inventory = write_inventory(world, folder / "inventory")
        image = folder / IMAGE
        image.write_bytes(sign(os.urandom(IMAGE_BYTES)))
        for number, device in enumerate(world.devices):
            _place(world, device.name, image, _BREAKS[number % len(_BREAKS)] if number < broken else "")
        began = time.monotonic()
        found = _ready(world, inventory, image, folder / "state", is_inside=rung is not Rung.LOOPBACK)
        took_s = time.monotonic() - began
    told = {one["host"]: (one["readiness"] or {}).get("verdict", "not seen") for one in found["devices"]}
    wanted = {device.name: number >= broken for number, device in enumerate(world.devices)}
    return Figures(
        devices=devices,
        took_s=took_s,
        answers={word: list(told.values()).count(word) for word in sorted(set(told.values()))},
        wrong=tuple(name for name, is_ready in wanted.items() if (told.get(name) == "yes") is not is_ready),
    )


def _device(number: int, *, is_broken: bool) -> DeviceSpec:
    how = _BREAKS[number % len(_BREAKS)] if is_broken else ""
    gone = "bootflash:isr4300-universalk9.16.03.01.SPA.bin"
    lines = {"boots what is gone": (f"boot system {gone}",), "boots anything": ()}.get(
        how, (f"boot system {_RUNNING}",)
    )
    return DeviceSpec(name=f"r{number + 1}", platform=_PLATFORM, config_lines=lines)


def _place(world: World, name: str, image: Path, how: str) -> None:
    """Put the image on a device's flash, or what is left of it."""
    content = image.read_bytes()
    if how == "truncated":
        content = content[:-1]
    if how == "damaged":
        content = content[:-1] + bytes([content[-1] ^ 1])
    if how != "missing":
        (world.files(name)[0].path.parent / image.name).write_bytes(content)


def _ready(world: World, inventory: Path, image: Path, state: Path, *, is_inside: bool) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"] if is_inside else []
    command += [sys.executable, "-P", "-m", "flashferry", "ready", "--json", "--state-dir", str(state)]
    command += ["--inventory", str(inventory), "--image", str(image)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        sys.exit(f"flashferry ready ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Ask once, print the figures, and leave with 1 where they are not as they must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=500)
    parser.add_argument("--broken", type=int, default=25)
    given = parser.parse_args()
    found = measure(given.devices, given.broken)
    answers = ", ".join(f"{count} {word}" for word, count in found.answers.items())
    print(f"{found.devices} devices: {found.took_s:.1f} s ({found.took_s / found.devices:.2f} s each); {answers}")
    print(f"wrong answers: {', '.join(found.wrong) or 'none'}")
    sys.exit(int(bool(found.wrong) or found.took_s > LIMIT_S))


if __name__ == "__main__":
    main()
