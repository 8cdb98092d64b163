"""The question before an activation: what was typed is an approval, and nothing typed is none."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import pytest
import typer

from flashferry.cli import activate
from flashferry.model.exit_codes import ExitCode

PLAN = SimpleNamespace(digest="3f2a91bc" * 8, hosts=("xe1", "xe2"), rounds=())


def test_the_question_names_what_is_to_be_typed(monkeypatch):
    """What is typed is held against the plan by who activates it."""
    asked = []

    def typed(above, question, stopped):
        asked.extend((*above, question))
        return "" if stopped() else "3f2a91bc"

    monkeypatch.setattr(activate, "typed", typed)
    assert activate._asked(PLAN, ("above",), as_json=False) == "3f2a91bc"
    assert asked == ["above", "type 3f2a91bc to restart 2 devices:"]


@pytest.mark.parametrize(
    ("interrupts", "code", "words"),
    [
        (False, ExitCode.UNFINISHED, "the plan was not approved: no device was asked or restarted"),
        (True, ExitCode.INTERRUPTED, "interrupted at the question: no device was asked or restarted"),
    ],
)
def test_who_types_nothing_is_told_that_nothing_happened(monkeypatch, capsys, interrupts, code, words):
    """Enter and the end of input approve nothing; Ctrl-C is an interruption, and no wrong option."""

    def typed(_above, _question, stopped):
        if interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped()
        return ""

    monkeypatch.setattr(activate, "typed", typed)
    with pytest.raises(typer.Exit) as caught:
        activate._asked(PLAN, (), as_json=False)
    assert caught.value.exit_code == int(code)
    assert capsys.readouterr().err == f"flashferry: {words}\n"
