"""What a run tells while it runs. Programs and people watch the same events."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a copy has come, by the server's account.

    Attributes:
        acked_bytes: Bytes that the device has acknowledged.
        size_bytes: Size of the file.
        rate_bytes_per_s: Rate of the last second or so; 0 where it is not known.
    """

    acked_bytes: int
    size_bytes: int
    rate_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened.

    Attributes:
        host: Device, or None where the run itself is meant.
        step: `connect`, `check`, `tune`, `pull`, ...
        status: `started`, `progress`, `done` or `failed`.
        text: A short sentence for people.
        at_s: Seconds since the run began.
        progress: With `progress` of a copy: how far it has come.
    """

    host: str | None
    step: str
    status: str
    text: str
    at_s: float
    progress: Progress | None = None


Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Take an event and tell nobody: for callers who only want the result."""


def never_failing(emit: Emit) -> Emit:
    """Return a function that tells an event and swallows every error: a closed terminal must not stop a restore."""

    def tell(event: Event) -> None:
        with suppress(Exception):
            emit(event)

    return tell
