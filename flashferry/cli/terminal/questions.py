"""A yes or no between waves, asked at the terminal while `flashferry run approve` may answer at another one."""

from __future__ import annotations

import select
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from flashferry.core.described import counted

if TYPE_CHECKING:
    from flashferry.model.waves import Wave


class WaveApproval:
    """Asks once per wave, and looks for the answer without waiting for it.

    Args:
        say: Takes a line for people.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._asked: int | None = None

    def __call__(self, wave: Wave) -> bool | None:
        """Return the answer; None while there is none."""
        if self._asked != wave.number:
            self._asked = wave.number
            self._say(
                f"begin wave {wave.number}, {wave.name}, {counted(len(wave.hosts), 'device')}? Type y or n, then Enter"
            )
        if not select.select([sys.stdin], [], [], 0)[0]:
            return None
        answer = sys.stdin.readline()
        if answer == "":
            # The terminal is gone: nobody there says yes.
            return False
        if (word := answer.strip().lower()) in {"y", "yes"}:
            return True
        if word in {"n", "no"}:
            return False
        self._asked = None
        return None


def wave_approval(say: Callable[[str], None]) -> WaveApproval | None:
    """Return who asks, or None where nobody sits at a terminal: then `flashferry run approve` is waited for."""
    return WaveApproval(say) if sys.stdin is not None and sys.stdin.isatty() else None
