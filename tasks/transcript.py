"""What a device's sessions sent and got: the last of it in memory for a report, all of it in files where asked for.

The last of it is kept as it came and masked when somebody wants to see it, which for most devices nobody ever does: a
session that goes well costs next to nothing. What goes into files is masked on its way there, see
`tasks.transcript_files`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from tasks.masked_stream import Mark, MaskedStream

KEPT_CHARS = 8192
"""Kept of a device in memory, as it came: twice what is shown, for the masked text is looked at in whole lines."""

KEPT_PIECES = 400
"""Nor more pieces than this: an echo may come letter by letter."""

SHOWN_LINES = 40
SHOWN_CHARS = 4096
LONGEST_SHOWN = 400
"""Of one entry; the marks of a copy, or a certificate, are shortened in the middle."""

Piece = tuple[float, Mark, str]
"""When it was sent or came, in seconds since 1970; which way; the text as it is."""


class Sink(Protocol):
    """Takes all that a session says, and never fails."""

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Take a piece."""

    def close(self) -> None:
        """Note that nothing follows."""


class Recent:
    """The last that a device's sessions said: a few kB, as it came. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: deque[Piece] = deque()
        self._chars = 0
        self._is_cut = False

    def __repr__(self) -> str:
        """Return how much there is; the text is nobody's to see as it is."""
        return f"Recent({self._chars} characters)"

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Take a piece; let go of the oldest ones that are too many by then."""
        with self._lock:
            # Of a configuration of a megabyte no more than its end is copied.
            kept = text[-KEPT_CHARS:]
            self._pieces.append((at_s, mark, kept))
            self._chars += len(kept)
            self._is_cut = self._is_cut or len(kept) < len(text)
            while self._chars > KEPT_CHARS or len(self._pieces) > KEPT_PIECES:
                self._cut()

    def _cut(self) -> None:
        """Let go of the oldest piece, or of as much of it as is too much."""
        at_s, mark, text = self._pieces.popleft()
        surplus = self._chars - KEPT_CHARS
        if 0 < surplus < len(text):
            self._pieces.appendleft((at_s, mark, text[surplus:]))
            self._chars -= surplus
        else:
            self._chars -= len(text)
        self._is_cut = True

    def lines(self) -> tuple[str, ...]:
        """Return the last entries, masked; none where no device ever said anything."""
        with self._lock:
            pieces, is_cut = list(self._pieces), self._is_cut
        if not any(mark is Mark.CAME for _, mark, _ in pieces):
            return ()
        stream = MaskedStream()
        entries = [one for piece in (_from_a_line_on(pieces) if is_cut else pieces) for one in stream.take(*piece)]
        return _last(entries + stream.end(pieces[-1][0]))


def _from_a_line_on(pieces: list[Piece]) -> list[Piece]:
    """Return pieces from the first whole line that came: what is in front of it may be the rest of a secret."""
    for number, (at_s, mark, text) in enumerate(pieces):
        if mark is Mark.CAME and "\n" in text:
            return [(at_s, mark, text.partition("\n")[2]), *pieces[number + 1 :]]
    return []


def _last(entries: list[str]) -> tuple[str, ...]:
    """Return as many of the last entries as a report has room for."""
    kept: list[str] = []
    chars = 0
    for one in reversed(entries[-SHOWN_LINES:]):
        short = one if len(one) <= LONGEST_SHOWN else f"{one[: LONGEST_SHOWN // 2]} ... {one[-LONGEST_SHOWN // 2 :]}"
        chars += len(short)
        if chars > SHOWN_CHARS:
            break
        kept.append(short)
    return tuple(reversed(kept))


class Recorder:
    """Takes what one session sends and gets. Costs a session little, and never fails.

    Args:
        recent: Keeps the last of it.
        sink: Takes all of it, or None.
        wall: Seconds since 1970.
    """

    def __init__(self, recent: Recent, sink: Sink | None = None, *, wall: Callable[[], float] = time.time) -> None:
        self._recent, self._sink, self._wall = recent, sink, wall

    def __repr__(self) -> str:
        """Return nothing of what was said."""
        return f"Recorder({self._recent!r})"

    def sent(self, text: str) -> None:
        """Take what was sent."""
        self._take(Mark.SENT, text)

    def came(self, text: str) -> None:
        """Take what came."""
        if text:
            self._take(Mark.CAME, text)

    def note(self, text: str) -> None:
        """Take a word of ours on what happens."""
        self._take(Mark.NOTE, text)

    def close(self) -> None:
        """Note that nothing follows."""
        if self._sink is not None:
            self._sink.close()

    def _take(self, mark: Mark, text: str) -> None:
        at_s = self._wall()
        self._recent.take(at_s, mark, text)
        if self._sink is not None:
            self._sink.take(at_s, mark, text)
