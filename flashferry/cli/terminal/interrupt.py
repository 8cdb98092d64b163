"""Signal handling: the first Ctrl-C stops the run in order, and wakes a waiting queue reader."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Generic, Self, TypeVar

from flashferry.cli.terminal.output import report_to_programs, say
from flashferry.model.exit_codes import ExitCode

T = TypeVar("T")


class SignalQueue(Generic[T]):
    """Queue that the main thread reads and any thread fills; a signal wakes the reader."""

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
        """Add an item and wake the reader. Ignored once the queue is closed."""
        with self._lock:
            if self._in == -1:
                return
            self._items.append(item)
            if len(self._items) == 1:
                with suppress(BlockingIOError):  # full of signals: it wakes all the same
                    os.write(self._in, b"i")

    def take(self, timeout_s: float) -> list[T]:
        """Return all new items in order; wait at most `timeout_s` for the first one or a signal."""
        if not self._items:
            select.select([self._out], [], [], timeout_s)
        with self._lock:
            with suppress(BlockingIOError):
                while os.read(self._out, 4096):
                    pass
            found, self._items = list(self._items), deque()
        return found


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, stop by a service manager, and a closed terminal."""

_NUMBERS = frozenset(SIGNALS)

_NUDGE = signal.SIGURG
"""Signal that wakes the main thread; ignored by default, and not sent by anything else."""

_NUDGES_AFTER_S = (0.05, 0.25, 1.0)
"""Several, since on a busy host the main thread may not be waiting yet."""


@contextmanager
def graceful_interrupt(say: Callable[[str], None] = say) -> Iterator[threading.Event]:
    """Within the block, turn SIGNALS into an event, and print what happens now.

    Args:
        say: Prints a line; with a live view it must print above that.
    """
    stop = threading.Event()

    def announce(first: bool) -> None:
        say(
            "interrupted: ending what is under way and restoring every device"
            if first
            else "still restoring; if this process is killed, run 'flashferry recover'"
        )

    with stop_on_signals(stop, announce):
        yield stop


@contextmanager
def reading_only(verb: str) -> Iterator[threading.Event]:
    """Within a block that changes nothing, turn SIGNALS into an event; the second signal ends the process.

    Threads may wait for devices that do not answer, so the process could not exit otherwise.

    Args:
        verb: What is being done, with its article: `a check`.
    """

    def announce(first: bool) -> None:
        if first:
            say(f"interrupted: ending what is under way; {verb} changes nothing. Once more, and it ends at once")
            return
        say(f"interrupted again: ended at once; {verb} changes nothing, so nothing is left to restore")
        report_to_programs("interrupted by the operator", ExitCode.INTERRUPTED)
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(ExitCode.INTERRUPTED)

    with stop_on_signals(announce=announce) as stop:
        yield stop


@contextmanager
def stop_on_signals(
    stop: threading.Event | None = None,
    announce: Callable[[bool], None] = lambda first: None,  # noqa: ARG005 -- the signature
    signals: Iterable[signal.Signals] = SIGNALS,
) -> Iterator[threading.Event]:
    """Within the block, set an event on signals. announce: called per signal with whether it was the first."""
    stop = stop or threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        first = not stop.is_set()
        # Set first: printing may fail on a closed terminal, and stopping must not.
        stop.set()
        announce(first)

    before = {number: signal.signal(number, on_signal) for number in signals}
    try:
        with _woken():
            yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _woken() -> Iterator[None]:
    """Within the block, wake the main thread at SIGNALS, whatever it waits for."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(write_end, False)
    main = threading.main_thread().ident
    assert main is not None

    over = threading.Event()

    def nudge() -> None:
        while numbers := os.read(read_end, 64):
            if _NUMBERS.isdisjoint(numbers):
                continue
            for seconds in _NUDGES_AFTER_S:
                if over.wait(seconds):
                    return
                signal.pthread_kill(main, _NUDGE)

    thread = threading.Thread(target=nudge, name="interrupt", daemon=True)
    thread.start()
    handler = signal.signal(_NUDGE, lambda *_: None)
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(_NUDGE, handler)
        # A command that ends by a signal must not block on a full wake-up pipe.
        over.set()
        os.close(write_end)
        thread.join()
        os.close(read_end)
