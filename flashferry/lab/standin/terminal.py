"""The line discipline of a vty, byte by byte and without I/O.

Facts (measured with netmiko 4.8, and from the captures)
-----
The device echoes what is typed, literally and unwrapped; Enter comes as CR, LF or CR LF and is echoed as
CR LF; NUL is ignored (clients send it to see whether the session lives); nothing is echoed of a password.
A line ends at a platform's limit; what is typed beyond it is answered by the bell.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one byte did: what to echo, and the reason if it ended the line."""

    echo: bytes = b""
    ended: Ended | None = None


class LineEditor:
    """Collects one line.

    Args:
        echo: Whether what is typed is shown.
        longest: Most characters of a line.
        start: What the line holds already (after help was shown).
        takes_help: Whether a question mark asks for help instead of being typed.
    """

    def __init__(self, *, echo: bool = True, longest: int = 254, start: str = "", takes_help: bool = False) -> None:
        self.text = start
        self._echo = echo
        self._longest = longest
        self._takes_help = takes_help
        self._escape = 0

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
        self.text += chr(byte)
        return Step(echo=bytes([byte]) if self._echo else b"")

    def _control(self, byte: int) -> Step:
        if byte in (0x08, 0x7F):
            return self._erase(1)
        if byte == 0x15:  # Ctrl-U
            return self._erase(len(self.text))
        if byte == 0x17:  # Ctrl-W
            return self._erase(len(self.text) - len(self.text.rstrip().rpartition(" ")[0]))
        if byte == 0x03:
            return Step(echo=b"\r\n", ended=Ended.CANCEL)
        if byte == 0x1A:
            return Step(echo=b"^Z\r\n", ended=Ended.CTRL_Z)
        if byte == 0x04 and not self.text:
            return Step(ended=Ended.LOGOUT)
        if byte == 0x1B:
            self._escape = 1
        return Step()

    def _erase(self, count: int) -> Step:
        count = min(count, len(self.text))
        self.text = self.text[: len(self.text) - count]
        return Step(echo=_RUBOUT * count if self._echo else b"")

    def _in_escape(self, byte: int) -> Step:
        """Swallow a cursor key (ESC [ letter): there is no editing inside a line yet."""
        self._escape = 2 if self._escape == 1 and byte in b"[O" else 0
        if not self._escape or (0x40 <= byte <= 0x7E and byte not in b"[O"):
            self._escape = 0
        return Step()


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

    async def line(self, *, echo: bool = True, start: str = "", takes_help: bool = False) -> tuple[str, Ended]:
        """Read a line and say how it ended."""
        editor = LineEditor(echo=echo, longest=self._longest_line, start=start, takes_help=takes_help)
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
        terminal.write(_ERASE_MARK)
        if key not in b" \r\n":
            return
        due = rows - 1 if key == 0x20 else 1
