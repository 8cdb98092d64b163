"""Step `reach`: a small copy to `null:` proves path, credentials and mode, with an own diagnosis for each failure.

Facts
-----

* A device that cannot reach a server may keep trying for up to half an hour, and then prints the same whatever the
  cause. What our server saw of it distinguishes the causes in seconds.
* Its connection may come from any of its interfaces; from none of them if its address is translated on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import CopyFailed, TransferStalled
from flashferry.devices.session import DeviceSession
from flashferry.transports.transport import FailureCause, Messages, Offer, ServerView
from tasks.copy import CopyLimits, copy_image
from tasks.step import Step
from templates.rows import CopyResult

STEP = "reach"
REACH = Step(word=STEP, label="the device fetches a small file from us (`check --reach`)")
_NAMED = 3

LIMITS = CopyLimits(start_s=20.0, stall_s=12.0, end_s=12.0, total_s=30.0)
"""A device that reaches us sends its first packet at once and again after 1, 3 and 7 s; 20 s are enough. The copy is
then interrupted within ten, so that the result is there within 45 s, login included."""


class ConnectivityReport(Struct, frozen=True, kw_only=True):
    """Whether a device can fetch a file from us.

    Attributes:
        copied: The device's own line, or None if the copy failed.
        sentence: The cause with what was expected and seen; empty without a failure.
        hint: What to do about it, or None.
        came_from: Source address of the device's login, or None.
    """

    copied: CopyResult | None
    hindrance: FailureCause | None
    sentence: str
    hint: str | None
    came_from: str | None


def failure_cause(
    seen: ServerView, words: Messages, *, expected: tuple[str, ...], is_copied: bool
) -> tuple[FailureCause | None, str]:
    """Return why a copy failed, by how far the device got with our server, and a sentence on it. Pure."""
    who = " or ".join(expected[:_NAMED])
    if seen.came_from is not None and seen.came_from not in expected:
        return FailureCause.WRONG_SOURCE, f"it came from {seen.came_from}, expected {who}"
    if is_copied:
        return None, ""
    if not seen.client_seen and not seen.logged_in:
        return FailureCause.NO_CLIENT, f"{words.no_client} from {who}"
    if not seen.logged_in:
        others = f"; tried as {', '.join(seen.other_users)}" if seen.other_users else ""
        return FailureCause.NO_LOGIN, f"it connected from {who} and did not log in with its ticket{others}"
    if seen.acked_bytes == 0:
        return FailureCause.NO_DATA, words.no_data
    return FailureCause.BROKEN_OFF, f"it took {seen.acked_bytes} bytes and no more"


def connectivity(task: Task, **given: Any) -> Result:
    """Nornir task: return a ConnectivityReport. See `check_connectivity`."""
    return Result(host=task.host, result=check_connectivity(session_of(task), **given))


def check_connectivity(
    session: DeviceSession,
    *,
    offer: Offer,
    size_bytes: int,
    expected: tuple[str, ...],
    server_view: Callable[[], ServerView],
    interrupted: Callable[[], bool] = lambda: False,
) -> ConnectivityReport:
    """Have a device fetch a small file from us to `null:`, and report why it cannot.

    The offer's credentials are not bound to an address, so that an unexpected source address can be reported; those of
    a staging run are bound to the `expected` ones.

    Raises:
        DeviceRefused: The device refuses the command.
        OutputNotUnderstood: The device asked something unknown.
        TransferStalled: The operator interrupted the copy.
    """
    copied, said = None, ""
    try:
        copied = copy_image(
            session,
            offer=offer,
            target=session.platform.copying.no_file,
            size_bytes=size_bytes,
            limits=LIMITS,
            witness=server_view,
            interrupted=interrupted,
        ).device
    except (CopyFailed, TransferStalled) as error:
        if interrupted():
            raise
        said = error.message
    return _report(server_view(), copied, said, expected, offer.transport.words)


def _report(
    seen: ServerView, copied: CopyResult | None, said: str, expected: tuple[str, ...], words: Messages
) -> ConnectivityReport:
    cause, finding = failure_cause(seen, words, expected=expected, is_copied=copied is not None)
    quoted = f" ({said})" if said else ""
    return ConnectivityReport(
        copied=copied,
        hindrance=cause,
        sentence=f"{cause.value}: {finding}{quoted}" if cause else "",
        hint=(words.hint_for(seen.failure) or words.hints[cause]) if cause else None,
        came_from=seen.came_from,
    )
