"""A run's events for programs: one JSON object per line, written by a thread of its own.

A reader may be slow, stop reading or go away; a run must not notice. So what is not written yet waits in a queue with
an end, and what no longer fits is dropped and counted. The fields are described in docs/events.md.
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
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

from flashferry.core.codec import to_json
from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import told
from flashferry.monitor.events import Event

SCHEMA = "flashferry.event/1"

STANDARD_ERROR = Path("-")
"""In place of a file: standard error, for standard output is the result's."""

QUEUED_LINES = 20_000
"""Some ten megabytes; at fifty lines a second a reader may sleep for six minutes."""

PROGRESS_LINES_PER_S = 50
"""So many lines of mere progress come in a second at most, however many devices there are."""

_CLOSE_S = 2.0
_FIELDS = tuple(field.name for field in fields(Event))

Write = Callable[[bytes], None]


@contextmanager
def event_log(target: Path, *, devices: int) -> Iterator[EventLog]:
    """Open a log for the time of a block.

    Args:
        target: A file, which is appended to, a named pipe that somebody reads, or `-` for standard error.
        devices: How many devices the run has: each tells its progress the more rarely the more there are.

    Raises:
        ConfigInvalid: It cannot be written to.
    """
    number = _opened(target)
    log = EventLog(lambda data: _write_all(number, data), progress_every_s=max(1.0, devices / PROGRESS_LINES_PER_S))
    try:
        yield log
    finally:
        # A thread that hangs in a write keeps the descriptor; it goes with the process.
        if log.close():
            os.close(number)


def event_line(event: Event, *, run_id: str, at: datetime) -> bytes:
    """Return an event as a line of JSON.

    Args:
        event: The event.
        run_id: The run's identifier; empty where it is not known yet.
        at: When it happened, with a time zone.
    """
    head = {"schema": SCHEMA, "at": at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")}
    body = told({name: to_json(getattr(event, name)) for name in _FIELDS})
    body |= {"run_id": event.run_id or run_id or None, "at_s": round(event.at_s, 3)}
    return json.dumps(head | body, separators=(",", ":")).encode() + b"\n"


class EventLog:
    """Takes events and has them written; never waits and never fails.

    Args:
        write: Writes a whole line at once; may block, and raises OSError when nobody reads any more.
        progress_every_s: How often a device's progress is told, in seconds.
        queued_lines: How many lines may wait to be written.
        wall: Seconds since 1970.
    """

    def __init__(
        self,
        write: Write,
        *,
        progress_every_s: float = 1.0,
        queued_lines: int = QUEUED_LINES,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._write = write
        self._progress_every_s = progress_every_s
        self._most = queued_lines
        self._wall = wall
        self._run_id = ""
        self._dropped = 0
        self._progress_at: dict[str | None, float] = {}
        self._waiting: deque[tuple[float, Event]] = deque()
        self._news = threading.Condition()
        self._is_closing = self._is_broken = False
        self._writer = threading.Thread(target=self._write_lines, name="event-log", daemon=True)
        self._writer.start()

    def __call__(self, event: Event) -> None:
        """Take an event; called from several threads."""
        with self._news:
            if self._is_broken or self._is_closing or self._is_too_soon(event):
                return
            if len(self._waiting) >= self._most:
                self._dropped += 1
                return
            if self._dropped:
                self._waiting.append(self._gap())
            self._waiting.append((self._wall(), event))
            self._news.notify()

    def message(self, text: str) -> None:
        """Take what is said to people, as an event."""
        self(Event(host=None, step="message", status="note", text=text, at_s=0.0))

    def close(self) -> bool:
        """Write what waits, for two seconds at most; return whether the writer has ended."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        self._writer.join(_CLOSE_S)
        return not self._writer.is_alive()

    def _is_too_soon(self, event: Event) -> bool:
        if event.status != "progress":
            return False
        now_s = self._wall()
        # Half a reading's grace: a device that tells something every second shall not lose every second word.
        if now_s - self._progress_at.get(event.host, 0.0) < self._progress_every_s - 0.5:
            return True
        self._progress_at[event.host] = now_s
        return False

    def _write_lines(self) -> None:
        while (found := self._next()) is not None:
            at_s, event = found
            self._run_id = event.run_id or self._run_id
            try:
                self._write(event_line(event, run_id=self._run_id, at=datetime.fromtimestamp(at_s, UTC)))
            except OSError:
                with self._news:
                    self._is_broken = True
                    self._waiting.clear()
                return

    def _next(self) -> tuple[float, Event] | None:
        with self._news:
            self._news.wait_for(lambda: self._waiting or self._is_closing)
            if not self._waiting and self._dropped:
                return self._gap()
            return self._waiting.popleft() if self._waiting else None

    def _gap(self) -> tuple[float, Event]:
        text = f"{self._dropped} events were dropped here, for they were not read in time"
        self._dropped = 0
        return self._wall(), Event(host=None, step="events", status="note", text=text, at_s=0.0)


def _opened(target: Path) -> int:
    if target == STANDARD_ERROR:
        return os.dup(sys.stderr.fileno())
    try:
        # Not blocking: a pipe that nobody reads is an error now, not a run that never begins.
        number = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        is_pipe = False
        with suppress(OSError):
            is_pipe = stat.S_ISFIFO(target.stat().st_mode)
        why = "nobody reads from this pipe" if is_pipe else error.strerror
        raise ConfigInvalid(
            f"--events {target}: expected a file to write to: {why}",
            hint="Start the reader first" if is_pipe else "Name a file in a folder that you may write to",
        ) from None
    os.set_blocking(number, True)
    return number


def _write_all(number: int, data: bytes) -> None:
    while data:
        data = data[os.write(number, data) :]
