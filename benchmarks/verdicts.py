"""Verdicts held against causes that were set: `python -m benchmarks.verdicts DIR [--runs 10]`; needs root and TUN.

Two parts, each of as many runs: the flows of `benchmarks.causes`, and a newcomer's case by the command
line, an old router with a flash of 605 kB/s behind a link of 16 Mbit/s, stated in its inventory and not. What DIR holds
is not run again, so that it may be done in several goes; `--docs FILE` puts the tables between the document's markers.
"""

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.causes import SECTION, causes_text, cells, claims_too_much
from benchmarks.report import print_progress
from benchmarks.stage_driver import flashferry
from flashferry.lab.experiment.cell import LinkSetting
from flashferry.lab.experiment.harness import JsonLines, markdown, put
from flashferry.lab.experiment.study import Plan, run_missing
from flashferry.lab.world import DeviceSpec, WorldSpec, start_world
from flashferry.lab.world_spec import write_inventory

_PLATFORM, _PROFILE, _LINK = "c2811-15.1", "dsl", LinkSetting(rate_bps=16e6)
_IMAGE = "c2800nm-adventerprisek9_ivs_li-mz.151-4.M12a.bin"
_STATED = "    link_rate_bps: "


def newcomer(seed: int, image: Path, *, is_stated: bool) -> dict[str, Any]:
    """Stage an image to the old router in a world of its own; return its record's part that counts.

    Args:
        seed: Of the link's losses.
        image: What is staged.
        is_stated: Whether the inventory states the link's rate.
    """
    spec = WorldSpec(devices=(DeviceSpec(name="r1", platform=_PLATFORM),), profile=_PROFILE, seed=seed)
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name, start_world(spec) as world:
        inventory = write_inventory(world, Path(name) / "inventory")
        if not is_stated:
            groups = inventory / "groups.yaml"
            lines = groups.read_text().splitlines(keepends=True)
            assert any(_STATED in line for line in lines)
            groups.write_text("".join(line for line in lines if _STATED not in line))
        arguments = ("stage", "--inventory", str(inventory), "--image", str(image))
        _, result = flashferry(world, Path(name) / "state", *arguments)
    (device,) = result["run"]["devices"]
    assert (device["outcome"], device["restored"]) == ("done", "restored")
    transfer = device["transfer"]
    kept = ("rate_bytes_per_s", "sender", "verdict", "samples")
    return {"seed": seed, "stated": is_stated} | {key: transfer[key] for key in kept}


def _newcomers(folder: Path, runs: int, size_bytes: int, until_s: float) -> Iterator[dict[str, Any]]:
    """Yield the runs of the newcomer's case: those kept, then the missing ones while there is time."""
    ledger = JsonLines(folder / "newcomer.jsonl", lambda run: ((run["seed"], run["stated"]), run))
    yield from list(ledger.runs.values())
    with tempfile.TemporaryDirectory(prefix="flashferry-") as name:
        image = Path(name) / _IMAGE
        image.write_bytes(os.urandom(size_bytes))
        for is_stated in (True, False):
            for seed in range(1, runs + 1):
                if (seed, is_stated) in ledger.runs or time.monotonic() > until_s:
                    continue
                run = newcomer(seed, image, is_stated=is_stated)
                ledger.keep((seed, is_stated), run, run)
                print_progress(f"newcomer, seed {seed}: {run['verdict']['sentence']}")
                yield run


def _newcomers_text(runs: Sequence[dict[str, Any]]) -> str:
    rows = []
    for is_stated in (True, False):
        own = [run for run in runs if run["stated"] is is_stated]
        if not own:
            continue
        rates = [run["rate_bytes_per_s"] for run in own]
        kinds = [run["verdict"]["kind"] for run in own]
        too_much = sum(claims_too_much(kind, rate, _LINK) for kind, rate in zip(kinds, rates, strict=True))
        rows.append(
            (
                "16 Mbit/s stated" if is_stated else "nothing stated",
                str(len(own)),
                f"{min(rates) / 1e6:.3f} to {max(rates) / 1e6:.3f}",
                ", ".join(sorted({run["sender"]["congestion_control"] for run in own})),
                ", ".join(f"{kind} {count}" for kind, count in Counter(kinds).most_common()),
                str(too_much),
            )
        )
    heading = "The newcomer's case by `flashferry stage`: a c2811 stand-in behind `dsl`, flash of 605 kB/s."
    columns = ("inventory", "runs", "MB/s", "sender", "verdicts", "link full below 80 %")
    return f"{heading}\n\n{markdown(columns, rows)}"


def main() -> None:
    """Run what is missing and print the tables; the exit code is 1 where a link is called full that is not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each flow")
    parser.add_argument("--size-mb", type=float, default=8.0, help="of the newcomer's image")
    parser.add_argument("--links", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing after so long")
    parser.add_argument("--docs", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    started_s = time.monotonic()
    plan = Plan(
        folder=options.folder,
        links=options.links,
        minutes=options.minutes,
        command=f"python -m benchmarks.verdicts DIR --runs {options.runs} --seconds {options.seconds:g}",
    )
    wanted = cells(range(1, options.runs + 1), seconds=options.seconds)
    flows = run_missing(wanted, plan, log=print_progress, interrupted=lambda: False)
    until_s = started_s + 60 * options.minutes
    staged = list(_newcomers(options.folder, options.runs, round(options.size_mb * 1e6), until_s))
    text = f"{causes_text(flows, plan)}\n\n{_newcomers_text(staged)}"
    print(text)
    if options.docs is not None:
        put(options.docs, SECTION, text)
    told = [(run.judgement.kind, run.rate_bytes_per_s, run.cell.link) for run in flows if run.judgement]
    told += [(run["verdict"]["kind"], run["rate_bytes_per_s"], _LINK) for run in staged if run["stated"]]
    sys.exit(any(claims_too_much(*each) for each in told))


if __name__ == "__main__":
    main()
