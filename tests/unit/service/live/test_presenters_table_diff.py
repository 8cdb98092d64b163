"""Rows of words, and what changed between two boards."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from flashferry.service.live.presenters import Cell, news, sse, whole
from tests.unit.service.live.made import patched

_cells = st.builds(Cell, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "bad"]), st.sampled_from(["", "/x"]))
_rows = st.fixed_dictionaries({"one": _cells, "two": _cells})
_tables = st.lists(st.tuples(st.sampled_from("abcde"), _rows), unique_by=lambda pair: pair[0]).map(dict)
_boards = st.fixed_dictionaries({"sites": _tables, "needs": _tables})


@settings(max_examples=50)
@given(_boards, _boards)
def test_a_board_with_its_news_is_the_next_board(before, after):
    """Rows that came, went, moved or changed: whoever heard all of them has what is."""
    assert patched(whole(before), news(before, after)) == whole(after)


@settings(max_examples=20)
@given(_boards)
def test_no_change_is_no_news(board):
    """A quiet second costs nothing but its time."""
    assert news(board, board) == {}


def test_only_cells_that_changed_are_told():
    """Of five hundred rows a second brings fifty."""
    before = {"sites": {"AMS": {"done": Cell("1"), "rate": Cell("5")}, "LIM": {"done": Cell("2"), "rate": Cell("6")}}}
    after = {"sites": {"AMS": {"done": Cell("1"), "rate": Cell("7")}, "LIM": {"done": Cell("2"), "rate": Cell("6")}}}
    assert news(before, after) == {"sites": {"rows": {"AMS": {"rate": "7"}}}}


def test_an_event_of_a_stream_is_one_line_of_data():
    """A line feed in a name ends no event."""
    sent = sse("news", 7, {"tables": {"x\n\ndata: y": "\r\n"}})
    head, kind, data, *rest = sent.decode().split("\n")
    assert (head, kind, rest) == ("event: news", "id: 7", ["", ""])
    assert json.loads(data.removeprefix("data: ")) == {"tables": {"x\n\ndata: y": "\r\n"}}
