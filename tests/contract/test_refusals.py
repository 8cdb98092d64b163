"""Every bad input is answered by one sentence, with what to do; the sentences themselves are golden."""

from __future__ import annotations

import re

import pytest

from tests.contract import golden

_BLOCKS = [block.splitlines() for block in re.split(r"\n\n(?=\$)", golden.stored("refusals")["refusals.txt"].strip())]


@pytest.mark.parametrize("block", _BLOCKS, ids=lambda block: block[0].removeprefix("$ flashferry "))
def test_a_refusal_is_one_sentence_with_what_to_do(block: list[str]) -> None:
    """No traceback, no number of the system's, no value of Python's; a second sentence or a help to read."""
    text = " ".join(line for line in block[1:] if line)
    for internal in ("Traceback", "Errno", "found None", "NoneType", "object at 0x"):
        assert internal not in text
    assert block[-1] == "(exit code 2)"
    assert re.search(r"^flashferry: error: .{5,}?[.?] \S", block[1]) or "--help' for help." in text


def test_there_are_many() -> None:
    """Verbs, files, folders, numbers, names, times, addresses, plans, runs and services."""
    assert len(_BLOCKS) > 150
