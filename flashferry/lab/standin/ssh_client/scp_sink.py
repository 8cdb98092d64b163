"""The sink of SCP without sockets: what ``scp -f`` sends in, what a device answers out.

Facts (OpenSSH scp.c, source() and sink())
-----
The sink begins with a zero byte. The source sends ``C<mode> <size> <name>`` and a line end; after a zero byte in
answer it sends so many bytes and a zero byte; the sink's zero byte in answer to that says that it has the file. ``T``
lines carry times and are answered by a zero byte. In place of any of them a byte of 1 (warning) or 2 (fatal) and a line
of text say what is wrong, in both directions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

OK = b"\0"
_HEADER = re.compile(r"C([0-7]{3,5}) (\d{1,19}) ([^/\0]+)")
_LONGEST_LINE_BYTES = 4096


class ScpProtocolError(Exception):
    """The source said something that is not SCP."""


class ScpRemoteError(Exception):
    """The source said what is wrong on its side; ``is_late``: after the file had started."""

    def __init__(self, text: str, *, is_late: bool) -> None:
        super().__init__(text)
        self.is_late = is_late


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpHeader:
    """What the source announces: its line as it stands, and what that says."""

    line: str
    size_bytes: int
    name: str


class SinkEvents(Protocol):
    """What the sink reports and asks; all are called from `ScpSink.feed`."""

    def begin(self, header: ScpHeader) -> None:
        """Make ready for the file; raise to refuse it."""

    def write(self, chunk: bytes) -> None:
        """Take a piece of it."""

    def end(self) -> bytes:
        """Finish the file and return the last answer: `OK`, or `refusal` with a text."""


def refusal(text: str) -> bytes:
    """Return the answer of a sink that does not take a file, or has lost it."""
    return b"\1" + text.encode() + b"\n"


class ScpSink:
    """Takes one file.

    Args:
        answer: Sends bytes to the source.
        events: Receives what comes.
    """

    def __init__(self, answer: Callable[[bytes], None], events: SinkEvents) -> None:
        self._answer = answer
        self._events = events
        self._line = b""
        self._left: int | None = None
        self.is_done = False

    def start(self) -> None:
        """Say that the sink is ready."""
        self._answer(OK)

    def refuse(self, text: str) -> None:
        """Say that the file is not taken."""
        self._answer(refusal(text))

    def feed(self, data: bytes) -> None:
        """Take what came.

        Raises:
            ScpProtocolError: It is not SCP.
            ScpRemoteError: The source has an error of its own.
        """
        while data:
            if self._left is None:
                data = self._header(data)
            elif self._left:
                chunk, data = data[: self._left], data[self._left :]
                self._left -= len(chunk)
                self._events.write(chunk)
            else:
                data = self._status(data)

    def _header(self, data: bytes) -> bytes:
        line, end, rest = data.partition(b"\n")
        self._line += line
        if len(self._line) > _LONGEST_LINE_BYTES:
            raise ScpProtocolError("a line is too long")
        if not end:
            return b""
        text, self._line = self._line.decode("latin-1"), b""
        if self.is_done:
            return rest
        if text[:1] in {"\1", "\2"}:
            raise ScpRemoteError(text[1:], is_late=False)
        if text[:1] == "T":
            self._answer(OK)
            return rest
        found = _HEADER.fullmatch(text)
        if found is None:
            raise ScpProtocolError("a file's line was expected")
        self._events.begin(ScpHeader(line=text, size_bytes=int(found[2]), name=found[3]))
        self._left = int(found[2])
        self._answer(OK)
        return rest

    def _status(self, data: bytes) -> bytes:
        """Take the byte behind the file: zero says that all of it was read at the source."""
        if data[:1] != OK:
            raise ScpRemoteError(data[1:].decode("latin-1").strip(), is_late=True)
        self._left = None
        self.is_done = True
        self._answer(self._events.end())
        return data[1:]
