"""The line discipline of a vty, byte by byte and without I/O.

Facts (measured with netmiko 4.8, and from the captures)
-----
The device echoes what is typed, literally; Enter comes as CR, LF or CR LF and is echoed as CR LF; NUL is ignored
(clients send it to see whether the session lives); nothing is echoed of a password. A line ends at a platform's limit;
what is typed beyond it is answered by the bell. At the right margin the line moves ten characters to the left, with `$`
for what is hidden (Cisco IOS Configuration Fundamentals); the bytes and the margin of three columns are those of the
session of ktbyers/netmiko issue 160.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

_BELL = b"\a"
_RUBOUT = b"\b \b"


class Ended(Enum):
    """Why a line ended."""

    ENTER = "enter"
    CANCEL = "cancel"  # Ctrl-C
    CTRL_Z = "ctrl-z"
    HELP = "help"  # a question mark
    LOGOUT = "logout"  # Ctrl-D on an empty line
    COMPLETE = "complete"  # Tab
    REDRAW = "redraw"  # Ctrl-R


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one byte did: what to echo, and the reason if it ended the line."""

    echo: bytes = b""
    ended: Ended | None = None


class History:
    """The lines that were typed, the latest last, as many as are kept (`terminal history size`)."""

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Take a line that is not empty."""
        if line.strip():
            self.lines.append(line)
            self.keep(self.size)

    def keep(self, size: int) -> None:
        """Hold so many from now on."""
        self.size = size
        del self.lines[: max(0, len(self.lines) - size)]


_LETTERS = {  # the control keys of Cisco IOS Configuration Fundamentals that move the cursor, erase and recall
    0x08: "rubout", 0x7F: "rubout", 0x01: "home", 0x05: "end", 0x02: "left", 0x06: "right", 0x0B: "kill to end",
    0x15: "kill to start", 0x18: "kill to start", 0x17: "kill word", 0x10: "up", 0x0E: "down", 0x04: "delete",
}  # fmt: skip
_ESCAPED = {0x44: "left", 0x43: "right", 0x41: "up", 0x42: "down", 0x48: "home", 0x46: "end"}
_META = {0x62: "word left", 0x66: "word right", 0x64: "kill next word"}


class LineEditor:
    """Collects one line of at most `longest` characters, `columns` wide on the screen (0: no limit).

    With `takes_help` a question mark asks for help, and Tab for the rest of a word, instead of being typed. `start` is
    what the line holds already, `history` what the cursor keys recall.
    """

    def __init__(
        self, *, echo: bool = True, longest: int = 254, start: str = "", takes_help: bool = False,
        history: tuple[str, ...] = (), columns: int = 0,
    ) -> None:  # fmt: skip
        self.text = start
        self._at = len(start)
        self._columns = columns
        self._hidden = _hidden(0, len(start), columns)
        self._echo = echo
        self._longest = longest
        self._takes_help = takes_help
        self._escape = b""
        self._history = (*history, "")
        self._recalled = len(history)

    @property
    def shown(self) -> str:
        """The part of the line that fits."""
        if not self._columns:
            return self.text
        part = self.text[self._hidden : self._hidden + self._columns]
        return f"${part[1:]}" if self._hidden else part

    def feed(self, byte: int) -> Step:
        """Take one byte."""
        if self._escape:
            return self._in_escape(byte)
        if byte in (0x0D, 0x0A):
            return Step(echo=b"\r\n", ended=Ended.ENTER)
        if byte == 0x3F and self._takes_help:
            return Step(echo=b"?\r\n", ended=Ended.HELP)
        if 0x20 <= byte < 0x7F or byte >= 0x80:
            return self._typed(byte)
        return self._control(byte)

    def _typed(self, byte: int) -> Step:
        if len(self.text) >= self._longest:
            return Step(echo=_BELL)
        return self._show(self.text[: self._at] + chr(byte) + self.text[self._at :], self._at + 1)

    def _control(self, byte: int) -> Step:
        if byte == 0x03:
            return Step(echo=b"\r\n", ended=Ended.CANCEL)
        if byte == 0x1A:
            return Step(echo=b"^Z\r\n", ended=Ended.CTRL_Z)
        if byte == 0x04 and not self.text:
            return Step(ended=Ended.LOGOUT)
        if byte == 0x09 and self._takes_help and self.text.strip():
            return Step(echo=b"\r\n", ended=Ended.COMPLETE)
        if byte in (0x12, 0x0C) and self._takes_help:
            return Step(echo=b"\r\n", ended=Ended.REDRAW)
        if byte == 0x1B:
            self._escape = b"\x1b"
        return self._edit(_LETTERS.get(byte, ""))

    def _in_escape(self, byte: int) -> Step:
        """Read a cursor key (ESC [ letter, or ESC O letter), or a letter with Meta."""
        if self._escape == b"\x1b" and byte in b"[O":
            self._escape += bytes([byte])
            return Step()
        action = _META.get(byte, "") if self._escape == b"\x1b" else _ESCAPED.get(byte, "")
        if len(self._escape) == 1 or 0x40 <= byte <= 0x7E:
            self._escape = b""
        return self._edit(action)

    def _edit(self, action: str) -> Step:
        text, at = self.text, self._at
        before, after = text[:at], text[at:]
        word, next_word = before.rstrip().rpartition(" ")[0], after.lstrip().partition(" ")[0]
        following = at + len(after) - len(after.lstrip()) + len(next_word)
        match action:
            case "rubout":
                return self._show(before[:-1] + after, max(0, at - 1))
            case "delete":
                return self._show(before + after[1:], at)
            case "kill to end":
                return self._show(before, at)
            case "kill to start":
                return self._show(after, 0)
            case "kill word":
                return self._show(word + after, len(word))
            case "kill next word":
                return self._show(before + text[following:], at)
            case "left" | "right" | "home" | "end" | "word left" | "word right":
                to = {"left": at - 1, "right": at + 1, "home": 0, "end": len(text), "word left": len(word) + bool(word),
                      "word right": following}  # fmt: skip
                return self._show(text, min(len(text), max(0, to[action])))
            case "up" | "down":
                return self._recall(self._recalled + (1 if action == "down" else -1))
        return Step()

    def _recall(self, number: int) -> Step:
        if not 0 <= number < len(self._history):
            return Step()
        self._recalled = number
        return self._show(self._history[number], len(self._history[number]))

    def _show(self, text: str, at: int) -> Step:
        """Make the line another, and return what turns the shown one into it: back to where they differ, and on."""
        old, old_at = self.shown, self._at - self._hidden
        self.text, self._at = text, at
        if not self._echo:
            return Step()
        self._hidden = _hidden(self._hidden, at, self._columns)
        text, at = self.shown, at - self._hidden
        same = next((i for i, (one, other) in enumerate(zip(old, text, strict=False)) if one != other), None)
        same = min(len(old), len(text)) if same is None else same
        if old == text:
            return Step(echo=b"\b" * (old_at - at) + text[old_at:at].encode("latin-1"))
        if same == len(text) == at and old_at == len(old):
            return Step(echo=_RUBOUT * (len(old) - len(text)))
        same = min(same, at, old_at)
        rest = text[same:].encode("latin-1") + b" " * max(0, len(old) - len(text))
        back = max(len(old), len(text)) - at
        return Step(echo=b"\b" * (old_at - same) + rest + b"\b" * back)


def _hidden(hidden: int, at: int, columns: int) -> int:
    """Return how many characters are hidden on the left once the cursor is somewhere: it moves the line by tens."""
    while columns and at - hidden > columns:
        hidden += _SHIFT
    while hidden and at <= hidden:
        hidden -= _SHIFT
    return hidden


_SHIFT = 10
_MARGIN = 3


def line_columns(columns: int, prompt: str) -> int:
    """Return the columns for a line after a prompt on a terminal of so many columns; 0 for a width without limit."""
    return max(2 * _SHIFT, columns - _MARGIN - len(prompt)) if columns else 0


_ESCAPE_KEY = 0x1E  # Ctrl-Shift-6, the default escape character
_GARBLED_EVERY = 7  # a garbled echo loses each seventh character


class DisconnectedError(Exception):
    """The other side of the vty is gone."""


class Channel(Protocol):
    """What a terminal needs of its SSH channel."""

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""

    def write(self, data: bytes) -> None:
        """Send bytes."""

    def abort(self) -> None:
        """Cut the connection."""


class Terminal:
    """Keys from a channel, buffered while a command runs, and text to it."""

    def __init__(self, channel: Channel, *, longest_line: int) -> None:
        self._channel = channel
        self._longest_line = longest_line
        self._keys: deque[int] = deque()
        self._arrived = asyncio.Event()
        self._last_was_cr = False
        self.closed = asyncio.Event()
        self.idle_s: float | None = None
        self.garbles = False
        self.on_escape: Callable[[], None] | None = None

    async def pump(self) -> None:
        """Move bytes from the channel to the buffer until it ends."""
        while data := await self._channel.read():
            for byte in data:
                self._take(byte)
            self._arrived.set()
        self.closed.set()
        self._arrived.set()

    def write(self, text: str) -> None:
        """Send text; its line ends become CR LF."""
        self.write_bytes(text.replace("\n", "\r\n").encode("latin-1", "replace"))

    def write_bytes(self, data: bytes) -> None:
        """Send bytes as they are; a channel that is gone takes them silently."""
        with contextlib.suppress(OSError):
            self._channel.write(data)

    def abort(self) -> None:
        """Cut the connection, as a fault."""
        self._channel.abort()
        self.closed.set()
        self._arrived.set()

    async def key(self) -> int:
        """Return the next key.

        Raises DisconnectedError: there is none and there will be none, or none came for `idle_s`.
        """
        while not self._keys:
            if self.closed.is_set():
                raise DisconnectedError
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), self.idle_s)
            except TimeoutError:
                raise DisconnectedError from None
        return self._keys.popleft()

    async def line(
        self, *, echo: bool = True, start: str = "", takes_help: bool = False, history: tuple[str, ...] = (),
        columns: int = 0,
    ) -> tuple[str, Ended]:  # fmt: skip
        """Read a line, of which `start` is shown, and return how it ended."""
        editor = LineEditor(
            echo=echo, longest=self._longest_line, start=start, takes_help=takes_help, history=history, columns=columns
        )  # fmt: skip
        self.write(editor.shown)
        while True:
            step = editor.feed(await self.key())
            if step.echo and not (self.garbles and step.ended is None and len(editor.text) % _GARBLED_EVERY == 0):
                self.write_bytes(step.echo)
            if step.ended is not None:
                return editor.text, step.ended

    async def ask(self, question: str, default: str) -> str:
        """Ask a question that is answered by a line; Enter means the default."""
        self.write(question)
        answer, ended = await self.line()
        return default if ended is not Ended.ENTER or not answer.strip() else answer.strip()

    async def confirm(self, question: str) -> bool:
        """Ask a question that is answered by one key: Enter or y is yes, anything else is no (captures)."""
        self.write(f"{question}[confirm]")
        key = await self.key()
        shown = bytes([key]) if 0x20 <= key < 0x7F else b""
        self.write_bytes(shown + b"\r\n")
        return key in b"\r\nyY"

    def _take(self, byte: int) -> None:
        """Buffer a byte; NUL is ignored and CR LF is one key."""
        was_cr, self._last_was_cr = self._last_was_cr, byte == 0x0D
        if byte == 0 or (byte == 0x0A and was_cr):
            return
        if byte == _ESCAPE_KEY:
            if self.on_escape is not None:
                self.on_escape()
            return
        self._keys.append(byte)


MARK = " --More-- "
_ERASE_MARK = "\b" * 9 + " " * 8 + "\b" * 9
"""Back to the second column, over the mark, and back to the first: as IOS sends it (public session logs)."""


async def page(terminal: Terminal, text: str, rows: int) -> None:
    """Write a text, a screen of ``rows`` lines at a time; 0 rows means without pauses."""
    lines = text.splitlines(keepends=True)
    if rows <= 0 or len(lines) < rows:
        terminal.write(text)
        return
    due, at = rows - 1, 0
    while True:
        terminal.write("".join(lines[at : at + due]))
        at += due
        if at >= len(lines):
            return
        terminal.write(MARK)
        key = await terminal.key()
        if key == 0x2F:  # a slash: on from the first line that matches
            terminal.write("\b" * 10 + "/")
            sought, _ended = await terminal.line()
            at = next((i for i in range(at, len(lines)) if sought in lines[i]), len(lines))
            terminal.write("filtering...\n")
            due = rows - 1
            continue
        terminal.write(_ERASE_MARK)
        if key not in b" \r\n":
            return
        due = rows - 1 if key == 0x20 else 1
