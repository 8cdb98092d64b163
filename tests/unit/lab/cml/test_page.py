"""The page names the command that prints every switch and every refusal."""

import sys
from pathlib import Path

import pytest

from flashferry.lab.cml.__main__ import main
from flashferry.lab.cml.definitions import text_table
from flashferry.lab.cml.faults import switch_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "lab.md"


@pytest.mark.skipif(not PAGE.exists(), reason="docs are not part of the wheel's test copy")
def test_the_page_names_the_command_that_prints_both_tables(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends at once, with the switches first."""
    assert "`python -m flashferry.lab.cml --switches`" in PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["flashferry.lab.cml", "--switches"])
    main()
    assert capsys.readouterr().out == f"{switch_table()}\n{text_table()}"
