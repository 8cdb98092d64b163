"""The two ends of a vty: keys in, text out."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin.editor import Ended, LineEditor

if TYPE_CHECKING:
    from collections.abc import Callable

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
