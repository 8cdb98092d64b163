"""Limit the time of a night's steps, on a clock that tests can replace; no wait is without a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

from msgspec import Struct, field

_POLL_S = 0.2


class NightStopped(Exception):
    """The operator stopped the night by SIGINT, SIGTERM or SIGHUP; the clean-up follows."""


class Clock(Protocol):
    """The source of time: the system's, or a test's."""

    def now(self) -> datetime:
        """Return the current time, with a time zone."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds since some moment; never decreases."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The system's clock."""

    def now(self) -> datetime:
        """Return the current time, UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return the seconds of the kernel's monotonic clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait; a negative time is zero."""
        time.sleep(max(0.0, seconds))


class StoppableClock:
    """A clock whose waits end when the operator stops the night, until the clean-up starts."""

    def __init__(self, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_stopped = is_stopped
        self._is_cleaning = False

    def now(self) -> datetime:
        """Return the current time."""
        return self._clock.now()

    def monotonic_s(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            NightStopped: The operator stopped the night.
        """
        ends_at_s = self.monotonic_s() + seconds
        self.check()
        while (left_s := ends_at_s - self.monotonic_s()) > 0:
            self._clock.sleep(min(left_s, _POLL_S))
            self.check()

    def check(self) -> None:
        """Check whether the night was stopped.

        Raises:
            NightStopped: It was.
        """
        if not self._is_cleaning and self._is_stopped():
            raise NightStopped

    def begin_cleaning(self) -> None:
        """Ignore stop requests from now on."""
        self._is_cleaning = True


class Deadline(Struct, frozen=True, kw_only=True):
    """A moment on a clock's monotonic count by which something must end."""

    ends_at_s: float
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def after(cls, seconds: float, clock: Clock | None = None) -> Deadline:
        """Return the deadline a number of seconds from now."""
        of = clock if clock is not None else SystemClock()
        return cls(ends_at_s=of.monotonic_s() + seconds, clock=of)

    @property
    def left_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.ends_at_s - self.clock.monotonic_s())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left_s <= 0

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and one a number of seconds from now."""
        return Deadline(ends_at_s=min(self.ends_at_s, self.clock.monotonic_s() + seconds), clock=self.clock)

    def pause(self, seconds: float) -> bool:
        """Wait, but not beyond the deadline; return whether time is left."""
        self.clock.sleep(min(seconds, self.left_s))
        return not self.is_over
