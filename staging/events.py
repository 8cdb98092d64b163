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
        step: `connect`, `check`, `tune`, `pull`, ...; without a device `server`, `wave` or `run`.
        status: `started`, `progress`, `note`, `done` or `failed`; `queued`: waits for a slot, the text says which;
            `retry`: begins anew after a pause. A wave is `waiting` where it has to be approved first; a run is
            `paused`, `continued` or `stopping`.
        text: A short sentence for people.
        at_s: Seconds since the run began.
        progress: With `progress` of a copy: how far it has come.
        site: The device's site, or the site that is meant; None where there is none.
        wave: Number of the wave, 0 for the canaries; None outside waves.
        verdict: With `progress` of a copy: what limits it so far, by the words of `tcp.words.VerdictKind`.
    """

    host: str | None
    step: str
    status: str
    text: str
    at_s: float
    progress: Progress | None = None
    site: str | None = None
    wave: int | None = None
    verdict: str | None = None


Emit = Callable[[Event], None]


def silent(event: Event) -> None:
    """Take an event and tell nobody: for callers who only want the result."""


def never_failing(emit: Emit) -> Emit:
    """Return a function that tells an event and swallows every error: a closed terminal must not stop a restore."""

    def tell(event: Event) -> None:
        with suppress(Exception):
            emit(event)

    return tell
