"""The copy of a device from a neighbour: the same dialogue as from us, without a server of ours.

Only the device's progress marks are seen meanwhile, and the bytes per mark differ: they only show that the copy is
alive. So a copy is given up by the clock: if no mark came for too long, or if it takes longer than over the WAN. The
device's own line counts the bytes, and the hash proves them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import TransferStalled
from flashferry.devices.session import DeviceSession
from flashferry.transports.copy_dialogue import CopyDialogue
from flashferry.transports.transport import Offer, ServerView, copy_command
from tasks.copy import STEP as PULL, CopyLimits, CopyReport, CopyWatch, checked_result

LEAST_BYTES_A_MARK = 512
"""A mark stands for at least one block of the smallest size there is."""

PATIENCE_S = 20.0
"""Seconds that a copy may take beyond one over the WAN: for the dialogue, and for flash written late."""

_LOADING = "Loading "


def patience_s(wan_s: float | None) -> float:
    """Return how many seconds a copy from a neighbour may take, by the duration over the WAN; None: unknown."""
    return float("inf") if wan_s is None else PATIENCE_S + wan_s


def fetch(task: Task, **given: Any) -> Result:
    """Nornir task: return a CopyReport. See `fetch_image`."""
    return Result(host=task.host, result=fetch_image(session_of(task), **given), changed=True)


def fetch_image(
    session: DeviceSession,
    *,
    offer: Offer,
    target: str,
    size_bytes: int,
    limits: CopyLimits,
    longest_s: float,
    interrupted: Callable[[], bool] = lambda: False,
    seen: Callable[[int], None] = lambda _: None,
) -> CopyReport:
    """Have the device copy an image from a neighbour, and wait for its `bytes copied` line.

    After `longest_s` the copy is given up. Once a second `interrupted` is called, and `seen` with the number of marks.

    Raises:
        CopyFailed: The device gave up, or copied another number of bytes.
        TransferStalled: A limit was reached; the copy was interrupted.
        FileExists: The target exists already.
        DeviceRefused: The device refuses the command, or asks a question that we answer with no.
        OutputNotUnderstood: The device asked something unknown; the copy was interrupted.
        DeviceUnreachable: The session was lost; the copy may continue without it, or may be done.
    """
    dialogue = CopyDialogue(
        prompt_pattern=session.prompt_pattern, offer=offer, target=target, platform=session.platform
    )

    def witness() -> ServerView:
        if dialogue.elapsed_s > longest_s:
            raise TransferStalled(
                f"the neighbour is slower than the WAN: not through after {longest_s:.0f} s",
                host=session.name,
                step=PULL,
            )
        marks = marks_in(dialogue.text)
        seen(marks)
        at_least = min(size_bytes - 1, marks * LEAST_BYTES_A_MARK)
        return ServerView(client_seen=True, logged_in=True, acked_bytes=max(0, at_least))

    watch = CopyWatch(session.name, dialogue, size_bytes, limits, witness, interrupted)
    session.converse(copy_command(offer, target, session.platform), dialogue, watch.check)
    wall_s = dialogue.elapsed_s
    result = checked_result(session, dialogue, size_bytes, target, ServerView(client_seen=True, logged_in=True))
    return CopyReport(target=target, device=result, wall_s=wall_s, transcript=dialogue.transcript)


def marks_in(text: str) -> int:
    """Return the number of progress marks after the line that starts the transfer."""
    return text.rpartition(_LOADING)[2].count("!") if _LOADING in text else 0
