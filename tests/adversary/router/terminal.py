"""A vty line: keys in, text out; what is asked, what is typed into it, and when each was seen.

IOS echoes a key when it reads it, keeps what is typed ahead for whatever reads next, and answers `[confirm]` by a
single key. So does this, and notes for each question whether it stood on the screen when its answer was typed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from tests.adversary.router.knobs import Knobs, Redraw

ABORTS = frozenset({"\x03", "\x1e"})
"""Ctrl-C and Ctrl-Shift-6: they leave a question without an answer."""

BROADCAST = "\r\n\r\n\r\n***\r\n***\r\n*** Message from tty0 to all terminals:\r\n***\r\n{text}\r\n\r\n"
"""What `send *` of a colleague puts on every line."""

_COLUMNS = 80
_NOISE_SHARE = 0.3
_NOISE_AFTER_KEYS = 3
"""Of so many commands so many keys are read before a syslog line breaks into them."""


class HungUp(Exception):
    """The other side is gone."""


class Channel(Protocol):
    """What a terminal needs of SSH."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def close(self) -> None:
        """Hang up."""


@dataclass(slots=True)
class Asked:
    """A question, and what was typed into it.

    Attributes:
        kind: Which one: `destination`, `erase`, `surprise`, ...
        text: As it was shown.
        is_known: Whether IOS manuals know it; to any other nobody has an answer.
        answer: Keys that answered it, without the Enter that ends a line; None: nothing was typed, or it was left.
        was_seen: Whether all of it stood on the screen when the first key of the answer was typed.
        effect: What the answer did, where it destroyed something; empty where it did no harm.
        session: Number of the session.
    """

    kind: str
    text: str
    is_known: bool
    session: int
    answer: str | None = None
    was_seen: bool = True
    effect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of a transcript: shown by the device, typed into it, or a remark behind the scenes."""

    at_s: float
    session: int
    kind: str
    text: str


@dataclass(slots=True)
class Transcript:
    """Everything that was shown and typed, in its order."""

    started_s: float = field(default_factory=time.monotonic)
    passages: list[Passage] = field(default_factory=list)

    def note(self, session: int, kind: str, text: str) -> None:
        """Take a piece."""
        at_s = time.monotonic() - self.started_s
        self.passages.append(Passage(at_s=at_s, session=session, kind=kind, text=text))


@dataclass(frozen=True, slots=True)
class Key:
    """A key and when it came."""

    text: str
    at_s: float


class Terminal:
    """One session's line.

    Args:
        channel: Where text goes.
        knobs: How the device misbehaves.
        number: Of the session.
        transcript: Takes what is shown and typed.
        on_asked: Takes each question once it was asked.
    """

    def __init__(
        self,
        channel: Channel,
        knobs: Knobs,
        *,
        number: int,
        transcript: Transcript,
        on_asked: Callable[[Asked], None],
        strike: Callable[[str], None],
    ) -> None:
        self.number = number
        self.broken_off = asyncio.Event()
        self.is_gone = False
        self._channel = channel
        self._knobs = knobs
        self._transcript = transcript
        self._on_asked = on_asked
        self._strike = strike
        self._dice = random.Random(number * 7919 + knobs.dice)
        self._keys: deque[Key] = deque()
        self._news = asyncio.Event()
        self._line = ""
        self._typed = ""
        self._is_reading = False
        self._is_noise_owed = False
        self._sent_bytes = 0
        self._drop_at: tuple[int, Callable[[], None]] | None = None

    # What comes from the other side.

    def feed(self, data: bytes) -> None:
        """Take keys."""
        text = data.decode("latin-1")
        self._transcript.note(self.number, "typed", text)
        now = time.monotonic()
        for key in text:
            if key == "\x1e" and not self._is_reading:
                self.broken_off.set()
                continue
            self._keys.append(Key(key, now))
        self._news.set()

    def hang_up(self) -> None:
        """Take that the other side is gone."""
        self.is_gone = True
        self._news.set()
        self.broken_off.set()

    def drop_after(self, more_bytes: int, drop: Callable[[], None]) -> None:
        """Have the connection end after so many more bytes of output."""
        self._drop_at = (self._sent_bytes + more_bytes, drop)
        if more_bytes <= 0:
            self.show("")

    async def gone(self) -> None:
        """Wait until the other side is gone."""
        while not self.is_gone:
            self._news.clear()
            await self._news.wait()
        raise HungUp

    # What goes to the other side.

    def show(self, text: str) -> None:
        """Show text at once.

        Raises:
            HungUp: Nobody is there.
        """
        if self.is_gone:
            raise HungUp
        data = text.replace("\r\n", "\n").replace("\n", "\r\n").encode("latin-1", "replace")
        if self._drop_at is not None and self._sent_bytes + len(data) >= self._drop_at[0]:
            data = data[: max(0, self._drop_at[0] - self._sent_bytes)]
            drop, self._drop_at = self._drop_at[1], None
            self._send(data)
            drop()
            raise HungUp
        self._send(data)

    def _send(self, data: bytes) -> None:
        self._sent_bytes += len(data)
        self._transcript.note(self.number, "shown", data.decode("latin-1"))
        self._channel.write(data)

    async def say(self, text: str, *, command: str = "") -> None:
        """Show a command's output, as fast and as whole as the device is in the mood for."""
        slow = next((one for one in self._knobs.slow if command.startswith(one.command)), None)
        if slow is not None:
            self._strike("slow output")
            await self._dribble(text, piece=16, pause_s=16 / slow.bytes_per_s)
        elif self._knobs.half_lines and text:
            self._strike("half lines")
            await self._in_halves(text)
        else:
            self.show(text)

    async def _dribble(self, text: str, *, piece: int, pause_s: float) -> None:
        for start in range(0, len(text), piece):
            self.show(text[start : start + piece])
            await asyncio.sleep(pause_s)

    async def _in_halves(self, text: str) -> None:
        start = 0
        while start < len(text):
            size = self._dice.choice((1, 3, 7, 40, 200, 900))
            self.show(text[start : start + size])
            start += size
            await asyncio.sleep(self._dice.choice((0, 0, 0.01, 0.05)))

    def disturb(self, how: str, text: str) -> None:
        """Put something on the line that nobody asked for, and draw the line again below it."""
        if how == "broadcast":
            self.show(BROADCAST.format(text=text))
        else:
            self.show(f"\n{text}\n")
        if how != "bare":
            self.show(self._line + self._typed)

    # Lines and questions.

    async def read_line(self, prompt: str, *, is_echoed: bool = True) -> str | None:
        """Show a prompt and return the line that is typed; None where it was left by Ctrl-C or Ctrl-Z."""
        self._line, self._typed = prompt, ""
        self._is_noise_owed = bool(self._knobs.noisy) and self._dice.random() < _NOISE_SHARE
        self.show(prompt)
        return await self._typed_line(is_echoed=is_echoed)

    async def ask(
        self, kind: str, text: str, *, is_known: bool = True, by_key: bool = False, echo: bool = True
    ) -> Asked:
        """Ask a question, as often, as late and in as many pieces as the device is in the mood for."""
        asked = Asked(kind=kind, text=text, is_known=is_known, session=self.number)
        self._on_asked(asked)
        knobs = self._knobs
        if late_s := knobs.late_s.get(kind, 0.0):
            self._strike("late question")
            await asyncio.sleep(late_s)
        self._line, self._typed = text, ""
        if kind in knobs.in_pieces:
            self._strike("question in pieces")
            await self._dribble(text[:-2], piece=max(1, len(text) // 6), pause_s=0.05)
            self.show(text[-2:])
        else:
            self.show(text)
        seen_s = time.monotonic()
        await self._draw_again(kind, behind_answer=False)
        if kind in knobs.tailed:
            self._strike("syslog behind a question")
            await asyncio.sleep(0.02)
            self.show(f"\n{_SYSLOG}\n")
        await self._answer(asked, seen_s, by_key=by_key, echo=echo)
        await self._draw_again(kind, behind_answer=True)
        self.show("\n")
        return asked

    async def _answer(self, asked: Asked, seen_s: float, *, by_key: bool, echo: bool) -> None:
        first: Key | None = None
        typed = ""
        while True:
            key = await self._key()
            first = first or key
            if key.text in ABORTS:
                asked.answer = None
                return
            if by_key or key.text in "\r\n":
                break
            typed += key.text
            if echo:
                self.show(key.text)
        asked.was_seen = first.at_s >= seen_s
        asked.answer = key.text if by_key and key.text not in "\r\n" else typed
        if by_key and echo and asked.answer:
            self.show(asked.answer)

    async def _draw_again(self, kind: str, *, behind_answer: bool) -> None:
        for redraw in self._knobs.redraws:
            if redraw.kind == kind and redraw.is_behind_answer == behind_answer:
                self._strike("question drawn again")
                await self._redraw(redraw)

    async def _redraw(self, redraw: Redraw) -> None:
        for _ in range(redraw.times):
            await asyncio.sleep(redraw.after_s)
            text = redraw.text if redraw.how == "broadcast" else _SYSLOG
            self.disturb(redraw.how, text)

    async def _typed_line(self, *, is_echoed: bool) -> str | None:
        """Return a line; what is there already is echoed in one piece, as a device does that reads by packets."""
        while True:
            echo, end = "", ""
            while True:
                key = (await self._key()).text
                if key in "\r\n\x03\x1a":
                    end = key
                    break
                if key in "\x7f\x08":
                    self._typed = self._typed[:-1]
                elif key != "\x1e":
                    self._typed += key
                    echo += key
                if not self._keys or self._is_noise_due():
                    break
            if is_echoed and echo:
                self.show(self._echo_of(echo))
            if end:
                self.show("^Z\n" if end == "\x1a" else "\n")
                return self._typed if end in "\r\n" else None
            if self._is_noise_due():
                self._strike("syslog while typing")
                self._is_noise_owed = False
                self.disturb(self._knobs.noisy, _SYSLOG)

    def _echo_of(self, keys: str) -> str:
        """Return keys as they are echoed: a line wider than the terminal scrolls, with `$` at its left."""
        if not self._knobs.narrow or len(self._line) + len(self._typed) <= _COLUMNS:
            return keys
        self._strike("narrow terminal")
        room = _COLUMNS - len(self._line) - 1
        shown = self._typed[: -len(keys)] if len(keys) < len(self._typed) else ""
        return f"{keys[: max(0, room - len(shown))]}\r{self._line}${self._typed[-room:]}"

    def _is_noise_due(self) -> bool:
        return self._is_noise_owed and len(self._typed) >= _NOISE_AFTER_KEYS

    async def _key(self) -> Key:
        self._is_reading = True
        try:
            while not self._keys:
                if self.is_gone:
                    raise HungUp
                self._news.clear()
                await self._news.wait()
            return self._keys.popleft()
        finally:
            self._is_reading = False


_SYSLOG = "*Nov 21 14:07:31.216: %LINEPROTO-5-UPDOWN: Line protocol on Interface Vlan40, changed state to up"
