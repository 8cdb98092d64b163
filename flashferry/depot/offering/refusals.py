"""Reports of logins that a source refused: one a minute for each address and user, then with a count.

Neither a password nor the whole name of an unknown user is in it: such a name may be a password that was typed
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
"""Seconds for which a refusal is counted, and not reported again."""

MOST_APART = 200
"""So many addresses and users are counted singly within that time; all others together."""

_REST = ("", "", "")


@dataclass(slots=True)
class _Reported:
    """The last report about an address and user, and how many refusals came since."""

    at_s: float
    text: str
    more: int = 0


class Refusals:
    """Decide which refused logins are reported. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._reported: dict[tuple[str, str, str], _Reported] = {}

    def take(self, failure: LoginFailure, now_s: float) -> str:
        """Return the report of a refusal; empty where it is only counted."""
        key = (failure.peer_address, failure.site, failure.username_masked)
        if key not in self._reported and len(self._reported) >= MOST_APART:
            key = _REST
        if (reported := self._reported.get(key)) is not None:
            reported.more += 1
            return ""
        text = "login refused: more addresses and users than are counted singly" if key == _REST else _text(failure)
        self._reported[key] = _Reported(at_s=now_s, text=text)
        return text

    def due(self, now_s: float) -> Iterator[str]:
        """Yield a report for each group of refusals whose time is over."""
        for key, reported in tuple(self._reported.items()):
            if now_s - reported.at_s < EVERY_S:
                continue
            if not reported.more:
                del self._reported[key]
                continue
            yield f"{reported.text}; {counted(reported.more, 'more time')} since the last report"
            self._reported[key] = _Reported(at_s=now_s, text=reported.text)


def _text(failure: LoginFailure) -> str:
    who = f"site {failure.site}" if failure.site else f"user {failure.username_masked}"
    return f"login refused for {failure.peer_address}: {who}, {failure.reason}"
