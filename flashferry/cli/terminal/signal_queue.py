"""What threads put in and the main thread takes out; a signal wakes it too, whichever thread the kernel gives it to.

Facts
-----

- Python runs signal handlers in the main thread alone, between two of its instructions. A main thread that waits for a
  lock (`SimpleQueue.get` with a time-out does) learns of a signal that another thread was given only when the wait is
  over, and 4 of 240 SIGTERM were not acted upon at all.
- `signal.set_wakeup_fd` has the handler in C write to a descriptor at once, whichever thread runs it. A wait for that
  descriptor ends, and the handler in Python runs before the next instruction.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class SignalQueue(Generic[T]):
    """Entered and read by the main thread; all threads can put in."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._lock = threading.Lock()
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = -1

    def __enter__(self) -> Self:
        self._before = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.set_wakeup_fd(self._before)
        with self._lock:
            os.close(self._in)
            os.close(self._out)
            self._in = self._out = -1

    def put(self, item: T) -> None:
        """Put something in; the reader wakes. Nothing comes of it once the box is closed."""
        with self._lock:
            if self._in == -1:
                return
            self._items.append(item)
            if len(self._items) == 1:
                with suppress(BlockingIOError):  # full of signals: it wakes all the same
                    os.write(self._in, b"i")

    def take(self, timeout_s: float) -> list[T]:
        """Return all that was put in since, in order; wait for the first, or a signal, for at most `timeout_s`."""
        if not self._items:
            select.select([self._out], [], [], timeout_s)
        with self._lock:
            with suppress(BlockingIOError):
                while os.read(self._out, 4096):
                    pass
            found, self._items = list(self._items), deque()
        return found
