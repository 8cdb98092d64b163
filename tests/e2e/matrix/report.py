"""The matrix as tables of the documentation: a row per fault, with how many of its cells ended in which way.

There are three tables, each between marks of its own; one of whose faults nothing was played is left as it is. Each
cell is in the file of `--results`.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from flashferry.core.values import as_dict
from tests.e2e.matrix.cells import Cell, named
from tests.e2e.matrix.faults import FAULTS, Fault
from tests.e2e.matrix.finding import Finding
from tests.e2e.matrix.judge import complaints, letter

PAGE = Path(__file__).parents[3] / "docs" / "fault-matrix.md"
TABLES: dict[str, tuple[Fault, ...]] = {
    "fault matrix": tuple(fault for fault in FAULTS if not fault.dead_man and not fault.goes_on),
    "fault matrix, dead-man": tuple(fault for fault in FAULTS if fault.dead_man),
    "fault matrix, after the restore": tuple(fault for fault in FAULTS if fault.goes_on),
}
"""The faults of each table, by the name in its marks."""


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
    lines = [
        conditions(results, (named(cell).start.platform for cell in results)),
        "",
        *endings(results, ((fault.name, fault.says) for fault in faults)),
        "",
        *deviations(results),
    ]
    return "\n".join(lines) + "\n"


def endings(results: Results, faults: Iterable[tuple[str, str]]) -> list[str]:
    """Return a table's lines: each fault by name and sentence, with the cells that ended in each way, most first."""
    lines = ["| fault | what goes wrong | cells by how they ended |", "|---|---|---|"]
    for name, sentence in faults:
        ways = Counter(one.letter for cell, one in results.items() if cell.endswith(f" x {name}"))
        lines.append(f"| {name} | {sentence} | {', '.join(f'{way} {count}' for way, count in ways.most_common())} |")
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
        f"flashferry {version('flashferry')}, netmiko {version('netmiko')}; stand-ins {platforms}."
    )


def deviations(results: Results) -> list[str]:
    """Return each sentence of a cell that is not as it must be."""
    return [f"- {name}: {sentence}" for name, one in results.items() for sentence in one.complaints]
