"""The README says what the code does, where both state the same thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode

README = Path(__file__).parents[3] / "README.md"


@pytest.mark.skipif(not README.exists(), reason="the README is not part of the wheel's test copy")
def test_the_table_of_exit_codes_is_the_enumeration():
    """Codes and meanings of the README are those of the program."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|$", README.read_text(), flags=re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [(int(code), code.meaning) for code in ExitCode]


@pytest.mark.skipif(not README.exists(), reason="docs are not part of the wheel's test copy")
def test_the_table_of_meanings_by_verb_is_the_program_s():
    """docs/command-line.md has every row, and no other."""
    text = (README.parent / "docs" / "command-line.md").read_text()
    rows = re.findall(r"^\| ([a-z-]+) \| (\d+) \| ([^|]+) \|$", text, flags=re.MULTILINE)
    wanted = [(verb, str(int(code)), told) for verb, codes in VERB_MEANINGS.items() for code, told in codes.items()]
    assert rows == wanted
