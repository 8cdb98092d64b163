"""Have a device hash a file and wait for it: three limits, cheap on half a million dots.

Facts
-----
* A command that hashes prints a dot for so many bytes (`VerifyGrammar`), all on one line: 143,737 in one capture.
* 400 MB took 12 minutes on old ISR and ASR routers, 2 GB eight minutes on a Catalyst 9000 (networktocode/pyntc#410,
  cisco.ios#1093): no fixed time-out is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from flashferry.devices.dialogue import Dialogue, PromptWait, WaitLimits
from flashferry.devices.errors import HashStopped
from flashferry.devices.platforms.platform import Defaults
from flashferry.devices.session import DeviceSession

START_LIMIT_S = 45.0
"""Without any output for so long, not even the echo, the device did not take the command."""

SILENCE_LIMIT_S = 120.0
"""Each dot is progress; without one for this long the device is taken as hung."""


def hash_limits(size_bytes: int, defaults: Defaults, known_bytes_per_s: float | None = None) -> WaitLimits:
    """Return the limits for a file: in all, a minute and four times what it should take.

    Without a known speed the device counts as slow as the platform is at worst.
    """
    # An unknown device counts as the slowest there is; no known speed gives it longer.
    hash_s = size_bytes / defaults.hash_bytes_per_s
    if known_bytes_per_s is not None:
        hash_s = min(4 * size_bytes / known_bytes_per_s, hash_s)
    return WaitLimits(start_s=START_LIMIT_S, silence_s=SILENCE_LIMIT_S, total_s=60 + hash_s, sign="dot", end="result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hashed:
    """What a device printed for `verify`, without its dots, and how long it took."""

    text: str
    duration_s: float


def run_verify(
    session: DeviceSession,
    command: str,
    *,
    limits: WaitLimits,
    dot_bytes: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Hashed:
    """Give a `verify` command and wait for the prompt; `interrupted` is asked about once a second.

    The command has no digest: it would be echoed, and found by a reader that searches for it.

    Raises:
        HashStopped: The operator stopped it; the device is back at its prompt.
        OutputNotUnderstood: A limit was reached; the device is back at its prompt.
    """
    dots = Dots(prompt_pattern=session.prompt_pattern, dot_bytes=dot_bytes)
    wait = PromptWait(
        dots, command, limits, host=session.name, step="verify", interrupted=interrupted, stopped=HashStopped
    )
    session.converse(command, dots, wait.check)
    return Hashed(text=dots.text, duration_s=dots.elapsed_s)


class Dots(Dialogue):
    """Output until the prompt, the dots counted and left out; `verify` asks nothing."""

    def __init__(self, *, prompt_pattern: str, dot_bytes: int, clock: Callable[[], float] | None = None) -> None:
        super().__init__(prompt_pattern=prompt_pattern, clock=clock)
        self.dots = 0
        self._dot_bytes = dot_bytes

    @property
    def bytes_hashed(self) -> int:
        """Return how far the device has come, by its dots."""
        return self.dots * self._dot_bytes

    @property
    def progress(self) -> str:
        """Return how far the device has come, to follow an error."""
        return f" (about {self.bytes_hashed:,} bytes hashed)" if self.dots else ""

    def _kept(self, received: str) -> str:
        self.dots += sum(map(len, re.findall(r"\.{2,}|^\.+$", received)))
        # The dots of two pieces of output meet: squeeze the joint too, or a slow device's single dots pile up.
        fresh = re.sub(r"\.{2,}", ".", received)
        return fresh.lstrip(".") if self.text[-1:] == "." else fresh
