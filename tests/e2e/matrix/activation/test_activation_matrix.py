"""An activation is restarted once and told as what it is, whatever is killed: the cells that `make soak` plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.matrix.activation.cells import CI_CELLS
from tests.e2e.matrix.activation.ground import open_ground
from tests.e2e.matrix.activation.judge import complaints
from tests.e2e.matrix.activation.player import play_all

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def test_killed_in_an_activation(tmp_path: Path):
    """One restart by us at most, the words agree with the lab, and nothing is left once `recover` has ended it."""
    with open_ground(CI_CELLS, tmp_path) as ground:
        played = list(play_all(ground, CI_CELLS, workers=len(CI_CELLS)))
    assert [f"{cell.name}: {sentence}" for cell, found in played for sentence in complaints(cell, found)] == []
