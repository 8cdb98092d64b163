"""Step `pull`: the device copies an image from our server; what the server saw decides how long we wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import CopyFailed, DeviceOverloaded, DeviceRefused, FileInTheWay, NotDelivered
from flashferry.devices.platforms.platform import Platform
from flashferry.devices.session import DeviceSession
from flashferry.transports.copy_dialogue import CopyDialogue, CopyOutcome
from flashferry.transports.server_view import ServerView
from flashferry.transports.transport import Offer, copy_command
from tasks.copy_watch import CopyLimits, CopyWatch, reason_of_silence
from tasks.step import COPY_WORD, CostPhase, Step
from templates.rows import CopyResult, Refusal, first

STEP = COPY_WORD
_SERVER_LATE_S = 1.0
LAST_ACK_S = 30.0
"""The device may be back at its prompt while its last acknowledgement is lost on the way; it repeats it in seconds."""

NO_LOGIN_S = 5.0
"""How late the word of a login may be: it comes over no WAN, but from one process of ours to another."""

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
"""Its round trips are what a flow's start costs on top of its rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """A copy that the device reports as done.

    Attributes:
        target: Where the file is, or `null:`.
        device: The device's own line: bytes, seconds, rate.
        wall_s: From the command to the prompt, by our clock.
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
    """Have the device pull an image to a target, `null:` for a speed test, and wait for its `bytes copied` line.

    `witness` returns what our server saw; it and `interrupted` are asked about once a second.

    Raises:
        CopyFailed: The device gave up, or copied another number of bytes.
        NotDelivered: It reports success, and our server did not deliver the whole image.
        DeviceOverloaded: It gave up with an I/O error or for want of memory: a smaller window may do.
        TransferStalled: A limit was reached; the copy was interrupted.
        DeviceRefused: The device does not take the command, or its question is one that we answer with no.
        OutputNotUnderstood: The device asked something unknown; the copy was interrupted.
        DeviceUnreachable: The session was lost; the copy may go on without it, or may be done.
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
    """Return what our server saw in the end: its report of a failure, or of the last byte, may come later."""
    started_s = time.monotonic()
    while True:
        seen = witness()
        waited_s = time.monotonic() - started_s
        if _is_known(dialogue.outcome(), seen) or waited_s >= _late_s(dialogue.outcome(), seen):
            return seen
        time.sleep(_PAUSE_S)


def _late_s(outcome: CopyOutcome, seen: ServerView) -> float:
    """Return how late our server's report may be, in seconds: the last acknowledgement comes over the WAN."""
    if outcome.result is None:
        return _SERVER_LATE_S
    return LAST_ACK_S if seen.logged_in else NO_LOGIN_S


def _is_known(outcome: CopyOutcome, seen: ServerView) -> bool:
    """Return whether our server has nothing more to report that decides what became of a copy."""
    if outcome.result is not None:
        return seen.delivered is not False or seen.is_over
    return bool(seen.failure or seen.logged_in or not seen.client_seen or not outcome.error)


def _check_delivered(host: str, result: CopyResult, size_bytes: int, target: str, seen: ServerView) -> None:
    """Hold what the device reports against what our server delivered.

    Raises:
        NotDelivered: The server counted less than the whole image.
    """
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
    """Return the line that counts the bytes of a copy whose dialogue is over.

    Raises:
        FileInTheWay: There is a file already.
        DeviceRefused: The device does not take the command, or its question is one that we answer with no.
        CopyFailed: It gave up, or copied another number of bytes.
        DeviceOverloaded: It gave up for want of memory.
    """
    host = session.name
    outcome: CopyOutcome = dialogue.outcome()
    if outcome.refused is not None and outcome.refused.finds_file:
        raise FileInTheWay(
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
            hint="Give the copy by hand if what it asks is meant",
        )
    if outcome.result is None and not outcome.error and (words := first(Refusal, dialogue.transcript)) is not None:
        raise DeviceRefused(
            f"the device does not take the copy command: {words.text}",
            host=host,
            step=STEP,
            hint="Give 'copy ?' by hand as that user: the user may not copy, or the release lacks the protocol",
        )
    if outcome.result is None:
        kind = DeviceOverloaded if _is_overload(outcome, dialogue, seen, session.platform) else CopyFailed
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


def _is_overload(outcome: CopyOutcome, dialogue: CopyDialogue, seen: ServerView, platform: Platform) -> bool:
    """Return whether the device failed for want of memory, so that a smaller window may do."""
    if not outcome.error or not platform.copying.overload.search(outcome.error):
        return False
    says_little = dialogue.words.says_little
    return seen.acked_bytes > 0 or says_little is None or not says_little.search(outcome.error)


def _why(outcome: CopyOutcome, dialogue: CopyDialogue, seen: ServerView) -> tuple[str, str | None]:
    """Return why the copy failed, and a hint where more is known than the failure's kind."""
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
    return f"the device came back to its prompt without a word on the copy: {said!r}", "Give the copy by hand and look"
