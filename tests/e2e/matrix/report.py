"""The matrix as a page of the documentation: a row per kill point, a column per fault, a letter or two per cell."""

from __future__ import annotations

import json
import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.e2e.matrix.cells import ALL_STARTS, Cell
from tests.e2e.matrix.faults import FAULTS
from tests.e2e.matrix.finding import Finding
from tests.e2e.matrix.judge import complaints, letter
from tests.e2e.matrix.points import ALL_POINTS

PAGE = Path(__file__).parents[3] / "docs" / "fault-matrix.md"
BEGIN, END = "<!-- fault matrix: begin -->", "<!-- fault matrix: end -->"


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
        content = {name: asdict(one) for name, one in results.items()}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def update_docs(results: Results) -> None:
    """Put the table into the page, between its marks."""
    head, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    tail = rest.split(END)[1]
    PAGE.write_text(f"{head}{BEGIN}\n{table(results)}{END}{tail}", encoding="utf-8")


def table(results: Results) -> str:
    """Return conditions, table and deviations in Markdown."""
    names = [fault.name for fault in FAULTS]
    legend = [f"- **{fault.name}**: {fault.says}" for fault in FAULTS]
    lines = [
        *legend,
        "",
        _conditions(results),
        "",
        f"| killed at | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    for point in ALL_POINTS:
        letters = (results.get(f"{point.name} x {name}") for name in names)
        lines.append(f"| {point.says} | {' | '.join(one.letter if one else '' for one in letters)} |")
    lines += ["", *_deviations(results)]
    return "\n".join(lines) + "\n"


def _conditions(results: Results) -> str:
    commit = subprocess.run(
        ["git", "log", "-1", "--format=%h"], cwd=PAGE.parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    bad = sum(bool(one.complaints) for one in results.values())
    platforms = ", ".join(dict.fromkeys(start.platform for start in ALL_STARTS))
    return (
        f"{len(results)} cells, {bad} not as they must be. {datetime.now(UTC):%Y-%m-%d}, commit {commit or 'unknown'}, "
        f"flashferry {version('flashferry')}, Python {platform.python_version()}, netmiko {version('netmiko')}, "
        f"Linux {platform.release()} {platform.machine()}; stand-ins {platforms}; "
        f"{sum(one.seconds for one in results.values()):.0f} s of cells in all."
    )


def _deviations(results: Results) -> list[str]:
    return [f"- {name}: {sentence}" for name, one in results.items() for sentence in one.complaints]
