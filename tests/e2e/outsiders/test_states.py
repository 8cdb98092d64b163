"""Genie reads the truth of stand-ins in every state of an upgrade."""

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.outsiders.states import FACTS, IMAGES, IN_BUNDLES, differences, in_all_states, read_by_genie
from tests.e2e.outsiders.visit import PYTHON_VARIABLE, versions

PYTHON = Path(os.environ.get(PYTHON_VARIABLE, sys.executable))


def test_every_state_of_an_upgrade_is_shown(tmp_path: Path) -> None:
    """Seven of those who install, one or two of the others; and every command is known to somebody."""
    shown = in_all_states(tmp_path)
    states = {platform: {each.state for each in shown if each.platform == platform} for platform in IMAGES}
    assert {len(found) for found in states.values()} == {7}
    assert {each.platform for each in shown} == {*IMAGES, *IN_BUNDLES}
    assert {each.command for each in shown} == set(FACTS)


def test_genie_reads_what_is_so(tmp_path: Path) -> None:
    """Packages with their states and the timer, releases, boot variables, members and processors."""
    if versions(PYTHON) is None:
        pytest.skip(f"{PYTHON} has no pyATS with ntc-templates; name an interpreter that has by {PYTHON_VARIABLE}")
    shown = in_all_states(tmp_path)
    assert differences(shown, read_by_genie(PYTHON, shown, tmp_path)) == []
