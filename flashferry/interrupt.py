"""Ctrl-C once: stop taking new work, restore, report. The prompt comes back with every device as it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flashferry.output import say

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a service that is stopped, and a terminal that is closed."""


@contextmanager
def graceful_interrupt(say: Callable[[str], None] = say) -> Iterator[threading.Event]:
    """Turn SIGNALS into an event for as long as the block runs, and tell what happens now.

    Args:
        say: Takes a line for people; where a live table is on the terminal it must not go past it.
    """
    stop = threading.Event()

    def tell(first: bool) -> None:
        say(
            "interrupted: ending what is under way and restoring every device"
            if first
            else "still restoring; if this process is killed, run 'flashferry recover'"
        )

    with stop_on_signals(stop, tell):
        yield stop


@contextmanager
def stop_on_signals(
    stop: threading.Event | None = None,
    tell: Callable[[bool], None] = lambda first: None,  # noqa: ARG005 -- the signature
) -> Iterator[threading.Event]:
    """Set an event on SIGNALS for as long as the block runs; `tell` then gets whether it was the first one."""
    stop = stop or threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 -- the signature of a handler
        first = not stop.is_set()
        # Set before told: with the terminal gone, telling may fail, and stopping must not.
        stop.set()
        tell(first)

    before = {number: signal.signal(number, on_signal) for number in SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
