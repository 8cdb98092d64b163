"""The limits of a copy, and the watch that keeps them by the device's and the server's signs of life."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from flashferry.devices.dialogue import STUCK_S
from flashferry.devices.errors import (
    SESSION_LOST,
    CopyFailed,
    CopyStopped,
    DeviceUnreachable,
    DialogueDisturbed,
    OutputNotUnderstood,
    TransferStalled,
)
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.platforms.platform import Defaults
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.server_view import FailureCause, ServerView
from flashferry.transports.transport import Messages
from tasks.step import COPY_WORD

STEP = COPY_WORD

SLOWEST_BYTES_PER_S = min(platform.defaults.flash_bytes_per_s for platform in PLATFORMS)
"""Flash of any platform is written as fast: for waits in which nobody knows who will answer."""

MEASURED_AFTER_S = 30.0
"""After so long with data flowing the mean rate tells how long the rest takes; slow start is over by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """Limits in seconds: until the first byte, without progress, for the prompt behind the last byte, in all."""

    start_s: float
    stall_s: float
    total_s: float
    end_s: float = 120.0


def copy_limits(*, size_bytes: int, expected_bytes_per_s: float) -> CopyLimits:
    """Return the limits of a copy: in all, four times what it should take and two minutes.

    Half a minute to the first byte is what a device needs that looks up names and opens two connections; a device
    that cannot reach us at all keeps trying for up to half an hour, which nobody should wait for. Behind the last byte
    a device may write what it buffered, and check a sum without a mark (`Verifying checksum...`, C3640 12.2): two
    minutes and a second for each 500 kB.
    """
    return CopyLimits(
        start_s=45.0,
        stall_s=60.0,
        total_s=120.0 + 4 * size_bytes / max(expected_bytes_per_s, 1.0),
        end_s=120.0 + size_bytes / 500_000,
    )


def least_rate_bytes_per_s(
    defaults: Defaults, *, rtt_s: float, tuned: bool, channel_window_bytes: int | None = None
) -> float:
    """Return the lowest rate that a healthy copy may have: that of slow flash, or of a small window on a long path.

    Args:
        defaults: What to expect of the platform.
        rtt_s: Round-trip time in seconds, > 0.
        tuned: Whether the window is ours; else it may be the smallest default there is.
        channel_window_bytes: The window of the SSH channel as it is without lines of ours, where there is one and it is
            not ours: half of it may be all that a round trip brings.
    """
    slow_flash = defaults.flash_bytes_per_s
    least = slow_flash if tuned else min(slow_flash, defaults.window_bytes / rtt_s)
    return least if channel_window_bytes is None else min(least, channel_window_bytes / 2 / rtt_s)


class CopyWatch:
    """Feeds the dialogue and knows when waiting makes no sense any more.

    Args:
        host: Inventory name, for errors.
        dialogue: The dialogue.
        size_bytes: Size of the image.
        limits: How long to wait for what.
        witness: The server's account.
        interrupted: Whether the operator wants to stop.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        host: str,
        dialogue: CopyDialogue,
        size_bytes: int,
        limits: CopyLimits,
        witness: Callable[[], ServerView],
        interrupted: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host = host
        self._dialogue = dialogue
        self._size_bytes = size_bytes
        self._limits = limits
        self._witness = witness
        self._interrupted = interrupted
        self._clock = clock
        self._started = self._progress_at = self._heard_at = clock()
        self._flowing_since: float | None = None
        self._total_s: float | None = None
        self._acked_bytes = 0

    @property
    def due(self) -> str | None:
        """Return what is to be typed; see `Dialogue`."""
        return self._dialogue.due

    @property
    def settles_in_s(self) -> float | None:
        """Return how long the last thing shown must stay that; see `Dialogue`."""
        return self._dialogue.settles_in_s

    @property
    def passed_over(self) -> str | None:
        """Return a question that something like a prompt stands behind though nobody answered it, or None."""
        return self._dialogue.passed_over

    @property
    def is_over(self) -> bool:
        """Return whether the prompt is back."""
        return self._dialogue.is_over

    def typed(self) -> None:
        """Note that what was due was typed."""
        self._dialogue.typed()

    def take(self, received: str) -> None:
        """Take output of the device."""
        if received:
            self._heard_at = self._clock()
        self._dialogue.take(received)

    def check(self) -> None:
        """Look at the server's account and the clock.

        Raises:
            CopyStopped: The operator wants to stop.
            CopyFailed: The device was refused with the ticket's password, and asks for it again.
            TransferStalled: A limit was reached.
            OutputNotUnderstood: The device waits for an answer that it does not get from us.
            DeviceUnreachable: The image was delivered, but the session says nothing any more.
        """
        now, seen = self._clock(), self._witness()
        if self._interrupted():
            raise CopyStopped("the operator interrupted the copy", host=self._host, step=STEP)
        if now - self._heard_at > STUCK_S and (reason := self._dialogue.stuck_at) is not None:
            if self._dialogue.is_login_refused:
                said = f"; our server says: {seen.failure}" if seen.failure else ""
                hint = self._dialogue.words.hints[FailureCause.NO_LOGIN]
                raise CopyFailed(f"{reason}{said}", host=self._host, step=STEP, hint=hint)
            kind = DialogueDisturbed if self._dialogue.is_disturbed else OutputNotUnderstood
            raise kind(reason, host=self._host, step=STEP)
        self._note(seen, now)
        self._check_progress(seen, now)
        if now - self._started > (limit_s := self._total_limit_s(now)):
            raise self._stalled(f"{self._acked_bytes} bytes in {limit_s:.0f} s, the limit")

    def _note(self, seen: ServerView, now: float) -> None:
        if seen.acked_bytes > self._acked_bytes:
            self._acked_bytes, self._progress_at = seen.acked_bytes, now
            self._flowing_since = self._flowing_since or now

    def _check_progress(self, seen: ServerView, now: float) -> None:
        if not self._acked_bytes:
            if now - self._started > self._limits.start_s:
                reason, hint = reason_of_silence(seen, self._dialogue.words)
                raise self._stalled(f"no byte was taken within {self._limits.start_s:.0f} s: {reason}", hint)
            return
        # Flash is written behind the last byte: the device's own marks are progress too.
        silent_s = now - max(self._progress_at, self._heard_at)
        if self._acked_bytes >= self._size_bytes:
            if silent_s > self._limits.end_s:
                raise DeviceUnreachable(
                    f"the image was delivered, but the session has been silent for {silent_s:.0f} s",
                    host=self._host,
                    step=STEP,
                    hint=SESSION_LOST,
                )
        elif silent_s > self._limits.stall_s:
            raise self._stalled(f"no progress for {self._limits.stall_s:.0f} s after {self._acked_bytes} bytes")

    def _total_limit_s(self, now: float) -> float:
        """Return the limit in all; a rate that was measured to be lower than expected lengthens it, once."""
        flowing_s = now - self._flowing_since if self._flowing_since is not None else 0.0
        if self._total_s is None and flowing_s >= MEASURED_AFTER_S:
            measured = copy_limits(
                size_bytes=self._size_bytes, expected_bytes_per_s=self._acked_bytes / flowing_s
            ).total_s
            self._total_s = max(self._limits.total_s, measured)
        return self._total_s or self._limits.total_s

    def _stalled(self, reason: str, hint: str | None = None) -> TransferStalled:
        return TransferStalled(reason, host=self._host, step=STEP, hint=hint)


def reason_of_silence(seen: ServerView, words: Messages) -> tuple[str, str | None]:
    """Return why no byte flows, by how far the device came with us, and what to do about it, where that is known."""
    if seen.failure:
        return seen.failure, words.hint_for(seen.failure)
    if not seen.client_seen:
        return words.stuck[FailureCause.NO_CLIENT]
    return words.stuck[FailureCause.NO_DATA if seen.logged_in else FailureCause.NO_LOGIN]
