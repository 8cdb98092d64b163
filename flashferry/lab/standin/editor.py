"""The line discipline of a vty, byte by byte and without I/O.

Facts (measured with netmiko 4.8, and from the captures)
-----
The device echoes what is typed, literally and unwrapped; Enter comes as CR, LF or CR LF and is echoed as
CR LF; NUL is ignored (clients send it to see whether the session lives); nothing is echoed of a password.
A line ends at a platform's limit; what is typed beyond it is answered by the bell.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

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
