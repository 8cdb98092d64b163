"""What the operator is asked at the terminal, and that nobody is asked where none is."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys

import pytest

from flashferry.cli.terminal import questions
from flashferry.cli.terminal.questions import PromptSource, WaveApproval, wave_approval
from flashferry.devices.credentials import Credentials
from flashferry.model.waves import Wave
from tests.patience import PATIENCE_S

ASK = """
from flashferry.devices.credentials import Credentials
from flashferry.cli.terminal.questions import PromptSource
source = PromptSource()
for name, known in (("r1", Credentials()), ("r2", Credentials()), ("r3", Credentials(username="ann"))):
    found = source.lookup(name, known)
    print(name, found.username, found.password == "typed-word", found.enable_secret, flush=True)
"""


def test_the_prompt_asks_once(tmp_path):
    """At a terminal all devices share one answer per user; the password is not echoed."""
    controller, terminal = os.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", ASK], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    shown = ""

    def until(text, answer):
        nonlocal shown
        while text not in shown.rpartition("\0")[2]:
            assert select.select([controller], (), (), PATIENCE_S)[0], f"expected {text!r} behind {shown!r}"
            shown += os.read(controller, 1000).decode()
        shown += "\0"
        if answer is not None:
            os.write(controller, answer.encode())

    until("user name: ", "ann\n")
    until("Password of ann: ", "typed-word\n")
    until("Enable secret (Enter if none): ", "\n")
    until("Password of ann: ", "other-word\n")
    until("Enable secret (Enter if none): ", "\n")
    until("r3 ann", None)
    assert process.wait() == 0
    os.close(controller)
    assert "r1 ann True None" in shown
    assert "r2 ann True None" in shown
    assert "typed-word" not in shown


def test_no_prompt_without_a_terminal():
    """In a pipe nobody is asked: the device is told to lack its login, later and by name."""
    done = subprocess.run(
        [sys.executable, "-c", ASK], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0] == "r1 None False None"
    assert done.stderr == ""


def test_a_complete_login_is_not_asked_for():
    """Only what is missing is worth a question; an enable secret alone is none."""
    assert PromptSource().lookup("r1", Credentials(username="ann", password="")) == Credentials()


WAVE = Wave(number=2, name="north", hosts=("r1", "r2"))


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y\n", True), (" YES \n", True), ("n\n", False), ("no\n", False), ("", False), ("what?\n", None)],
)
def test_a_wave_is_approved_by_a_word(monkeypatch, typed, answer):
    """Yes and no count; at the end of the input nobody says yes; another word is asked about again."""
    said: list[str] = []
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    monkeypatch.setattr(questions.select, "select", lambda *_: ([sys.stdin], [], []))
    asking = WaveApproval(said.append)
    assert asking(WAVE) is answer
    assert said == ["begin wave 2 (north, 2 devices)? Type y or n, then Enter"]
    asking(WAVE)
    assert len(said) == (2 if answer is None else 1)


def test_an_answer_is_not_waited_for(monkeypatch):
    """The run looks at its journal meanwhile, where another terminal may approve."""
    monkeypatch.setattr(questions.select, "select", lambda *_: ([], [], []))
    assert WaveApproval(lambda text: None)(WAVE) is None


def test_nobody_is_asked_without_a_terminal(monkeypatch):
    """Then `flashferry run approve` alone answers."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert wave_approval(print) is None
