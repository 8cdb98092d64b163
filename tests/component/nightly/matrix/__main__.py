"""`python -m tests.component.nightly.matrix`: play all cells, or some, and say what is not as it must be."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from flashferry.nightly.night import StepName
from tests.component.nightly.matrix import report
from tests.component.nightly.matrix.faults import FAULTS
from tests.component.nightly.matrix.player import Cell
from tests.component.nightly.matrix.rows import play_row


def main() -> int:
    """Return 0 where every cell is as the rule says, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.component.nightly.matrix", description=__doc__)
    parser.add_argument("--fault", action="append", default=[], help="only this switch; may be repeated")
    parser.add_argument("--step", action="append", default=[], help="only this step; may be repeated")
    parser.add_argument("--workers", type=int, default=3, help="rows at the same time (3)")
    parser.add_argument("--update-docs", action="store_true", help="write docs/nightly-faults.md; plays all")
    options = parser.parse_args()
    faults = [one for one in FAULTS if not options.fault or one.what in options.fault]
    steps = [one for one in StepName if not options.step or one.value in options.step]
    cells = [Cell(fault=fault, step=step) for fault in faults for step in steps]
    if options.update_docs and len(cells) != len(FAULTS) * len(StepName):
        parser.error("--update-docs plays all cells: leave out --fault and --step")
    return _play(cells, workers=options.workers, is_written=options.update_docs)


def _play(cells: list[Cell], *, workers: int, is_written: bool) -> int:
    letters, wrong, began_s = dict[str, str](), list[str](), time.monotonic()
    rows = [[cell for cell in cells if cell.fault is fault] for fault in FAULTS]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for row in pool.map(play_row, [row for row in rows if row]):
            for played in row:
                letters[played.name] = played.letter
                wrong += [f"{played.name}: {'; '.join(played.complaints)}"] if played.complaints else []
                sys.stdout.write(f"{len(letters):4}/{len(cells)} {played.letter:3} {played.seconds:5.1f} s  ")
                sys.stdout.write(f"{played.name}\n")
                sys.stdout.writelines(f"       {sentence}\n" for sentence in played.complaints)
            sys.stdout.flush()
    seconds = time.monotonic() - began_s
    sys.stdout.write(f"{len(cells)} cells in {seconds:.0f} s, {len(wrong)} not as they must be\n")
    if is_written:
        report.update_docs(letters, wrong, seconds)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
