"""Output that never blocks: a full disk, or a pipe that is closed or not read, does not stop a copy.

Facts
-----

- Writing to a pipe or terminal that is not read blocks once its buffer (64 kB) is full. O_NONBLOCK would change the
  terminal for the user's shell as well, so a separate thread writes.
- The thread writes to the descriptor: a thread blocked inside a Python file object holds that object's lock, and the
  interpreter could not exit.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from flashferry.cli.terminal.output import say

MOST_QUEUED_BYTES = 1 << 20
"""About ten seconds of four hundred copies' progress."""

UNREAD_AFTER_S = 5.0
"""Output blocked for longer counts as not being read."""

FLUSH_S = 2.0
_GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO})


class NonblockingStream(io.RawIOBase):
    """File object for a descriptor; a thread does the writing.

    Args:
        descriptor: The descriptor to write to.
        name: Name of the stream in notices.
        report: Receives a notice when output is first lost, and when it is written again.

    Attributes:
        is_whole: Whether everything was written, or the reader closed the pipe.
    """

    def __init__(self, descriptor: int, name: str, report: Callable[[str], None]) -> None:
        self.is_whole = True
        self._descriptor, self._name, self._report = descriptor, name, report
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._is_over = self._is_gone = self._is_reported = False
        self._lost = 0
        self._is_mid_line = False
        self._busy_since_s: float | None = None
        self._writer = threading.Thread(target=self._run, name=f"sink-{descriptor}", daemon=True)
        self._writer.start()

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the descriptor is a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        """Queue a piece of output; never blocks or fails."""
        piece = bytes(data)
        with self._changed:
            if not self._is_gone and self._queued_bytes + len(piece) <= MOST_QUEUED_BYTES:
                self._queue.append(piece)
                self._queued_bytes += len(piece)
                self._changed.notify_all()
            elif not self._is_gone:
                self._lose()
            is_unread = self._busy_since_s is not None and time.monotonic() - self._busy_since_s > UNREAD_AFTER_S
        if is_unread:
            self._report_once("it is not read")
        return len(piece)

    def finish(self) -> None:
        """Write what is queued, for at most two seconds."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: not self._writer.is_alive() or self._is_written(), FLUSH_S)
            if not done:
                self._lose(len(self._queue) + 1)
        if not done:
            self._report_once("it is not read")
        if done:
            self._writer.join(FLUSH_S)

    def _is_written(self) -> bool:
        return not self._queue and self._busy_since_s is None

    def _lose(self, pieces: int = 1) -> None:
        self._lost += pieces
        self.is_whole = False

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._is_over)
                if not self._queue:
                    return
                piece = b"".join(self._queue)
                self._queue.clear()
                self._queued_bytes = 0
                self._busy_since_s = time.monotonic()
            self._write_out(piece)
            with self._changed:
                self._busy_since_s = None
                self._changed.notify_all()

    def _write_out(self, piece: bytes) -> None:
        rest = memoryview(b"\n" + piece if self._is_mid_line and self._lost else piece)
        try:
            while rest:
                count = os.write(self._descriptor, rest)
                self._is_mid_line = rest[count - 1] != ord("\n")
                rest = rest[count:]
        except OSError as error:
            self._failed(error)
            return
        if self._is_reported:
            self._is_reported = False
            self._report(f"{self._name} is written again; what came in between is left out")

    def _failed(self, error: OSError) -> None:
        with self._changed:
            if error.errno in _GONE:
                self._is_gone = True
                self._queue.clear()
            else:
                self._lose()
        self._report_once(error.strerror or "it cannot be written")

    def _report_once(self, why: str) -> None:
        with self._changed:
            was_reported, self._is_reported = self._is_reported, True
        if not was_reported:
            self._report(f"{self._name}: {why}; copies go on, what is not written is left out")


@contextmanager
def nonblocking_streams() -> Iterator[Callable[[], bool]]:
    """Within the block, write standard output and error by threads.

    Yields:
        A function that returns whether standard output was written completely, or its reader closed the pipe.
    """
    before = sys.stdout, sys.stderr
    for stream in before:
        with suppress(OSError):
            stream.flush()
    # The terminal is closed; there is nowhere else to report to.
    error = NonblockingStream(2, "standard error", lambda _: None)
    output = NonblockingStream(1, "standard output", say)
    sys.stdout, sys.stderr = _text(output, before[0]), _text(error, before[1])
    try:
        yield lambda: output.is_whole
    finally:
        for stream, sink in ((sys.stdout, output), (sys.stderr, error)):
            stream.flush()
            sink.finish()
        sys.stdout, sys.stderr = before


def _text(sink: NonblockingStream, like: TextIO) -> io.TextIOWrapper:
    # Keep the error handler: `strict` would raise during a copy.
    errors = like.errors if like.errors not in {None, "strict"} else "backslashreplace"
    return io.TextIOWrapper(sink, encoding=like.encoding, errors=errors, line_buffering=True)  # type: ignore[arg-type]
