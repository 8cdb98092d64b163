"""The results of an experiment on disk: a line of JSON per run, appended as it ends, so that nothing is run twice."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from flashferry.core.codec import CodecError
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.measured import Measured, measured_from_json

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.lab.experiment.cell import Cell

Key = TypeVar("Key")
Run = TypeVar("Run")


class JsonLines(Generic[Key, Run]):
    """Runs by a key, each kept as a line. A line cut short by a crash is left out.

    Args:
        path: The file; made with the first run.
        read: Returns key and run of a line's values.

    Raises LabError: the file holds something else.
    """

    def __init__(self, path: Path, read: Callable[[Any], tuple[Key, Run]]) -> None:
        self._path = path
        self.runs: dict[Key, Run] = {}
        lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                # Cut short: take it away, so that the next line stands by itself.
                os.truncate(path, path.stat().st_size - len(line))
                break
            try:
                key, run = read(json.loads(line))
            except (ValueError, KeyError, TypeError, CodecError) as error:
                raise LabError(f"{path}: line {number}: {error}; give another folder by --output.") from None
            self.runs[key] = run

    def keep(self, key: Key, run: Run, values: dict[str, Any]) -> None:
        """Keep a run, by its values."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, separators=(",", ":")) + "\n")
        self.runs[key] = run


class Ledger(JsonLines[str, Measured]):
    """Runs by their cell; one that failed is kept in the file and run again when asked for anew."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda values: ((run := measured_from_json(values)).cell.key, run))

    def add(self, run: Measured) -> None:
        """Keep a run."""
        self.keep(run.cell.key, run, run.to_json())

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells that have no good run yet, in their order."""
        return [cell for cell in cells if cell.key not in self.runs or self.runs[cell.key].error]

    def of(self, cells: Iterable[Cell]) -> list[Measured]:
        """Return the runs there are of these cells, in their order."""
        return [self.runs[cell.key] for cell in cells if cell.key in self.runs]
