"""Have a device hash a file, and wait for it: three limits, cheap on half a million dots.

Facts
-----
* A command that hashes prints a dot for so many bytes (`VerifyGrammar`), all on one line: 143,737 in one capture.
* 400 MB took 12 minutes on old ISR and ASR routers, 2 GB eight minutes on a Catalyst 9000 (networktocode/pyntc#410,
  cisco.ios#1093): no fixed time-out is right.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from flashferry.devices.dialogue import STUCK_S, Dialogue
from flashferry.devices.errors import HashStopped, OutputNotUnderstood
from flashferry.devices.platforms.platform import Defaults
from flashferry.devices.session import DeviceSession

START_LIMIT_S = 45.0
"""Without any sign of life for so long, not even the echo, the device did not take the command."""

SILENCE_LIMIT_S = 120.0
"""Each dot is progress; without one for this long the device is taken as hung."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashLimits:
    """How long to wait, in seconds: for a sign of life, without progress, in all."""

    start_s: float
    silence_s: float
    total_s: float


def hash_limits(size_bytes: int, defaults: Defaults, known_bytes_per_s: float | None = None) -> HashLimits:
    """Return the limits for a file: in all, a minute and four times what it should take.

    Args:
        size_bytes: Size of the file.
        defaults: What to expect of the platform.
        known_bytes_per_s: How fast this device hashed before, or None: as slow as the platform is at worst.
    """
    if known_bytes_per_s is None:
        total_s = 60 + size_bytes / defaults.hash_bytes_per_s
    else:
        # Never more patience than with an unknown device, which is the slowest there is.
        total_s = 60 + min(4 * size_bytes / known_bytes_per_s, size_bytes / defaults.hash_bytes_per_s)
    return HashLimits(start_s=START_LIMIT_S, silence_s=SILENCE_LIMIT_S, total_s=total_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """What a device printed for `verify`, its dots taken out, and how long it took."""

    text: str
    duration_s: float


def run_verify(
    session: DeviceSession,
    command: str,
    *,
    limits: HashLimits,
    dot_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Hashed:
    """Give a `verify` command and wait for the prompt.

    Args:
        session: An open session.
        command: The command, without a digest: it would be echoed, and found by a reader that looks for it.
        limits: How long to wait for what.
        dot_bytes: What a dot stands for, to tell how far the device came.
        interrupted: Whether the operator wants to stop; asked about once a second.

    Raises:
        HashStopped: The operator stopped it; the device is back at its prompt.
        OutputNotUnderstood: A limit was reached; the device is back at its prompt.
        DeviceUnreachable: The session was lost.
    """
    started = time.monotonic()
    dots = Dots(
        prompt_pattern=session.prompt_pattern,
        limits=limits,
        dot_bytes=dot_bytes,
        interrupted=interrupted,
        clock=time.monotonic,
    )
    try:
        session.converse(command, dots, dots.check)
    except LimitReached as reached:
        kind = HashStopped if isinstance(reached, Ended) else OutputNotUnderstood
        raise kind(f"'{command}': {reached}", host=session.name, step="verify") from None
    return Hashed(text=dots.text, duration_s=time.monotonic() - started)


class LimitReached(Exception):
    """The device was silent, or at it, for too long. Not a TimeoutError: that is an OSError, a lost session."""


class Ended(LimitReached):
    """The operator wants to stop."""


class Dots(Dialogue):
    """Collects output until the prompt, counting the dots and throwing them away; `verify` asks nothing."""

    def __init__(
        self,
        *,
        prompt_pattern: str,
        limits: HashLimits,
        dot_bytes: int,
        interrupted: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(prompt_pattern=prompt_pattern)
        self.dots = 0
        self._limits = limits
        self._dot_bytes = dot_bytes
        self._interrupted = interrupted
        self._started_s = self._heard_s = clock()
        self._has_heard = False
        self._clock = clock

    @property
    def bytes_hashed(self) -> int:
        """Return how far the device came, by its dots."""
        return self.dots * self._dot_bytes

    def take(self, received: str) -> None:
        """Take output."""
        if received:
            self._heard_s, self._has_heard = self._clock(), True
        runs = re.findall(r"\.{2,}|^\.+$", received)
        self.dots += sum(map(len, runs))
        # The dots of two pieces of output meet: squeeze the joint too, or a slow device's single dots pile up.
        fresh = re.sub(r"\.{2,}", ".", received)
        super().take(fresh.lstrip(".") if self.text[-1:] == "." else fresh)

    def check(self) -> None:
        """Raise LimitReached where waiting makes no sense any more."""
        now_s = self._clock()
        if self._interrupted():
            raise Ended(f"interrupted by the operator{self._progress()}")
        if not self._has_heard and now_s - self._started_s > self._limits.start_s:
            raise LimitReached(f"no sign of life for {self._limits.start_s:.0f} s")
        if now_s - self._heard_s > STUCK_S and (reason := self.stuck_at) is not None:
            raise LimitReached(f"{reason}{self._progress()}")
        if now_s - self._heard_s > self._limits.silence_s:
            raise LimitReached(f"no dot for {self._limits.silence_s:.0f} s{self._progress()}")
        if now_s - self._started_s > self._limits.total_s:
            raise LimitReached(f"no result after {self._limits.total_s:.0f} s{self._progress()}")

    def _progress(self) -> str:
        return f" (about {self.bytes_hashed:,} bytes hashed)" if self.dots else ""
