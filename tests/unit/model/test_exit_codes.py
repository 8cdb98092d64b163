"""The documents say what the code does, where both state the same thing."""

from __future__ import annotations

import re
from pathlib import Path

from flashferry.model.exit_codes import VERB_MEANINGS, ExitCode

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def test_the_table_of_exit_codes_is_the_enumeration():
    """Codes and meanings of docs/command-line.md are those of the program."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [(int(code), code.meaning) for code in ExitCode]


def test_the_table_of_meanings_by_verb_is_the_program_s():
    """docs/command-line.md has each meaning of a failure once, with the verbs that have it, and no other."""
    rows = re.findall(r"^\| ([a-z, -]+) \| (\d+) \| ([^|]+) \|$", PAGE.read_text(), flags=re.MULTILINE)
    verbs: dict[tuple[str, str], list[str]] = {}
    for verb, codes in VERB_MEANINGS.items():
        for code, meaning in codes.items():
            if code in (ExitCode.OK, ExitCode.INTERRUPTED):
                continue
            verbs.setdefault((str(int(code)), meaning), []).append(verb)
    assert rows == [(", ".join(named), code, meaning) for (code, meaning), named in verbs.items()]
