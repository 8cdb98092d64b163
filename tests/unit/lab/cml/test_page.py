"""The page tells of every switch and every refusal."""

from pathlib import Path

import pytest

from flashferry.lab.cml.definitions import text_table
from flashferry.lab.cml.faults import switch_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "lab.md"


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not part of the wheel's test copy")
@pytest.mark.parametrize("table", [switch_table, text_table])
def test_the_page_has_the_table(table: object) -> None:
    """As `python -m flashferry.lab.cml --switches` prints it: put it there after a change."""
    assert callable(table)
    assert table() in PAGE.read_text(encoding="utf-8")
