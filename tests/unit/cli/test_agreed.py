"""A question to a person: yes is yes, and anything else is no."""

from __future__ import annotations

import os
import pty
from contextlib import ExitStack

import pytest

from flashferry.cli.terminal import output


@pytest.fixture
def typed(monkeypatch):
    """Return what has a text typed at the question."""

    def at_question(text, *, is_over=True):
        reading, writing = os.pipe()
        os.write(writing, text.encode())
        if is_over:
            os.close(writing)
        else:
            ends.callback(os.close, writing)
        monkeypatch.setattr(output.sys, "stdin", ends.enter_context(os.fdopen(reading)))

    with ExitStack() as ends:
        yield at_question


@pytest.mark.parametrize(
    ("text", "is_yes"), [("y\n", True), ("Yes\n", True), ("\n", False), ("n\n", False), ("", False), ("yy\n", False)]
)
def test_only_yes_is_yes(typed, capsys, text, is_yes):
    """An empty line and an end of input are no; what is asked about stands above the question."""
    typed(text)
    assert output.agreed(("xe1: 1 file",), "delete it?", lambda: False) is is_yes
    # Enter is what ends the question's line on a terminal; where nobody typed it, we do.
    assert capsys.readouterr().err == "xe1: 1 file\ndelete it? [y/N] " + ("" if text else "\n")


def test_who_stops_at_the_question_said_no(typed):
    """Ctrl-C is looked for while nothing is typed."""
    typed("", is_over=False)
    looks = iter([False, True])
    assert output.agreed((), "delete it?", lambda: next(looks)) is False


def test_what_is_said_at_the_question_has_a_line_of_its_own(typed, capsys):
    """As what Ctrl-C says; the line is ended once."""
    typed("", is_over=False)

    def stopped():
        output.say("interrupted")
        return True

    assert output.agreed((), "delete it?", stopped) is False
    assert capsys.readouterr().err == "delete it? [y/N] \nflashferry: interrupted\n"


def test_what_was_typed_before_the_question_is_no_answer(monkeypatch, capsys):
    """A second y, meant for the device before, would delete what nobody has seen."""
    terminal, typing = pty.openpty()
    with os.fdopen(terminal, "wb", buffering=0) as keys, os.fdopen(typing) as reading:
        monkeypatch.setattr(output.sys, "stdin", reading)
        keys.write(b"y\n")
        looks = iter([False, False, True])
        assert output.agreed((), "delete it?", lambda: next(looks)) is False

        def late():
            if "again?" in capsys.readouterr().err:
                keys.write(b"y\n")
            return False

        assert output.agreed((), "again?", late) is True
