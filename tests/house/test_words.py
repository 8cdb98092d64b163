"""Banned words and wide imports stand where the list has them, and nowhere else; the list only shrinks."""

from __future__ import annotations

import ast

import pytest

from tests.house import ratchet
from tests.house.test_house import made

WORDS = frozenset({"told", "last_words"})


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("words", ratchet.found_words),
        ("imports", ratchet.found_imports),
    ],
)
def test_violations_are_those_that_are_listed(kind, count):
    """One more fails, and one fewer that the list still allows."""
    assert list(ratchet.differences(ratchet.listed()[kind], count())) == []


def test_nine_of_ten_modules_import_few_others():
    assert ratchet.imports_p90() <= ratchet.MOST_IMPORTS_P90


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It was told. Told twice", 2),
        ("_told = as_told(isTold)", 3),
        ("untold toldx", 0),
        ("last_words", 1),
    ],
)
def test_a_word_is_found_alone_and_in_names(text, count):
    assert ratchet.count_text(text, WORDS) == count


def test_a_name_is_found_where_it_is_defined():
    """Class, function, argument, variable, attribute; not where one is used, nor in a sentence."""
    code = "class Door:\n    'A door.'\n    def open_door(self, the_door):\n        self.door = way = doors(door)\n"
    assert ratchet.count_names(ast.parse(code), {"door", "way"}) == 5


def test_more_and_fewer_than_listed_both_differ():
    """One more is refused; one fewer asks for the list to be updated."""
    more, fewer, new = ratchet.differences({"a": 1, "b": 2}, {"a": 2, "b": 1, "c": 1})
    assert "a: at most 1 allowed, found 2" in more
    assert "b: 2 listed, found 1; run python" in fewer
    assert "c: at most 0 allowed, found 1" in new


def test_the_list_does_not_grow(tmp_path, monkeypatch):
    """In all: what moves to another file is taken over."""
    monkeypatch.setattr(ratchet, "LIST", tmp_path / "list.json")
    ratchet.update({"words": {"a": 2}}, {"words": {"b": 1, "c": 1}})
    assert ratchet.listed() == {"words": {"b": 1, "c": 1}}
    with pytest.raises(SystemExit, match=r"words: 2 listed, found 3; .*\nc: at most 1 allowed, found 2"):
        ratchet.update(ratchet.listed(), {"words": {"b": 1, "c": 2}})


def test_imports_are_counted_by_module():
    """Of ours alone, and only more than are allowed; nine of ten decide."""
    wide = " ".join(f"flashferry.m{number}" for number in range(ratchet.MOST_IMPORTS + 1))
    modules = {f"a.m{number}": made(f"a.m{number}", imports="a.x") for number in range(9)} | {"a.w": made("a.w", wide)}
    assert ratchet.found_imports(modules) == {"a.w": ratchet.MOST_IMPORTS + 1}
    assert ratchet.imports_p90(modules) == 1
