"""The activation's matrix as two tables of the documentation: a row per fault, with how its cells ended."""

from __future__ import annotations

from tests.e2e.matrix.activation.cells import STARTS, Cell, named
from tests.e2e.matrix.activation.faults import FAULTS
from tests.e2e.matrix.activation.finding import Finding
from tests.e2e.matrix.activation.judge import complaints, letter
from tests.e2e.matrix.activation.points import Mode
from tests.e2e.matrix.report import PAGE, Result, Results, conditions, deviations, endings, put


def result(cell: Cell, found: Finding) -> Result:
    """Return a cell's result."""
    return Result(
        letter=letter(cell, found), seconds=round(found.seconds, 1), complaints=tuple(complaints(cell, found))
    )


def update_docs(results: Results) -> None:
    """Put the tables into the page, each between its marks; one of which nothing was played stays as it is."""
    page = PAGE.read_text(encoding="utf-8")
    for mode in Mode:
        own = {name: one for name, one in results.items() if named(name).mode is mode}
        if own:
            page = put(page, f"activation, {mode}", table(own, mode))
    PAGE.write_text(page, encoding="utf-8")


def table(results: Results, mode: Mode) -> str:
    """Return conditions, table and deviations of a mode in Markdown."""
    lines = [
        conditions(results, (STARTS[mode].platform,)),
        "",
        *endings(results, ((fault.name, fault.says) for fault in FAULTS[mode])),
        "",
        *deviations(results),
    ]
    return "\n".join(lines) + "\n"
