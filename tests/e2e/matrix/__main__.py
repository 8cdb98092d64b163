"""`python -m tests.e2e.matrix`: play the matrix, or a part of it, and say what is not as it must be."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.matrix import cells, ground, judge, player, report
from tests.e2e.matrix.activation import cells as activation_cells
from tests.e2e.matrix.activation import ground as activation_ground
from tests.e2e.matrix.activation import judge as activation_judge
from tests.e2e.matrix.activation import player as activation_player
from tests.e2e.matrix.activation import report as activation_report


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """What a matrix is made of."""

    all_cells: tuple[Any, ...]
    ci_cells: tuple[Any, ...]
    open_ground: Callable[..., Any]
    play_all: Callable[..., Any]
    complaints: Callable[..., list[str]]
    result: Callable[..., report.Result]
    update_docs: Callable[[report.Results], None]


STAGING = Suite(
    all_cells=cells.ALL_CELLS,
    ci_cells=cells.CI_CELLS,
    open_ground=ground.open_ground,
    play_all=player.play_all,
    complaints=judge.complaints,
    result=report.result,
    update_docs=report.update_docs,
)
ACTIVATION = Suite(
    all_cells=activation_cells.ALL_CELLS,
    ci_cells=activation_cells.CI_CELLS,
    open_ground=activation_ground.open_ground,
    play_all=activation_player.play_all,
    complaints=activation_judge.complaints,
    result=activation_report.result,
    update_docs=activation_report.update_docs,
)


def main(arguments: list[str] | None = None) -> int:
    """Return 0 where every cell is as the rule says, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.matrix", description="Kill points x faults, in the lab.")
    parser.add_argument("--activation", action="store_true", help="the matrix of 'activate' instead")
    parser.add_argument("--ci", action="store_true", help="only the cells that make soak plays")
    parser.add_argument("--fault", action="append", default=[], help="only this column; may be repeated")
    parser.add_argument("--point", action="append", default=[], help="only this row; may be repeated")
    parser.add_argument("--cell", action="append", default=[], help="only this cell, as --list names it")
    parser.add_argument("--workers", type=int, default=8, help="cells at the same time (8)")
    parser.add_argument("--results", type=Path, help="add to the results in this file, for a matrix played in parts")
    parser.add_argument("--update-docs", action="store_true", help="write docs/fault-matrix.md")
    parser.add_argument("--list", action="store_true", help="name the cells, play nothing")
    options = parser.parse_args(arguments)
    suite = ACTIVATION if options.activation else STAGING
    chosen = _chosen(suite, options)
    if options.list:
        sys.stdout.writelines(f"{cell.name}\n" for cell in chosen)
        return 0
    return _play(suite, chosen, options)


def _chosen(suite: Suite, options: argparse.Namespace) -> tuple[Any, ...]:
    return tuple(
        cell
        for cell in (suite.ci_cells if options.ci else suite.all_cells)
        if (not options.fault or cell.fault.name in options.fault)
        and (not options.point or cell.point.name in options.point)
        and (not options.cell or cell.name in options.cell)
    )


def _play(suite: Suite, chosen: tuple[Any, ...], options: argparse.Namespace) -> int:
    results = report.load(options.results)
    bad, started = 0, time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="flashferry-matrix-") as folder,
        suite.open_ground(chosen, Path(folder)) as opened,
    ):
        for number, (cell, found) in enumerate(suite.play_all(opened, chosen, workers=options.workers), start=1):
            wrong = suite.complaints(cell, found)
            bad += bool(wrong)
            results[cell.name] = suite.result(cell, found)
            sys.stdout.write(
                f"{number:4}/{len(chosen)} {results[cell.name].letter:5} {found.seconds:6.1f} s  {cell.name}\n"
            )
            sys.stdout.writelines(f"       {sentence}\n" for sentence in wrong)
            sys.stdout.flush()
    seconds = time.monotonic() - started
    sys.stdout.write(f"{len(chosen)} cells in {seconds:.0f} s, {bad} not as they must be\n")
    report.save(options.results, results)
    if options.update_docs:
        suite.update_docs(results)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
