"""What a device's sessions sent and got: the end of it in memory for a report, all of it in files where asked for.

The end of it is kept as it came and masked when it is read, which for most devices never happens: a session that goes
well costs next to nothing. What goes into files is masked before, see `flashferry.devices.transcript_files`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import groupby
from typing import Protocol

from flashferry.devices.masked_stream import Mark, MaskedStream, entry, stamp

KEPT_CHARS = 8192
"""Kept of a device in memory, as it came, besides the answer that is coming."""

KEPT_PIECES = 400
"""Nor more pieces than this: an echo may come letter by letter."""

HEAD_CHARS, TAIL_CHARS = 240, 1200
"""Kept of the answer that is coming: its beginning and its end."""

OLD_TAIL_CHARS = 240
"""Kept of an answer's end when something follows it: a configuration must not push out the command that went wrong."""

SHOWN_LINES = 40
ANSWER_LINES = 5
"""Shown of the beginning and of the end of each answer but the last."""

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


class _Pieces:
    """Pieces up to a number of characters; the oldest go first, and it is known whether some did."""

    def __init__(self) -> None:
        self.all: deque[Piece] = deque()
        self.chars = 0
        self.is_cut = False

    def add(self, piece: Piece, most_chars: int) -> None:
        """Take a piece, of which no more than that is copied."""
        at_s, mark, text = piece
        kept = text[-most_chars:]
        self.all.append((at_s, mark, kept))
        self.chars += len(kept)
        self.is_cut = self.is_cut or len(kept) < len(text)
        self.shrink(most_chars)

    def shrink(self, most_chars: int) -> None:
        """Let go of the oldest that are too many."""
        while self.chars > most_chars or len(self.all) > KEPT_PIECES:
            at_s, mark, text = self.all.popleft()
            surplus = self.chars - most_chars
            if 0 < surplus < len(text):
                self.all.appendleft((at_s, mark, text[surplus:]))
            self.chars -= min(surplus, len(text)) if surplus > 0 else len(text)
            self.is_cut = True


class Recent:
    """The end of a device's sessions: a few kB, as it came. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._old = _Pieces()
        self._head, self._tail = _Pieces(), _Pieces()
        self._has_answer = False

    def __repr__(self) -> str:
        """Return how much there is; the text itself may hold secrets."""
        return f"Recent({self.chars} characters)"

    @property
    def chars(self) -> int:
        """Return how many characters are kept."""
        return self._old.chars + self._head.chars + self._tail.chars

    def take(self, at_s: float, mark: Mark, text: str) -> None:
        """Take a piece; let go of what is too much by then."""
        with self._lock:
            if mark is not Mark.CAME:
                self._settle()
                self._old.add((at_s, mark, text), KEPT_CHARS)
                return
            self._has_answer = True
            if space := HEAD_CHARS - self._head.chars:
                self._head.add((at_s, mark, text[:space]), HEAD_CHARS)
                text = text[space:]
            if text:
                self._tail.add((at_s, mark, text), TAIL_CHARS)

    def lines(self) -> tuple[str, ...]:
        """Return the last entries, masked; none where no device ever answered."""
        with self._lock:
            if not self._has_answer:
                return ()
            pieces = [*self._old.all, *self._head.all, *([_GAP] if self._tail.is_cut else ()), *self._tail.all]
            is_cut = self._old.is_cut
        entries: list[str] = []
        for part in _parts(pieces):
            if is_cut:
                if entries:
                    entries.append(entry(part[0][0] if part else pieces[-1][0], Mark.NOTE, _LEFT_OUT))
                part = _from_a_line_on(part)
            stream = MaskedStream()
            entries += [one for piece in part for one in stream.take(*piece)]
            entries += stream.end(part[-1][0] if part else 0.0)
            is_cut = True
        return _last(_folded(entries))

    def _settle(self) -> None:
        """Move the answer that is over to what is older: its beginning and its end."""
        if not self._head.all:
            return
        self._tail.shrink(OLD_TAIL_CHARS)
        for piece in (*self._head.all, *([_GAP] if self._tail.is_cut else ()), *self._tail.all):
            self._old.add(piece, KEPT_CHARS)
        self._head, self._tail = _Pieces(), _Pieces()


_GAP: Piece = (0.0, Mark.NOTE, "\0")
"""Stands where something is missing."""

_MARK_AT = len(stamp(0.0)) + 1
_LEFT_OUT = "some of the answer is left out here"


def _parts(pieces: list[Piece]) -> list[list[Piece]]:
    """Return pieces in parts that have nothing missing in them."""
    parts: list[list[Piece]] = [[]]
    for piece in pieces:
        if piece[1:] == _GAP[1:]:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts


def _from_a_line_on(pieces: list[Piece]) -> list[Piece]:
    """Return pieces from the first whole line that came: what is in front of it may be the rest of a secret."""
    for number, (at_s, mark, text) in enumerate(pieces):
        if mark is Mark.CAME and "\n" in text:
            return [(at_s, mark, text.partition("\n")[2]), *pieces[number + 1 :]]
    return []


def _is_of_an_answer(one: str) -> bool:
    return one[_MARK_AT] == Mark.CAME or one.endswith(_LEFT_OUT)


def _folded(entries: list[str]) -> list[str]:
    """Return entries with long answers shortened in the middle, but for the one at the very end."""
    answers = [(is_answer, list(found)) for is_answer, found in groupby(entries, _is_of_an_answer)]
    folded: list[str] = []
    for number, (is_answer, found) in enumerate(answers, start=1):
        if is_answer and len(found) > 2 * ANSWER_LINES and number < len(answers):
            middle = found[ANSWER_LINES]
            left_out = f"{middle[:_MARK_AT]}{Mark.NOTE} {_LEFT_OUT}"
            found = [*found[:ANSWER_LINES], left_out, *found[-ANSWER_LINES:]]
        folded += found
    return folded


def _last(entries: list[str]) -> tuple[str, ...]:
    """Return as many of the last entries as a report has space for."""
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
        recent: Keeps the end of it.
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
