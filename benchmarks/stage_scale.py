"""What a staged device costs the controller, by the size of the fleet: `python -m benchmarks.stage_scale`.

    python -m benchmarks.stage_scale                      # 20, 100 and 500 devices; needs root
    python -m benchmarks.stage_scale --devices 2000
    python -m benchmarks.stage_scale --devices 100 --under 'py-spy record --gil -f raw -o where --'

Stand-ins on a network without delay, in processes of their own, each get a file of a few kilobytes by `flashferry
stage --json`. Printed is the processor time of the controller's process alone, from the start of the run to its report:
neither the start of Python nor the server nor the stand-ins. Wall time says nothing here.
"""

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from flashferry.lab.world import DeviceSpec, Rung, SiteSpec, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

SIZES = (20, 100, 500)
SITE_DEVICES = 50
IMAGE_BYTES = 20_000


def main() -> None:
    """Measure each size in a world of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, action="append")
    parser.add_argument("--site-devices", type=int, default=SITE_DEVICES)
    parser.add_argument("--under", default="", help="a command that the controller runs under, such as a profiler")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        stage(*map(Path, given.inside))
        return
    for devices in given.devices or SIZES:
        measure(devices, given.site_devices, given.under)


def measure(devices: int, site_devices: int, under: str) -> None:
    """Stage a fleet and print what its controller cost."""
    names = [f"r{number}" for number in range(devices)]
    sites = tuple(
        SiteSpec(
            name=f"site{first}", profile="lan",
            devices=tuple(DeviceSpec(name=name) for name in names[first : first + site_devices]),
        )
        for first in range(0, devices, site_devices)
    )  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-") as name,
        start_world(WorldSpec(sites=sites), rung=Rung.NAMESPACES) as world,
    ):
        folder = Path(name)
        image = folder / "image.bin"
        image.write_bytes(os.urandom(IMAGE_BYTES))
        inventory = write_inventory(world, folder / "inventory")
        command = [sys.executable, "-P", "-m", "flashferry.lab.enter", str(world.core_pid), "--"]
        inside = [
            sys.executable,
            "-m",
            "benchmarks.stage_scale",
            "--inside",
            str(inventory),
            str(image),
            str(folder / "state"),
        ]
        subprocess.run([*command, *shlex.split(under), *inside], check=True)


class Yardstick:
    """A fixed piece of work, done four times a second while a run is measured: how fast this machine is meanwhile.

    Beside other work on the same cores, the same instructions take up to twice the processor time.
    """

    LOOPS = 5_000

    def __init__(self) -> None:
        self._over = threading.Event()
        self._spent_s: list[float] = []
        self._thread = threading.Thread(target=self._measure, daemon=True)
        self._thread.start()

    def end(self) -> tuple[float, float]:
        """End it; return the mean seconds of a piece, and all seconds that it took."""
        self._over.set()
        self._thread.join()
        return sum(self._spent_s) / max(len(self._spent_s), 1), sum(self._spent_s)

    def _measure(self) -> None:
        while not self._over.wait(0.25):
            started_s = time.thread_time()
            text = ""
            for number in range(self.LOOPS):
                text = f"{text[-20:]}{number}"
            self._spent_s.append(time.thread_time() - started_s)


def stage(inventory: Path, image: Path, state: Path) -> None:
    """Run `flashferry stage` in this process, and print what its run cost."""
    # Imported here: only the measured process needs them, and their second belongs to no device.
    from flashferry.api import staging
    from flashferry.cli.program import run
    from flashferry.devices import netmiko_driver  # noqa: F401
    from templates.version import parse_version

    with suppress(Exception):
        parse_version("Cisco IOS Software")

    run_waves = staging.run_waves

    def measured(nornir: Any, *values: Any, **more: Any) -> Any:
        yardstick = Yardstick()
        before, started_s, cpu_s = getrusage(RUSAGE_SELF), time.monotonic(), time.process_time()
        report = run_waves(nornir, *values, **more)
        spent_s, after = time.process_time() - cpu_s, getrusage(RUSAGE_SELF)
        piece_s, pieces_s = yardstick.end()
        spent_s -= pieces_s
        devices = len(report.devices)
        done = sum(one.is_staged_and_restored for one in report.devices)
        print(
            f"{devices} devices, {done} done: {spent_s / devices * 1e3:.1f} ms each, "
            f"{spent_s / devices / piece_s:.1f} pieces of {piece_s * 1e3:.2f} ms "
            f"(user {(after.ru_utime - before.ru_utime) / devices * 1e3:.1f}, "
            f"system {(after.ru_stime - before.ru_stime) / devices * 1e3:.1f}), {spent_s:.1f} s in "
            f"{time.monotonic() - started_s:.0f} s; most memory {after.ru_maxrss / 1e3:.0f} MB, "
            f"{before.ru_maxrss / 1e3:.0f} MB before",
            file=figures, flush=True,
        )  # fmt: skip
        return report

    staging.run_waves = measured
    arguments = ["stage", "--inventory", str(inventory), "--image", str(image), "--json"]
    os.environ["FLASHFERRY_STATE_DIR"] = str(state)
    figures = os.fdopen(os.dup(1), "w")
    with (state.parent / "output").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.argv = ["flashferry", *arguments]
    run(arguments)


if __name__ == "__main__":
    main()
