"""Nothing left behind, whatever is killed and whatever goes wrong: eight cells in the gate, the others in soak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.matrix.cells import CI_CELLS, GATE_CELLS, Cell
from tests.e2e.matrix.faults import FAULTS
from tests.e2e.matrix.ground import Ground, open_ground
from tests.e2e.matrix.judge import complaints
from tests.e2e.matrix.player import play_all
from tests.patience import until

pytestmark = pytest.mark.lab

IN_MID_COPY = tuple(cell for cell in CI_CELLS if cell.name == "pull.most x none")
CELLS_AT_ONCE = 8
"""Four such tests may run at the same time; more sessions than this would wait for the processor, not for the lab."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with open_ground((*CI_CELLS, *IN_MID_COPY), tmp_path_factory.mktemp("matrix")) as opened:
        yield opened


def wrong(ground: Ground, cells: tuple[Cell, ...]) -> list[str]:
    """Play cells; return what is not as it must be, in sentences."""
    played = list(play_all(ground, cells, workers=CELLS_AT_ONCE))
    return [f"{cell.name}: {sentence}" for cell, found in played for sentence in complaints(cell, found)]


def test_killed_in_each_step(tmp_path: Path):
    """After a kill in each step that leaves lines of ours `recover` brings all back; a colleague's work is kept."""
    with open_ground(GATE_CELLS, tmp_path) as ground:
        assert wrong(ground, GATE_CELLS) == []


@pytest.mark.soak
@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS])
def test_killed_anywhere(ground: Ground, fault: str):
    """After `recover` all is what it was, a colleague's work is kept and named, and no failure is called a success."""
    cells = tuple(cell for cell in CI_CELLS if cell.fault.name == fault)
    assert cells
    assert wrong(ground, cells) == []


@pytest.mark.soak
def test_the_server_dies_with_a_killed_run(ground: Ground):
    """A run that was killed in mid-copy leaves no process behind, and no port open."""
    assert [found.ending for _, found in play_all(ground, IN_MID_COPY, workers=1)] == ["killed"]
    until(lambda: ground.strays() == [], lambda: f"the end of {ground.strays()}")
