"""Plays several cells one after the other: what one worker of many does."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.component.nightly.matrix.ground import open_ground
from tests.component.nightly.matrix.judge import complaints, letter
from tests.component.nightly.matrix.player import Cell, play


@dataclass(frozen=True, slots=True, kw_only=True)
class NightResult:
    """A cell that was played, as the table needs it."""

    name: str
    letter: str
    complaints: tuple[str, ...]
    seconds: float


def play_row(cells: list[Cell]) -> list[NightResult]:
    """Play some cells on a ground of their own."""
    played = []
    with open_ground() as ground:
        for cell in cells:
            with tempfile.TemporaryDirectory(prefix="flashferry-nights-") as folder:
                found = play(ground, cell, Path(folder))
            wrong = tuple(complaints(cell, found, ground))
            sign = letter(cell, found, ground)
            played.append(NightResult(name=cell.name, letter=sign, complaints=wrong, seconds=found.seconds))
    return played
