"""The time that a step of a night may take, on a clock that tests can wind.

Every wait of a night goes by such a deadline: no call may wait longer than what is left, and none waits without end.
That a fleet's run must end before its windows close is another thing, see `flashferry.planning.deadline`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

_POLL_S = 0.2


class NightStopped(Exception):
    """The night was ended by SIGINT, SIGTERM or SIGHUP: what follows is its clean-up."""


class Clock(Protocol):
    """What a night knows of time."""

    def now(self) -> datetime:
        """Return the present time of day, with a time zone."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds since some moment; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The host's own clock."""

    def now(self) -> datetime:
        """Return the present time, UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return the seconds of the kernel's steady clock."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait so many seconds; less than none is none."""
        time.sleep(max(0.0, seconds))


class StoppableClock:
    """A clock whose waits end when the night is stopped, until the clean-up, which nothing stops.

    Args:
        clock: The clock.
        is_stopped: Whether the end was requested.
    """

    def __init__(self, clock: Clock, is_stopped: Callable[[], bool]) -> None:
        self._clock = clock
        self._is_stopped = is_stopped
        self._is_cleaning = False

    def now(self) -> datetime:
        """Return the present time of day."""
        return self._clock.now()

    def monotonic_s(self) -> float:
        """Return the clock's steady count."""
        return self._clock.monotonic_s()

    def sleep(self, seconds: float) -> None:
        """Wait.

        Raises:
            NightStopped: The end was requested.
        """
        ends_at_s = self.monotonic_s() + seconds
        self.check()
        while (left_s := ends_at_s - self.monotonic_s()) > 0:
            self._clock.sleep(min(left_s, _POLL_S))
            self.check()

    def check(self) -> None:
        """Check whether the end was requested.

        Raises:
            NightStopped: It was.
        """
        if not self._is_cleaning and self._is_stopped():
            raise NightStopped

    def begin_cleaning(self) -> None:
        """From here on nothing ends a wait but its own time."""
        self._is_cleaning = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """The end of what is under way.

    Attributes:
        ends_at_s: When it is, on the clock's steady count.
        clock: The clock.
    """

    ends_at_s: float
    clock: Clock = field(default_factory=SystemClock)

    @classmethod
    def after(cls, seconds: float, clock: Clock | None = None) -> Deadline:
        """Return the deadline that is so many seconds from now."""
        of = clock if clock is not None else SystemClock()
        return cls(ends_at_s=of.monotonic_s() + seconds, clock=of)

    @property
    def left_s(self) -> float:
        """Seconds left, never less than none."""
        return max(0.0, self.ends_at_s - self.clock.monotonic_s())

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left_s <= 0

    def within(self, seconds: float) -> Deadline:
        """Return the earlier of this deadline and one so many seconds from now."""
        return Deadline(ends_at_s=min(self.ends_at_s, self.clock.monotonic_s() + seconds), clock=self.clock)

    def pause(self, seconds: float) -> bool:
        """Wait so long, but not beyond the end; return whether time is left."""
        self.clock.sleep(min(seconds, self.left_s))
        return not self.is_over
