"""Step `pull`: have the device copy an image, and end a copy that makes no progress.

Progress is what the device prints and what our server counts as acknowledged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.dialogue import STUCK_S
from flashferry.devices.errors import (
    SESSION_LOST,
    CopyFailed,
    CopyStopped,
    DeviceOverloaded,
    DeviceRefused,
    DeviceUnreachable,
    DialogueDisturbed,
    FileExists,
    NotDelivered,
    OutputNotUnderstood,
    TransferStalled,
)
from flashferry.devices.platforms import PLATFORMS
from flashferry.devices.session import DeviceSession
from flashferry.transports.copy_dialogue import CopyDialogue, CopyOutcome
from flashferry.transports.transport import FailureCause, Messages, Offer, ServerView, copy_command
from tasks.step import COPY_WORD, CostPhase, Step
from templates.rows import CopyResult, Refusal, first

STEP = COPY_WORD

SLOWEST_BYTES_PER_S = min(platform.defaults.flash_bytes_per_s for platform in PLATFORMS)
"""Slowest flash of any platform, for waits for a device that is not known yet."""

MEASURED_AFTER_S = 30.0
"""After so many seconds of data flow, slow start is over and the mean rate shows how long the rest takes."""


class CopyLimits(Struct, frozen=True, kw_only=True):
    """Limits in seconds: until the first byte, without progress, for the prompt after the last byte, in all."""

    start_s: float
    stall_s: float
    total_s: float
    end_s: float = 120.0


def copy_limits(*, size_bytes: int, expected_bytes_per_s: float) -> CopyLimits:
    """Return the limits of a copy: in all, four times what it should take plus two minutes.

    A device that looks up names and opens two connections needs half a minute to the first byte; one that cannot reach
    us keeps trying for up to half an hour. After the last byte a device may write what it buffered, and check a sum
    without a mark (`Verifying checksum...`, C3640 12.2): two minutes and a second for each 500 kB.
    """
    return CopyLimits(
        start_s=45.0,
        stall_s=60.0,
        total_s=120.0 + 4 * size_bytes / max(expected_bytes_per_s, 1.0),
        end_s=120.0 + size_bytes / 500_000,
    )


def least_rate_bytes_per_s(
    *, flash_bytes_per_s: float, window_bytes: int, rtt_s: float, tuned: bool, channel_window_bytes: int | None = None
) -> float:
    """Return the lowest rate of a healthy copy: that of slow flash, or of a small window on a long path.

    Args:
        flash_bytes_per_s: Speed of slow flash.
        window_bytes: The smallest default window.
        rtt_s: Round-trip time in seconds, > 0.
        tuned: Whether the window is ours; otherwise it may be the smallest default.
        channel_window_bytes: Window of the SSH channel if we did not widen it, or None: half of it may be all that a
            round trip carries.
    """
    least = flash_bytes_per_s if tuned else min(flash_bytes_per_s, window_bytes / rtt_s)
    return least if channel_window_bytes is None else min(least, channel_window_bytes / 2 / rtt_s)


class CopyWatch:
    """Ends the wait for a copy that makes no progress, by the dialogue's clock. `witness` returns the server's view."""

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
        """Check the server's view and the clock.

        Raises:
            CopyStopped: The operator stops.
            CopyFailed: The ticket's password was refused, and the device asks for it again.
            TransferStalled: A limit was reached.
            OutputNotUnderstood: The device waits for an answer that we do not give.
            DeviceUnreachable: The image was delivered, and the session stays silent.
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
        # Flash is written even after the last byte: the device's own marks are progress too.
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
        """Return the total limit; a measured rate below the expected one extends it, once."""
        flowing_s = now_s - self._flowing_since_s if self._flowing_since_s is not None else 0.0
        if self._total_s is None and flowing_s >= MEASURED_AFTER_S:
            measured = copy_limits(size_bytes=self._size_bytes, expected_bytes_per_s=self._acked_bytes / flowing_s)
            self._total_s = max(self._limits.total_s, measured.total_s)
        return self._total_s or self._limits.total_s

    def _stalled(self, reason: str, hint: str | None = None) -> TransferStalled:
        return TransferStalled(reason, host=self._host, step=STEP, hint=hint)


def reason_of_silence(seen: ServerView, words: Messages) -> tuple[str, str | None]:
    """Return why no byte flows, by how far the device got with our server, and a hint or None."""
    if seen.failure:
        return seen.failure, words.hint_for(seen.failure)
    if not seen.client_seen:
        return words.stuck[FailureCause.NO_CLIENT]
    return words.stuck[FailureCause.NO_DATA if seen.logged_in else FailureCause.NO_LOGIN]


_SERVER_LATE_S = 1.0

LAST_ACK_S = 30.0
"""The device may be at its prompt while its last acknowledgement is lost on the way; it is repeated within seconds."""

NO_LOGIN_S = 5.0
"""Longest delay of the report of a login: it passes between two processes of ours, not over the WAN."""

_PAUSE_S = 0.05

COPY = Step(
    word=STEP,
    label="the device copies the image",
    doing="copying",
    state="copied",
    record_field="pull",
    round_trips=6,
    stretch=CostPhase.SET_UP,
    is_delivery=True,
)
"""Its round trips are the cost of starting a flow, on top of its rate."""


class CopyReport(Struct, frozen=True, kw_only=True):
    """A copy that the device reports as done.

    Attributes:
        target: Path of the file, or `null:`.
        device: The device's own line: bytes, seconds, rate.
        wall_s: Seconds from the command to the prompt, by our clock.
    """

    target: str
    device: CopyResult
    wall_s: float
    transcript: str


def copy(task: Task, **given: Any) -> Result:
    """Nornir task: return a CopyReport. See `copy_image`."""
    session = session_of(task)
    report = copy_image(session, **given)
    return Result(host=task.host, result=report, changed=report.target != session.platform.copying.no_file)


def copy_image(
    session: DeviceSession,
    *,
    offer: Offer,
    target: str,
    size_bytes: int,
    limits: CopyLimits,
    witness: Callable[[], ServerView],
    interrupted: Callable[[], bool] = lambda: False,
) -> CopyReport:
    """Have the device fetch an image to a target (`null:` for a speed test), and wait for its `bytes copied` line.

    `witness` returns what our server saw; it and `interrupted` are called about once a second.

    Raises:
        CopyFailed: The device gave up, or copied another number of bytes.
        NotDelivered: It reports success, but our server did not deliver the whole image.
        DeviceOverloaded: It gave up with an I/O error or out of memory: a smaller window may work.
        TransferStalled: A limit was reached; the copy was interrupted.
        DeviceRefused: The device refuses the command, or asks a question that we answer with no.
        OutputNotUnderstood: The device asked something unknown; the copy was interrupted.
        DeviceUnreachable: The session was lost; the copy may continue without it, or may be done.
    """
    dialogue = CopyDialogue(
        prompt_pattern=session.prompt_pattern,
        offer=offer,
        target=target,
        platform=session.platform,
    )
    watch = CopyWatch(session.name, dialogue, size_bytes, limits, witness, interrupted)
    session.converse(copy_command(offer, target, session.platform), dialogue, watch.check)
    wall_s = dialogue.elapsed_s
    seen = _last_view(dialogue, witness)
    result = checked_result(session, dialogue, size_bytes, target, seen)
    _check_delivered(session.name, result, size_bytes, target, seen)
    return CopyReport(target=target, device=result, wall_s=wall_s, transcript=dialogue.transcript)


def _last_view(dialogue: CopyDialogue, witness: Callable[[], ServerView]) -> ServerView:
    """Return the server's final view: its report of a failure, or of the last byte, may come late."""
    started_s = time.monotonic()
    while True:
        seen = witness()
        waited_s = time.monotonic() - started_s
        if _is_known(dialogue.outcome(), seen) or waited_s >= _late_s(dialogue.outcome(), seen):
            return seen
        time.sleep(_PAUSE_S)


def _late_s(outcome: CopyOutcome, seen: ServerView) -> float:
    """Return how many seconds our server's report may be late: the last acknowledgement comes over the WAN."""
    if outcome.result is None:
        return _SERVER_LATE_S
    return LAST_ACK_S if seen.logged_in else NO_LOGIN_S


def _is_known(outcome: CopyOutcome, seen: ServerView) -> bool:
    """Return whether our server has nothing more to report that decides the result of a copy."""
    if outcome.result is not None:
        return seen.delivered is not False or seen.is_over
    return bool(seen.failure or seen.logged_in or not seen.client_seen or not outcome.error)


def _check_delivered(host: str, result: CopyResult, size_bytes: int, target: str, seen: ServerView) -> None:
    """Raise if our server counted less than the device reports as copied."""
    if seen.delivered is False:
        ours = f": {seen.failure}" if seen.failure else ""
        raise NotDelivered(
            f"the device reports {result.size_bytes} bytes copied to {target}, expected our server to have delivered "
            f"{size_bytes}, found {min(seen.acked_bytes, size_bytes)}{ours}",
            host=host,
            step=STEP,
        )


def checked_result(
    session: DeviceSession, dialogue: CopyDialogue, size_bytes: int, target: str, seen: ServerView
) -> CopyResult:
    """Return the byte count line of a copy whose dialogue is over.

    Raises:
        FileExists: The target exists already.
        DeviceRefused: The device refuses the command, or asks a question that we answer with no.
        CopyFailed: It gave up, or copied another number of bytes.
        DeviceOverloaded: It ran out of memory.
    """
    host = session.name
    outcome: CopyOutcome = dialogue.outcome()
    if outcome.refused is not None and outcome.refused.finds_file:
        raise FileExists(
            f"{target} exists; nothing is overwritten",
            host=host,
            step=STEP,
            hint="Find out who put it there; delete or rename it if it is not needed, then stage again",
        )
    if outcome.refused is not None:
        raise DeviceRefused(
            f"the device asked {outcome.refused.name!r} and the answer was no",
            host=host,
            step=STEP,
            hint="Run the copy by hand if you want what it asks",
        )
    if outcome.result is None and not outcome.error and (words := first(Refusal, dialogue.transcript)) is not None:
        raise DeviceRefused(
            f"the device does not take the copy command: {words.text}",
            host=host,
            step=STEP,
            hint="Give 'copy ?' by hand as that user: the user may not copy, or the release lacks the protocol",
        )
    if outcome.result is None:
        kind = (
            DeviceOverloaded if _is_overload(outcome, dialogue, seen, session.platform.copying.overload) else CopyFailed
        )
        reason, hint = _why(outcome, dialogue, seen)
        raise kind(reason, host=host, step=STEP, hint=hint)
    if outcome.result.size_bytes != size_bytes:
        raise CopyFailed(
            f"expected {size_bytes} bytes, the device copied {outcome.result.size_bytes}",
            host=host,
            step=STEP,
            hint=f"Delete {target} on the device and stage again; do not boot from it",
        )
    return outcome.result


def _is_overload(outcome: CopyOutcome, dialogue: CopyDialogue, seen: ServerView, overload: re.Pattern[str]) -> bool:
    """Return whether the device ran out of memory, so that a smaller window may work."""
    if not outcome.error or not overload.search(outcome.error):
        return False
    says_little = dialogue.words.says_little
    return seen.acked_bytes > 0 or says_little is None or not says_little.search(outcome.error)


def _why(outcome: CopyOutcome, dialogue: CopyDialogue, seen: ServerView) -> tuple[str, str | None]:
    """Return why the copy failed, and a hint if more is known than the kind of failure."""
    if (none := outcome.no_match) is not None and seen.acked_bytes == 0:
        return (
            f"no {none.what} in common: the device has {none.client}, our server has {none.server}",
            dialogue.words.no_common or None,
        )
    if outcome.error:
        if seen.acked_bytes == 0:
            reason, hint = reason_of_silence(seen, dialogue.words)
            return f"the device says: {outcome.error} ({reason})", hint
        ours = f"; our server says: {seen.failure}" if seen.failure else ""
        return f"the device says: {outcome.error} after {seen.acked_bytes} bytes{ours}", None
    said = dialogue.transcript[-160:].strip()
    return (
        f"the device returned to its prompt without a message on the copy: {said!r}",
        "Give the copy by hand and look",
    )
