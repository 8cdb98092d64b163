"""Logins that a source refused, told without a flood: of each address and user once in a minute, then with a count.

Neither a password nor the whole name of a user that nobody has is in it: such a name may be a password that was typed
into the wrong place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.safe_quote import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.fileserver import LoginFailure

EVERY_S = 60.0
"""So long a refusal is counted, and not told again."""

MOST_APART = 200
"""So many addresses and users are told apart within that time; what comes besides is counted together."""

_OTHERS = ("", "", "")


@dataclass(slots=True)
class _Told:
    """What was told of an address and user, and how often it came since."""

    at_s: float
    text: str
    more: int = 0


class Refusals:
    """Decides what is told of refused logins. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, str, str], _Told] = {}

    def take(self, failure: LoginFailure, now_s: float) -> str:
        """Return what is told of a refusal at once; empty: it is counted."""
        key = (failure.peer_address, failure.site, failure.username_masked)
        if key not in self._told and len(self._told) >= MOST_APART:
            key = _OTHERS
        if (told := self._told.get(key)) is not None:
            told.more += 1
            return ""
        text = "login refused: more addresses and users than are told apart" if key == _OTHERS else _text(failure)
        self._told[key] = _Told(at_s=now_s, text=text)
        return text

    def due(self, now_s: float) -> Iterator[str]:
        """Yield what is told of refusals that were counted until their time was over."""
        for key, told in tuple(self._told.items()):
            if now_s - told.at_s < EVERY_S:
                continue
            if not told.more:
                del self._told[key]
                continue
            yield f"{told.text}; {counted(told.more, 'more time')} since that was told"
            self._told[key] = _Told(at_s=now_s, text=told.text)


def _text(failure: LoginFailure) -> str:
    who = f"site {failure.site}" if failure.site else f"user {failure.username_masked}"
    return f"login refused for {failure.peer_address}: {who}, {failure.reason}"
