"""The limits of a copy, and the watch that ends a copy which makes no progress.

Progress is what the device prints and what our server counts as acknowledged.
"""

from __future__ import annotations

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
"""Flash of any platform is written at least as fast: for waits for a device that is not known yet."""

MEASURED_AFTER_S = 30.0
"""After so long with data flowing the mean rate shows how long the rest takes; slow start is over by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyLimits:
    """Limits in seconds: until the first byte, without progress, for the prompt after the last byte, in all."""

    start_s: float
    stall_s: float
    total_s: float
    end_s: float = 120.0


def copy_limits(*, size_bytes: int, expected_bytes_per_s: float) -> CopyLimits:
    """Return the limits of a copy: in all, four times what it should take and two minutes.

    A device that looks up names and opens two connections needs half a minute to the first byte; one that cannot reach
    us at all keeps trying for up to half an hour. After the last byte a device may write what it buffered, and check a
    sum without a mark (`Verifying checksum...`, C3640 12.2): two minutes and a second for each 500 kB.
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
        channel_window_bytes: Window of the SSH channel where we did not widen it, or None: half of it may be all that a
            round trip brings.
    """
    slow_flash = defaults.flash_bytes_per_s
    least = slow_flash if tuned else min(slow_flash, defaults.window_bytes / rtt_s)
    return least if channel_window_bytes is None else min(least, channel_window_bytes / 2 / rtt_s)


class CopyWatch:
    """Ends the wait for a copy that makes no progress.

    Args:
        host: Inventory name, for errors.
        dialogue: The dialogue, whose clock counts.
        size_bytes: Size of the image.
        limits: How long to wait for what.
        witness: Returns what our server saw.
        interrupted: Whether the operator wants to stop.
    """

    def __init__(
        self,
        host: str,
        dialogue: CopyDialogue,
        size_bytes: int,
        limits: CopyLimits,
        witness: Callable[[], ServerView],
        interrupted: Callable[[], bool],
    ) -> None:
        self._host, self._dialogue, self._size_bytes, self._limits = host, dialogue, size_bytes, limits
        self._witness, self._interrupted = witness, interrupted
        self._progress_s = 0.0
        self._flowing_since_s: float | None = None
        self._total_s: float | None = None
        self._acked_bytes = 0

    def check(self) -> None:
        """Check the server's account and the clock.

        Raises:
            CopyStopped: The operator wants to stop.
            CopyFailed: The device was refused with the ticket's password, and asks for it again.
            TransferStalled: A limit was reached.
            OutputNotUnderstood: The device waits for an answer that it does not get from us.
            DeviceUnreachable: The image was delivered, and nothing more comes on the session.
        """
        now_s, seen = self._dialogue.elapsed_s, self._witness()
        if self._interrupted():
            raise CopyStopped("the operator interrupted the copy", host=self._host, step=STEP)
        if self._dialogue.silent_s > STUCK_S and (reason := self._dialogue.stuck_at) is not None:
            if self._dialogue.is_login_refused:
                said = f"; our server says: {seen.failure}" if seen.failure else ""
                hint = self._dialogue.words.hints[FailureCause.NO_LOGIN]
                raise CopyFailed(f"{reason}{said}", host=self._host, step=STEP, hint=hint)
            kind = DialogueDisturbed if self._dialogue.is_disturbed else OutputNotUnderstood
            raise kind(reason, host=self._host, step=STEP)
        if seen.acked_bytes > self._acked_bytes:
            self._acked_bytes, self._progress_s = seen.acked_bytes, now_s
            self._flowing_since_s = now_s if self._flowing_since_s is None else self._flowing_since_s
        self._check_progress(seen, now_s)
        if now_s > (limit_s := self._total_limit_s(now_s)):
            raise self._stalled(f"{self._acked_bytes} bytes in {limit_s:.0f} s, the limit")

    def _check_progress(self, seen: ServerView, now_s: float) -> None:
        if not self._acked_bytes:
            if now_s > self._limits.start_s:
                reason, hint = reason_of_silence(seen, self._dialogue.words)
                raise self._stalled(f"no byte was taken within {self._limits.start_s:.0f} s: {reason}", hint)
            return
        # Flash is written after the last byte: the device's own marks are progress too.
        silent_s = min(now_s - self._progress_s, self._dialogue.silent_s)
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

    def _total_limit_s(self, now_s: float) -> float:
        """Return the limit in all; a rate that was measured to be lower than expected extends it, once."""
        flowing_s = now_s - self._flowing_since_s if self._flowing_since_s is not None else 0.0
        if self._total_s is None and flowing_s >= MEASURED_AFTER_S:
            measured = copy_limits(size_bytes=self._size_bytes, expected_bytes_per_s=self._acked_bytes / flowing_s)
            self._total_s = max(self._limits.total_s, measured.total_s)
        return self._total_s or self._limits.total_s

    def _stalled(self, reason: str, hint: str | None = None) -> TransferStalled:
        return TransferStalled(reason, host=self._host, step=STEP, hint=hint)


def reason_of_silence(seen: ServerView, words: Messages) -> tuple[str, str | None]:
    """Return why no byte flows, by how far the device came with us, and what to do about it or None."""
    if seen.failure:
        return seen.failure, words.hint_for(seen.failure)
    if not seen.client_seen:
        return words.stuck[FailureCause.NO_CLIENT]
    return words.stuck[FailureCause.NO_DATA if seen.logged_in else FailureCause.NO_LOGIN]
