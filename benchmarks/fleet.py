"""Fleets: `python -m benchmarks.fleet [--only waiting|sites|kills] [--update-docs]`; needs root and TUN.

waiting: what 500 devices that copy at a trickle cost the controller, and what the naive way costs beside it.
sites: 200 devices at ten sites, each behind a line of its own: how busy the lines are, and whether a cap is passed.
kills: 50 times `kill -9` in the middle of runs over 40 devices, each gone on with by `stage --resume`.

Each part takes five to twenty minutes and leaves its figures in benchmarks/results/fleet.json; the other parts' stay.
The exit code is 1 if a target is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import fleet_kills, fleet_sites, fleet_waiting
from benchmarks.fleet_tables import Part, missed, to_markdown
from benchmarks.report import conditions, print_progress
from flashferry.lab.experiment.harness import put

RESULTS = Path(__file__).with_name("results") / "fleet.json"
DOCUMENT = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def _parts(options: argparse.Namespace) -> dict[str, Callable[[], Part]]:
    return {
        "waiting": lambda: fleet_waiting.measure(options.devices, options.hold_s),
        "sites": lambda: fleet_sites.measure(image_bytes=options.image_kb * 1000),
        "kills": lambda: fleet_kills.measure(options.kills, options.seed),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["waiting", "sites", "kills"])
    parser.add_argument("--update-docs", action="store_true", help="put the tables into docs/benchmarks.md")
    parser.add_argument("--devices", type=int, default=500, help="of the waiting fleet")
    parser.add_argument("--hold-s", type=float, default=30.0, help="how long the waiting fleet is watched, in seconds")
    parser.add_argument("--image-kb", type=int, default=fleet_sites.IMAGE_BYTES // 1000, help="of the sites' image")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the first round of kills; each round has the next")
    return parser.parse_args()


def main() -> None:
    """Measure, keep the figures, print the tables."""
    options = _options()
    kept: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = {name: part for name, part in _parts(options).items() if options.only in {None, name}}
    for name, part in chosen.items():
        print_progress(f"{name} ...")
        started = time.monotonic()
        before = conditions(" ".join(sys.orig_argv[1:]))
        kept[name] = part() | before | {"took_s": round(time.monotonic() - started)}
        RESULTS.write_text(json.dumps({"schema": "flashferry.benchmarks.fleet/1"} | kept, indent=1) + "\n")
    markdown = to_markdown(kept)
    print(markdown)
    if options.update_docs:
        put(DOCUMENT, "fleet", markdown)
    sys.exit(any(missed({name: kept[name]}) for name in chosen))


if __name__ == "__main__":
    main()
