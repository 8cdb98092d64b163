"""Ctrl-C once: stop taking new work, restore, report. The prompt comes back with every device as it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flashferry.output import say


@contextmanager
def graceful_interrupt() -> Iterator[threading.Event]:
    """Turn SIGINT and SIGTERM into an event for as long as the block runs, and tell what happens now."""
    stop = threading.Event()

    def tell() -> None:
        if stop.is_set():
            say("still restoring; if this process is killed, run 'flashferry recover'")
        else:
            say("interrupted: ending copies and restoring every device")

    with stop_on_signals(stop, tell):
        yield stop


@contextmanager
def stop_on_signals(
    stop: threading.Event | None = None, tell: Callable[[], None] = lambda: None
) -> Iterator[threading.Event]:
    """Set an event on SIGINT and SIGTERM for as long as the block runs; `tell` is called before it is set."""
    stop = stop or threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        tell()
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
