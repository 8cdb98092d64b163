"""Measure the held figures: `make measured`, or `python -m benchmarks.held [NAME ...]`.

Exit code 0 where each median is inside its band, 1 where one is not, 2 for a name that is not known, 3 where the
machine was too busy to judge at least one figure and all others held.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from statistics import median

from benchmarks.held.figure import Band, Figure, all_figures, read_bands
from benchmarks.held.history import Entry, append, read, trend
from benchmarks.held.machine import STEAL_PERCENT, Ticks, busy_reason

TRIES = 5


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for, print a line each, keep it in the history."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.held", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="figures to measure; all of them without one")
    parser.add_argument("--list", action="store_true", help="print the figures and their bands, measure nothing")
    parser.add_argument("--tries", type=int, default=TRIES, help=f"times each is measured; {TRIES} by default")
    given = parser.parse_args(arguments)
    figures, bands = all_figures(), read_bands()
    if unknown := [name for name in given.names if name not in figures]:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(figures)}", file=sys.stderr)
        return 2
    chosen = [figures[name] for name in given.names or figures]
    if given.list:
        for one in chosen:
            print(f"{one.name} [{one.unit}] {bands[one.name]}\n    {one.doc}")
        return 0
    past: dict[str, list[float]] = {}
    for entry in read():
        past.setdefault(entry.name, []).append(entry.median)
    commit = _commit()
    outcomes = [_judge(one, bands[one.name], given.tries, past.get(one.name, []), commit) for one in chosen]
    counts = {outcome: outcomes.count(outcome) for outcome in ("held", "not held", "not judged")}
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 1 if counts["not held"] else 3 if counts["not judged"] else 0


def _judge(figure: Figure, band: Band, tries: int, past: list[float], commit: str) -> str:
    """Measure a figure, print and keep what was found; return the outcome."""
    values = []
    for _ in range(tries):
        if reason := busy_reason():
            return _decline(figure, reason)
        before = Ticks.now()
        values.append(figure.measure().value)
        if (steal := Ticks.now().steal_percent_since(before)) >= STEAL_PERCENT:
            return _decline(figure, f"the host took {steal:.1f} % of the processors' time")
    middle = median(values)
    verdict = "held" if band.holds(middle) else "not held"
    spread = f"{min(values):.4g} to {max(values):.4g}"
    print(
        f"{verdict:10} {figure.name} = {middle:.4g} {figure.unit} ({spread}; expected {band}) {trend(middle, past)}",
        flush=True,
    )
    append(
        Entry(
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit,
            name=figure.name,
            unit=figure.unit,
            values=tuple(values),
            verdict=verdict,
        )
    )
    return verdict


def _decline(figure: Figure, reason: str) -> str:
    print(f"not judged {figure.name}: {reason}", flush=True)
    return "not judged"


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--abbrev=8"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
