"""`python -m tests.e2e.matrix`: play the matrix, or a part of it, and say what is not as it must be."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.matrix import report
from tests.e2e.matrix.cells import ALL_CELLS, CI_CELLS, Cell
from tests.e2e.matrix.ground import open_ground
from tests.e2e.matrix.judge import complaints
from tests.e2e.matrix.player import play_all


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where every cell is as the rule says, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.matrix", description="Kill points x faults, in the lab.")
    parser.add_argument("--ci", action="store_true", help="only the cells that CI plays")
    parser.add_argument("--fault", action="append", default=[], help="only this column; may be repeated")
    parser.add_argument("--point", action="append", default=[], help="only this row; may be repeated")
    parser.add_argument("--workers", type=int, default=8, help="cells at the same time (8)")
    parser.add_argument("--results", type=Path, help="add to the results in this file, for a matrix played in parts")
    parser.add_argument("--update-docs", action="store_true", help="write docs/fault-matrix.md")
    parser.add_argument("--list", action="store_true", help="name the cells, play nothing")
    options = parser.parse_args(arguments)
    cells = _chosen(options)
    if options.list:
        sys.stdout.writelines(f"{cell.name}\n" for cell in cells)
        return 0
    return _play(cells, options)


def _chosen(options: argparse.Namespace) -> tuple[Cell, ...]:
    return tuple(
        cell
        for cell in (CI_CELLS if options.ci else ALL_CELLS)
        if (not options.fault or cell.fault.name in options.fault)
        and (not options.point or cell.point.name in options.point)
    )


def _play(cells: tuple[Cell, ...], options: argparse.Namespace) -> int:
    results = report.load(options.results)
    bad, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="flashferry-matrix-") as folder, open_ground(cells, Path(folder)) as ground:
        for number, (cell, found) in enumerate(play_all(ground, cells, workers=options.workers), start=1):
            wrong = complaints(cell, found)
            bad += bool(wrong)
            results[cell.name] = report.result(cell, found)
            sys.stdout.write(
                f"{number:4}/{len(cells)} {results[cell.name].letter:5} {found.seconds:6.1f} s  {cell.name}\n"
            )
            sys.stdout.writelines(f"       {sentence}\n" for sentence in wrong)
            sys.stdout.flush()
    seconds = time.monotonic() - started
    sys.stdout.write(f"{len(cells)} cells in {seconds:.0f} s, {bad} not as they must be\n")
    report.save(options.results, results)
    if options.update_docs:
        report.update_docs(results)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
