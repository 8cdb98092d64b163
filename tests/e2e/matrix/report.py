"""The matrix as tables of the documentation: a row per kill point, a column per fault, a letter or two per cell.

There are three tables, each between marks of its own; one of whose columns nothing was played is left as it is.
"""

from __future__ import annotations

import itertools
import json
import platform
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from flashferry.core.values import as_dict
from tests.e2e.matrix.cells import Cell, named
from tests.e2e.matrix.faults import FAULTS, Fault
from tests.e2e.matrix.finding import Finding
from tests.e2e.matrix.judge import complaints, letter
from tests.e2e.matrix.points import ALL_POINTS

PAGE = Path(__file__).parents[3] / "docs" / "fault-matrix.md"
TABLES: dict[str, tuple[Fault, ...]] = {
    "fault matrix": tuple(fault for fault in FAULTS if not fault.dead_man and not fault.goes_on),
    "fault matrix, dead-man": tuple(fault for fault in FAULTS if fault.dead_man),
    "fault matrix, behind the restore": tuple(fault for fault in FAULTS if fault.goes_on),
}
"""The columns of each table, by the name in its marks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A cell's result as the table needs it."""

    letter: str
    seconds: float
    complaints: tuple[str, ...]


Results = dict[str, Result]


def result(cell: Cell, found: Finding) -> Result:
    """Return a cell's result."""
    return Result(
        letter=letter(cell, found), seconds=round(found.seconds, 1), complaints=tuple(complaints(cell, found))
    )


def load(path: Path | None) -> Results:
    """Return the results of a file; none where there is no file."""
    if path is None or not path.exists():
        return {}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        name: Result(letter=one["letter"], seconds=one["seconds"], complaints=tuple(one["complaints"]))
        for name, one in stored.items()
    }


def save(path: Path | None, results: Results) -> None:
    """Write results to a file."""
    if path is not None:
        content = {name: as_dict(one) for name, one in results.items()}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def update_docs(results: Results) -> None:
    """Put the tables into the page, each between its marks."""
    page = PAGE.read_text(encoding="utf-8")
    for name, faults in TABLES.items():
        own = {cell: one for cell, one in results.items() if named(cell).fault in faults}
        if own:
            page = put(page, name, table(own, faults))
    PAGE.write_text(page, encoding="utf-8")


def put(page: str, name: str, text: str) -> str:
    """Return a page with a text between the marks of a name."""
    begin, end = (f"<!-- {name}: {word} -->" for word in ("begin", "end"))
    head, rest = page.split(begin)
    return f"{head}{begin}\n{text}{end}{rest.split(end)[1]}"


def table(results: Results, faults: tuple[Fault, ...]) -> str:
    """Return conditions, table and deviations in Markdown."""
    names = [fault.name for fault in faults]
    legend = [f"- **{fault.name}**: {fault.says}" for fault in faults]
    lines = [
        *legend,
        "",
        conditions(results, (named(cell).start.platform for cell in results)),
        "",
        *folded("killed at", names, _rows(results, faults)),
        "",
        *deviations(results),
    ]
    return "\n".join(lines) + "\n"


def _rows(results: Results, faults: tuple[Fault, ...]) -> Iterator[tuple[str, list[str]]]:
    for point in ALL_POINTS:
        if any(point.needs in fault.has for fault in faults):
            found = [results.get(f"{point.name} x {fault.name}") for fault in faults]
            yield point.says, [one.letter if one else "" for one in found]


def folded(corner: str, names: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> list[str]:
    """Return a table's lines in which equal columns share one, and rows that follow each other and are equal too.

    No cell is lost: the head of a column names all that it stands for, and a row says how many it stands for.
    """
    all_rows = list(rows)
    columns: dict[tuple[str, ...], list[str]] = {}
    for number, name in enumerate(names):
        columns.setdefault(tuple(letters[number] for _, letters in all_rows), []).append(name)
    lines = [
        f"| {corner} | {' | '.join(', '.join(shared) for shared in columns.values())} |",
        f"|---|{'---|' * len(columns)}",
    ]
    kept = [(label, tuple(letters[number] for letters in columns)) for number, (label, _) in enumerate(all_rows)]
    for letters, run in itertools.groupby(kept, key=lambda row: row[1]):
        labels = [label for label, _ in run]
        label = labels[0] if len(labels) == 1 else f"{labels[0]} ... {labels[-1]} ({len(labels)})"
        lines.append(f"| {label} | {' | '.join(letters)} |")
    return lines


def conditions(results: Results, stand_ins: Iterable[str]) -> str:
    """Return how many cells were played, how, and on what."""
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=PAGE.parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    bad = sum(bool(one.complaints) for one in results.values())
    platforms = ", ".join(dict.fromkeys(stand_ins))
    return (
        f"{len(results)} cells, {bad} not as they must be. {datetime.now(UTC):%Y-%m-%d}, commit {commit or 'unknown'}, "
        f"flashferry {version('flashferry')}, Python {platform.python_version()}, netmiko {version('netmiko')}, "
        f"Linux {platform.release()} {platform.machine()}; stand-ins {platforms}; "
        f"{sum(one.seconds for one in results.values()):.0f} s of cells in all."
    )


def deviations(results: Results) -> list[str]:
    """Return each sentence of a cell that is not as it must be."""
    return [f"- {name}: {sentence}" for name, one in results.items() for sentence in one.complaints]
