"""A dialogue on a session: only output after the command's own echo counts.

Questions and the end must stand a moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from flashferry.devices.dialogue import Dialogue
from flashferry.devices.errors import OutputNotUnderstood, QuestionLeft
from flashferry.devices.prompts import EchoGate

ECHO_LIMIT_S = 30.0
"""A device that does not even echo a command for so long hangs, or is at a question that was not seen."""

MOST_CHARS_BEFORE_ECHO = 256 * 1024
"""A burst of log lines may come first, but no more than a screen of a few thousand lines."""

STANDS_S = 1.0
"""A prompt that only log lines follow has stood for long enough after this, however many of them come."""

MOST_CHARS = 4 * 1024 * 1024
"""No dialogue shows more: half a million dots of a hash, or eight thousand marks of a copy, are the most we know of."""


class Line(Protocol):
    """What a dialogue needs of a session; all of it raises DeviceUnreachable once the session is lost."""

    name: str

    def send(self, text: str) -> None:
        """Send text as it is."""

    def received(self) -> str:
        """Return what has come since."""

    def wait_for_text(self, limit_s: float) -> None:
        """Sleep until there is something to read or the limit is over."""


def await_echo(
    line: Line, command: str, gate: EchoGate, on_wait: Callable[[], None], *, limit_s: float = ECHO_LIMIT_S
) -> None:
    """Wait until the echo of a command is whole; what follows it is kept in the gate.

    Raises:
        OutputNotUnderstood: It did not come within the limit, or after too much other output.
    """
    deadline = time.monotonic() + limit_s
    chars = 0
    while not gate.has_echo(text := line.received()):
        chars += len(text)
        _check_size(line, chars, MOST_CHARS_BEFORE_ECHO)
        if time.monotonic() > deadline:
            raise OutputNotUnderstood(
                f"'{command.partition(' ')[0]}': expected the echo of the command, none came within {limit_s:.0f} s",
                host=line.name,
                hint="Look at the device's console: it may be at a question, or hang",
            )
        on_wait()
        line.wait_for_text(1.0)


def hold(line: Line, gate: EchoGate, dialogue: Dialogue, on_wait: Callable[[], None]) -> None:
    """Answer what is asked, until the dialogue is over.

    An answer, and the end, wait until the question or the prompt has been the last thing shown for a moment.

    Raises:
        OutputNotUnderstood: The device does not cease to write.
        QuestionLeft: A prompt came back after a question without an answer.
    """
    dialogue.take(gate.after)
    chars = len(gate.after)
    stood_since: float | None = None
    while True:
        settles_in_s = dialogue.settles_in_s
        stood_since = (stood_since or time.monotonic()) if settles_in_s is not None else None
        on_wait()
        line.wait_for_text(1.0 if settles_in_s is None else settles_in_s)
        if text := line.received():
            chars += len(text)
            _check_size(line, chars, MOST_CHARS)
            dialogue.take(text)
            if stood_since is not None and _stands(dialogue, stood_since):
                break
            stood_since = stood_since if dialogue.is_over else None
        elif settles_in_s is not None and stood_since is not None and time.monotonic() - stood_since >= settles_in_s:
            if (answer := dialogue.due) is None:
                break
            line.send(answer)
            dialogue.typed()
            stood_since = None
    _check_nothing_is_left(line, dialogue)


def _stands(dialogue: Dialogue, since_s: float) -> bool:
    """Return whether a prompt that only log lines follow has been there for long enough."""
    return dialogue.is_over and time.monotonic() - since_s >= STANDS_S


def _check_nothing_is_left(line: Line, dialogue: Dialogue) -> None:
    if (question := dialogue.passed_over) is not None:
        raise QuestionLeft(
            f"the device asked {question!r}, and something like a prompt came without an answer; nothing was typed",
            host=line.name,
            hint="Give the command by hand and look at what the device asks",
        )


def _check_size(line: Line, chars: int, most: int) -> None:
    if chars > most:
        raise OutputNotUnderstood(
            f"expected an end of the device's output, found more than {most / 1e6:.1f} MB of it",
            host=line.name,
            hint="Give the command by hand and look at what the device shows",
        )
