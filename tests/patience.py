"""The one limit on how long a test waits, and the one way to wait: for an event, never for a time.

The limit is generous, because it is reached only where the product is broken: a machine that is busy with other work
must never turn a test red. See docs/testing.md.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

PATIENCE_S = 120.0
"""Limit on every wait of a test, in seconds."""

_POLL_S = 0.02

T = TypeVar("T")


def until(condition: Callable[[], T], what: str | Callable[[], object], *, poll_s: float = _POLL_S) -> T:
    """Wait until a condition is true and return its value.

    Args:
        condition: Called again and again; its first true value is returned.
        what: What is waited for, for the failure's message; a function is called when the limit is reached.
        poll_s: Pause between two calls, in seconds; a state that lasts briefly needs a shorter one.

    Raises:
        AssertionError: The limit passed without it.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        _check(deadline_s, what, value)
        time.sleep(poll_s)
    return value


async def until_async(condition: Callable[[], T], what: str | Callable[[], object]) -> T:
    """Wait like `until` in a coroutine: the event loop goes on meanwhile.

    Raises:
        AssertionError: The limit passed without it.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        _check(deadline_s, what, value)
        await asyncio.sleep(_POLL_S)
    return value


@contextmanager
def killed_at_end(process: subprocess.Popen[Any]) -> Iterator[subprocess.Popen[Any]]:
    """Kill a process at the end of the block, also where the test fails in it: `Popen` alone waits without a limit."""
    with process:
        try:
            yield process
        finally:
            process.kill()


def _check(deadline_s: float, what: str | Callable[[], object], seen: object) -> None:
    if time.monotonic() > deadline_s:
        expected = what() if callable(what) else what
        raise AssertionError(f"waited {PATIENCE_S:.0f} s for {expected}; last seen: {seen!r}")
