"""`python -m tests.e2e.service_kills [--update-docs]`: play the matrix on the lab, and write its document."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from tests.e2e.service_kills.cells import CELLS
from tests.e2e.service_kills.ground import IMAGE_BYTES, Played, open_lab, play

PAGE = Path(__file__).resolve().parents[3] / "docs" / "service-kill-matrix.md"
_HEAD = f"""# The service's kill matrix

Written by `python -m tests.e2e.service_kills --update-docs`; `make soak` plays the same cells, `make test` three of
them. One approved plan over two stand-in routers ({IMAGE_BYTES:,} bytes each, one after the other). The service, its
run or both are killed by SIGKILL at one moment; a killed service is started again at once. Each cell must end with both
routers staged and configured as before, one run in the journal, no job done twice, a whole audit, and events without
hole or repeat.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 where every cell is as it must be, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.service_kills", description="Kills around one run.")
    parser.add_argument("--cell", action="append", default=[], help="only this one; may be repeated")
    parser.add_argument("--update-docs", action="store_true", help=f"write docs/{PAGE.name}")
    options = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory(prefix="flashferry-kills-") as folder, open_lab() as world:
        for cell in CELLS:
            if options.cell and cell.name not in options.cell:
                continue
            found.append(play(world, Path(folder), cell))
            sys.stdout.write(_row(found[-1]) + "\n")
            sys.stdout.flush()
    if options.update_docs:
        PAGE.write_text(page(found), encoding="utf-8")
    return int(any(one.complaints for one in found))


def page(found: Sequence[Played]) -> str:
    """Return the document."""
    rows = "\n".join(map(_row, found))
    bad = sum(bool(one.complaints) for one in found)
    return (
        f"{_HEAD}\n| cell | killed | when | jobs afterwards | s from the kill to the end | is as it must be |\n"
        f"|---|---|---|---|---|---|\n{rows}\n\nPlayed on {date.today().isoformat()}: {len(found)} cells, "
        f"{bad} not as they must be. Single runs on a shared machine; the seconds are no promise.\n"
    )


def _row(one: Played) -> str:
    jobs = ", ".join(f"{kind} {state}" + (f" {code}" if code is not None else "") for kind, state, code in one.jobs)
    verdict = "yes" if not one.complaints else "**no**: " + "; ".join(one.complaints)
    killed = " and ".join(one.cell.killed)
    return f"| {one.cell.name} | {killed} | {one.cell.moment} | {jobs} | {one.seconds:.1f} | {verdict} |"


if __name__ == "__main__":
    sys.exit(main())
