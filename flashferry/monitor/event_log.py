"""Write a run's events as JSON lines for programs, in a thread of its own. Fields: docs/events.md.

A reader that is slow, stops or disappears must not disturb the run: lines wait in a bounded queue, and further ones are
dropped and counted. Lines for a regular file are never dropped; while the disk is full they wait.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import redact_json
from flashferry.core.values import field_names
from flashferry.monitor.events import Event

SCHEMA = "flashferry.event/1"

STANDARD_ERROR = Path("-")
"""Instead of a file: standard error, because standard output has the result."""

QUEUED_LINES = 20_000
"""About ten megabytes, or six minutes at fifty lines a second."""

PROGRESS_LINES_PER_S = 50
"""Limit of progress lines per second, for any number of devices."""

_CLOSE_S = 2.0
_AGAIN_S = 1.0
"""Pause after a failed write to a file."""
_FIELDS = tuple(field_names(Event))

Write = Callable[[bytes], None]


@contextmanager
def event_log(target: Path, *, devices: int) -> Iterator[EventLog]:
    """Open a log while the block runs.

    Args:
        target: A file to append to, a named pipe with a reader, or `-` for standard error.
        devices: Number of devices; the more, the fewer progress events per device.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    number = _opened(target)
    is_file = stat.S_ISREG(os.fstat(number).st_mode)
    lines = _Lines(number, is_incomplete=is_file and _ends_within_a_line(target))
    log = EventLog(
        lines.write,
        progress_every_s=max(1.0, devices / PROGRESS_LINES_PER_S),
        queued_lines=None if is_file else QUEUED_LINES,
    )
    try:
        yield log
    finally:
        # A thread that hangs in a write keeps the descriptor until the process ends.
        if log.close():
            os.close(number)


def event_line(event: Event, *, run_id: str, at: datetime, seq: int = 1) -> bytes:
    """Return an event as a line of JSON.

    Args:
        event: The event.
        seq: Its number in this process, from 1.
        run_id: Empty if not known yet.
        at: Its time, with time zone.
    """
    head = {"schema": SCHEMA, "at": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    body = redact_json({name: to_json(getattr(event, name)) for name in _FIELDS})
    body |= {"run_id": event.run_id or run_id or None, "at_s": round(event.at_s, 3), "seq": seq}
    return json.dumps(head | body, separators=(",", ":")).encode() + b"\n"


class EventLog:
    """Queues events for the writer thread; never blocks and never fails.

    Args:
        write: Writes a whole line; may block; raises OSError if there is no reader any more.
        progress_every_s: Interval of a device's progress lines, in seconds.
        queued_lines: Length of the queue; None: unlimited, and failed writes are repeated.
        wall: Wall clock, seconds since 1970.
    """

    def __init__(
        self,
        write: Write,
        *,
        progress_every_s: float = 1.0,
        queued_lines: int | None = QUEUED_LINES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._progress_every_s = progress_every_s
        self._most = queued_lines
        self._wall = wall
        self._run_id = ""
        self._dropped = 0
        self._progress_at: dict[str | None, float] = {}
        self._seq = 0
        self._waiting: deque[tuple[float, int, Event]] = deque()
        self._news = threading.Condition()
        self._is_closing = self._is_broken = False
        self._writer = threading.Thread(target=self._write_lines, name="event-log", daemon=True)
        self._writer.start()

    def __call__(self, event: Event) -> None:
        """Queue an event; called from several threads."""
        with self._news:
            if self._is_broken or self._is_closing or self._is_too_soon(event):
                return
            if self._most is not None and len(self._waiting) >= self._most:
                self._dropped += 1
                # Readers notice the gap in the numbers.
                self._seq += 1
                return
            if self._dropped:
                self._waiting.append(self._gap())
            self._waiting.append(self._numbered(event))
            self._news.notify()

    def message(self, text: str) -> None:
        """Queue a message to the user as an event."""
        self(Event(host=None, step="message", status="note", text=text, at_s=0.0))

    def close(self) -> bool:
        """Write the queue for at most 2 s; return whether the writer has ended."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._writer.join(_CLOSE_S)
        return not self._writer.is_alive()

    def _is_too_soon(self, event: Event) -> bool:
        if event.status != "progress":
            return False
        now_s = self._wall()
        # Tolerance of half an interval: a device with an event every second must not lose every second one.
        if now_s - self._progress_at.get(event.host, 0.0) < self._progress_every_s - 0.5:
            return True
        self._progress_at[event.host] = now_s
        return False

    def _write_lines(self) -> None:
        while (found := self._next()) is not None:
            at_s, seq, event = found
            self._run_id = event.run_id or self._run_id
            line = event_line(event, run_id=self._run_id, at=datetime.fromtimestamp(at_s, UTC), seq=seq)
            if not self._is_written(line):
                with self._news:
                    self._is_broken = True
                    self._waiting.clear()
                return

    def _is_written(self, line: bytes) -> bool:
        """Write a line; if none may be lost, repeat until it is written. The process does not wait for that."""
        while True:
            try:
                self._write(line)
            except OSError:
                if self._most is not None:
                    return False
                time.sleep(_AGAIN_S)
                # The writer keeps the unwritten rest.
                line = b""
            else:
                return True

    def _numbered(self, event: Event) -> tuple[float, int, Event]:
        self._seq += 1
        return self._wall(), self._seq, event

    def _next(self) -> tuple[float, int, Event] | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closing)
            if not self._waiting and self._dropped:
                return self._gap()
            return self._waiting.popleft() if self._waiting else None

    def _gap(self) -> tuple[float, int, Event]:
        text = f"{self._dropped} events were dropped here, for they were not read in time"
        self._dropped = 0
        return self._numbered(Event(host=None, step="events", status="note", text=text, at_s=0.0))


def _opened(target: Path) -> int:
    if target == STANDARD_ERROR:
        return os.dup(sys.stderr.fileno())
    try:
        # Not blocking: a pipe without a reader must be an error, not a run that never starts.
        number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        is_pipe = False
        with suppress(OSError):
            is_pipe = stat.S_ISFIFO(target.stat().st_mode)
        why = "no process reads from this pipe" if is_pipe else error.strerror
        raise ConfigInvalid(
            f"--events {target}: expected a file to write to: {why}",
            hint="Start the reader first" if is_pipe else "Name a file in a folder that you may write to",
        ) from None
    os.set_blocking(number, True)
    return number


class _Lines:
    """Writes whole lines, and completes a line that a full disk cut."""

    def __init__(self, number: int, *, is_incomplete: bool) -> None:
        self._number = number
        self._left = b"\n" if is_incomplete else b""

    def write(self, data: bytes) -> None:
        """Write the rest of earlier lines, then these bytes.

        Raises:
            OSError: Not everything was written; the rest is kept.
        """
        self._left += data
        while self._left:
            self._left = self._left[os.write(self._number, self._left) :]


def _ends_within_a_line(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return False
            file.seek(-1, os.SEEK_END)
            return file.read(1) != b"\n"
    except OSError:
        return False
