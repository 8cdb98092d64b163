"""The service, its run, or both are killed around one run: it is done once, all is restored, the audit is whole."""

from __future__ import annotations

import pytest

from tests.e2e.service_kills.cells import CELLS
from tests.e2e.service_kills.ground import open_lab, play

pytestmark = pytest.mark.lab

IN_GATE = ("in-copy", "in-restore", "run-in-restore")


@pytest.fixture(scope="module")
def lab():
    with open_lab() as world:
        yield world


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kills")


@pytest.mark.parametrize(
    "cell",
    [pytest.param(cell, marks=() if cell.name in IN_GATE else pytest.mark.soak, id=cell.name) for cell in CELLS],
)
def test_a_kill_harms_no_run_and_starts_none_twice(lab, folder, cell):
    """Jobs, journal, routers, audit and events are as the matrix says (docs/service-kill-matrix.md)."""
    assert play(lab, folder, cell).complaints == ()
