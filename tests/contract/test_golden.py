"""Each golden file fails when its contract is broken, and says what to do."""

from __future__ import annotations

import re

import pytest

from tests.contract import golden
from tests.contract.groups import GROUPS

WORD = re.compile(r"[A-Za-z_]{2,}")


@pytest.mark.parametrize("group", GROUPS)
def test_each_golden_file_fails_when_one_word_is_another(group: str) -> None:
    """For every file: a word renamed, a line missing, a line more, the file missing."""
    stored = golden.stored(group)
    assert stored, f"{group} has no golden files"
    golden.check(group, stored)
    for name, text in stored.items():
        lines = text.splitlines(keepends=True)
        at = next(number for number, line in enumerate(lines) if WORD.search(line))
        broken = {
            "a word renamed": [*lines[:at], WORD.sub("renamed", lines[at], count=1), *lines[at + 1 :]],
            "a line missing": [*lines[:at], *lines[at + 1 :]],
            "a line more": [*lines, "one more\n"],
        }
        for what, changed in broken.items():
            with pytest.raises(AssertionError, match="a contract of the product has changed") as found:
                golden.check(group, stored | {name: "".join(changed)})
            assert f"golden/{name}" in str(found.value), what
            assert f"python -m tests.contract --update {group}" in str(found.value)
        with pytest.raises(AssertionError, match="no longer given"):
            golden.check(group, {other: one for other, one in stored.items() if other != name} or {"other": ""})


def test_a_file_that_is_new_fails_too() -> None:
    """What the product gives beyond its golden files is a contract that nobody has looked at."""
    with pytest.raises(AssertionError, match="no golden file"):
        golden.check("serve", golden.stored("serve") | {"new.json": "{}\n"})


def test_nothing_captured_is_no_success() -> None:
    """A capture that gave nothing cannot pass."""
    with pytest.raises(AssertionError, match="nothing was captured"):
        golden.check("serve", {})


def test_update_writes_what_was_captured_and_nothing_else(tmp_path, monkeypatch) -> None:
    """Afterwards the files hold; those that are no longer given are gone, and those that changed are named."""
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    assert golden.update("group", {"a": "1\n", "b": "2\n"}) == ["a", "b"]
    assert golden.update("group", {"a": "1\n", "c": "3\n"}) == ["b", "c"]
    golden.check("group", {"a": "1\n", "c": "3\n"})
    assert not (tmp_path / "group" / "b").exists()
