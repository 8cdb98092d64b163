"""What a run tells while it runs. Programs and people watch the same events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        host: Device, or None where the run itself is meant.
        step: `connect`, `check`, `tune`, `pull`, ...
        status: `started`, `progress`, `done` or `failed`.
        text: A short sentence for people.
        at_s: Seconds since the run began.
    """

    host: str | None
    step: str
    status: str
    text: str
    at_s: float


Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Take an event and tell nobody: for callers who only want the result."""


def never_failing(emit: Emit) -> Emit:
    """Return a function that tells an event and swallows every error: a closed terminal must not stop a restore."""

    def tell(event: Event) -> None:
        with suppress(Exception):
            emit(event)

    return tell
