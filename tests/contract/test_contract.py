"""Nothing that a user, a script, a journal or a report sees has changed: golden files of every contract.

Where a change is meant: `python -m tests.contract --update [GROUP]`, and a line in the CHANGELOG.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import golden
from tests.contract.groups import GROUPS, LAB, SOAK


def _marked(group: str) -> object:
    marks = [pytest.mark.lab] if group in LAB else []
    return pytest.param(group, marks=[*marks, pytest.mark.soak] if group in SOAK else marks)


@pytest.mark.parametrize("group", [_marked(group) for group in GROUPS])
def test_what_the_product_gives_is_what_it_gave(group: str, tmp_path: Path) -> None:
    """Every file that is captured anew equals its golden file, and no golden file is without one."""
    golden.check(group, GROUPS[group](tmp_path))


def test_every_golden_file_belongs_to_a_group() -> None:
    """A group that was renamed leaves no files behind that nobody compares any more."""
    assert {path.name for path in golden.FOLDER.iterdir()} == GROUPS.keys() - golden.ELSEWHERE.keys()
