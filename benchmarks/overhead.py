"""What a run costs besides copy and hash: `python -m benchmarks.overhead [--runs 5]`; needs root and TUN.

Overhead is the wall time of the whole process, from its start to its end, less the seconds of the device's own
`bytes copied` line and less those of the hash. The steps are the record's wall times; what they leave over is the start
of Python, the server and the journal. Each run stages a small random file on one device that does not have it, then
stages it again: the second run finds the image there.
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

_STEPS = ("check", "snapshot", "tune", "pull", "verify", "restore")
_TARGETS_S = {
    ("published", "stage"): 12.0,
    ("lan", "stage"): 3.0,
    ("published", "there"): 5.0,
    ("lan", "there"): 3.0,
}
_NAMES = {"stage": "stage, image new", "there": "stage, image there"}


def _overhead(wall_s: float, result: dict[str, Any]) -> dict[str, float]:
    """Return the wall time without copy and hash, as a whole and by steps."""
    (device,) = result["run"]["devices"]
    copied_s = device["pull"]["device"]["duration_s"] if device["pull"] else 0.0
    hashed_s = device["verify"]["duration_s"] if device["verify"] else 0.0
    steps = {step: device["seconds_by_step"].get(step, 0.0) for step in _STEPS}
    steps["pull"] = max(steps["pull"] - copied_s, 0.0)
    steps["verify"] = max(steps["verify"] - hashed_s, 0.0)
    whole_s = wall_s - copied_s - hashed_s
    return steps | {"other": whole_s - sum(steps.values()), "overhead": whole_s}


def measure(profile: str, runs: int, size_bytes: int) -> dict[str, list[dict[str, float]]]:
    """Return overheads by case: an image that is new, and one that is there."""
    found: dict[str, list[dict[str, float]]] = {case: [] for case in _NAMES}
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-") as name,
        start_world(WorldSpec(devices=(DeviceSpec(name="xe1"),), profile=profile)) as world,
    ):
        folder = Path(name)
        inventory = write_inventory(world, folder / "inventory")
        for number in range(runs):
            image = folder / f"image{number}.bin"
            image.write_bytes(os.urandom(size_bytes))
            for case, cases in found.items():
                stage = ("stage", "--inventory", str(inventory), "--image", str(image))
                wall_s, result = flashferry(world, folder / "state", *stage)
                transfer = result["run"]["devices"][0]["transfer"]
                assert (transfer is None) == (case == "there"), "an image that is there costs no byte"
                cases.append(_overhead(wall_s, result))
    return found


def main() -> None:
    """Print the table; the exit code is 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size-kb", type=int, default=300)
    parser.add_argument("--profile", action="append", choices=["lan", "published"])
    options = parser.parse_args()
    print(conditions())
    head(
        f"seconds besides copy and hash, median of {options.runs}, a file of {options.size_kb} kB",
        "link", "case", *_STEPS, "other", "overhead", "least", "most", "target",
    )  # fmt: skip
    missed = False
    for profile in options.profile or ["lan", "published"]:
        for case, cases in measure(profile, options.runs, options.size_kb * 1000).items():
            columns = {key: statistics.median(one[key] for one in cases) for key in cases[0]}
            whole = [one["overhead"] for one in cases]
            target = _TARGETS_S[profile, case]
            missed |= columns["overhead"] > target
            figures = [*columns.values(), min(whole), max(whole)]
            row(profile, _NAMES[case], *(f"{seconds:.2f}" for seconds in figures), f"{target:g}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
