"""A dialogue on a line: nothing counts before the command's own echo, and the end must stand for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from tasks.errors import OutputNotUnderstood
from tasks.prompts import EchoGate

ECHO_LIMIT_S = 30.0
"""A device that does not even echo a command for so long hangs, or is at a question that nobody saw."""

REDRAWN_S = 0.25
"""A prompt that IOS draws again, with the line that is being typed, comes in one burst with that line."""


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
    """Wait until the echo of a command is whole; what stands behind it is kept in the gate.

    Raises:
        OutputNotUnderstood: It did not come within the limit.
    """
    deadline = time.monotonic() + limit_s
    while not gate.has_echo(line.received()):
        if time.monotonic() > deadline:
            raise OutputNotUnderstood(
                f"'{command.partition(' ')[0]}': expected the echo of the command, none came within {limit_s:.0f} s",
                host=line.name,
                hint="Look at the device's console: it may be at a question, or hang",
            )
        on_wait()
        line.wait_for_text(1.0)


def hold(
    line: Line, gate: EchoGate, reply: Callable[[str], tuple[str, ...] | None], on_wait: Callable[[], None]
) -> None:
    """Answer until the dialogue is over, and stays over for the moment that a line drawn anew takes."""
    text, over_at = gate.behind, None
    while True:
        answers = reply(text)
        if answers is None:
            over_at = over_at or time.monotonic()
            line.wait_for_text(REDRAWN_S)
            if not (text := line.received()) or time.monotonic() - over_at > REDRAWN_S:
                return
            continue
        over_at = None
        for answer in answers:
            line.send(answer)
        on_wait()
        line.wait_for_text(1.0)
        text = line.received()
