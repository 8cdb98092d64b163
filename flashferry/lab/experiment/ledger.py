"""The results of an experiment on disk: a line of JSON per run, appended as it ends, so that nothing is run twice."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError
from flashferry.lab.experiment.measured import Measured, measured_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from flashferry.lab.experiment.cell import Cell


class Ledger:
    """Runs by their cell.

    A run that failed is kept in the file and run again when asked for anew. A line cut short by a crash is left out.

    Args:
        path: The file; made with the first run.

    Raises:
        LabError: The file holds something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: dict[str, Measured] = {}
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                # Cut short: take it away, so that the next line stands by itself.
                os.truncate(path, path.stat().st_size - len(line))
                break
            try:
                run = measured_from_json(json.loads(line))
            except ValueError as error:
                raise LabError(f"{path}: line {number}: {error}; give another folder by --output.") from None
            self._runs[run.cell.key] = run

    def add(self, run: Measured) -> None:
        """Keep a run."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(run.to_json(), separators=(",", ":")) + "\n")
        self._runs[run.cell.key] = run

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells that have no good run yet, in their order."""
        return [cell for cell in cells if cell.key not in self._runs or self._runs[cell.key].error]

    def of(self, cells: Iterable[Cell]) -> list[Measured]:
        """Return the runs there are of these cells, in their order."""
        return [self._runs[cell.key] for cell in cells if cell.key in self._runs]
