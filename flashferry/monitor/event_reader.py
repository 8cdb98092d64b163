"""A run's events as another process wrote them: whole lines of a file that grows, from any byte on, and as values.

Half a line is never handed out: its writer is still at it, or died in it. What is no line of ours is passed over, as
docs/events.md asks of readers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashferry.core.files import reading
from flashferry.monitor.events import Event

READ_BYTES = 1 << 20
"""So much is read at once; a line is some hundred bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenEvent(Event):
    """An event as it stands in a file.

    Attributes:
        at: Time of the event, ISO 8601, UTC.
    """

    at: str


_DECODER = msgspec.json.Decoder(WrittenEvent)


def event_of(line: bytes) -> WrittenEvent | None:
    """Return the event of a line, or None where it is no line of ours."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Whole lines of a file.

    Attributes:
        data: They, each with its end; empty where no whole one is there.
        start: Offset of the first byte.
        mark: Which file it is: another one under the same name has another.
    """

    data: bytes
    start: int
    mark: str

    @property
    def end(self) -> int:
        """Offset behind the last line: where the next one begins."""
        return self.start + len(self.data)

    def each(self) -> Iterator[tuple[bytes, int]]:
        """Yield each line, without its end, and the offset behind it."""
        at = self.start
        for line in self.data.split(b"\n")[:-1]:
            at += len(line) + 1
            yield line, at


def lines_from(path: Path, offset: int, *, mark: str = "", most_bytes: int = READ_BYTES) -> Lines:
    """Return whole lines of a file from an offset on.

    Args:
        path: The file; where it is not there, there are no lines.
        offset: Where to begin. In the middle of a line, that line is handed out whole; behind the end, nothing is.
            Negative: so far before the end, at the next beginning of a line.
        mark: The file that is meant; where another one has its name now, its lines are handed out from its beginning.
            Empty: whichever is there.
        most_bytes: So much is read at most; a longer line is waited for no longer than it takes to read it whole.

    Raises:
        OSError: It is there and cannot be read, or is no regular file.
    """
    try:
        with reading(path) as file:
            found = os.fstat(file.fileno())
            its_mark = f"{found.st_dev:x}.{found.st_ino:x}"
            if mark not in ("", its_mark):
                offset = 0
            start = _line_start(file.fileno(), offset, found.st_size)
            return Lines(data=_whole(file.fileno(), start, most_bytes), start=start, mark=its_mark)
    except FileNotFoundError:
        return Lines(data=b"", start=max(0, offset), mark="")


def _line_start(number: int, offset: int, size: int) -> int:
    """Return where a line begins: at the offset, or before it; for one from the end, behind it."""
    if offset < 0:
        most = size + offset
        if most <= 0:
            return 0
        found = os.pread(number, READ_BYTES, most - 1).find(b"\n")
        return _line_start(number, size, size) if found < 0 else most + found
    at = min(offset, size)
    while at > 0:
        start = max(0, at - READ_BYTES)
        found = os.pread(number, at - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        at = start
    return 0


def _whole(number: int, start: int, most_bytes: int) -> bytes:
    data = b""
    while True:
        more = os.pread(number, most_bytes, start + len(data))
        data += more
        end = data.rfind(b"\n") + 1
        if end or len(more) < most_bytes:
            return data[:end]
