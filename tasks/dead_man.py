"""Step `dead-man`: an applet on the device that undoes our lines when controller or path are gone for good.

It is armed before the first of our lines and read back: an applet that is not shown as it was typed, or does not
count, is taken back at once, and the device is staged without one. It goes with our lines at the restore. Where its
time is over before that, it has done the same, and the copy goes on: window and selective acknowledgement belong to a
connection's SYN.

It cannot compare first: it takes away or replaces what a colleague entered meanwhile where a line of ours stood. And
where a colleague saves it together with our lines, a reload brings both back. That is found like anything else of ours
that was saved (`tasks.snapshot`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.applet import (
    APPLET_COMMAND,
    BYPASS,
    SESSION_USER,
    applet_body,
    applet_of,
    is_as_typed,
    may_be_carried,
    without_applet,
)
from tasks.read_config import Configured, ask_or_empty, read_running
from tasks.restore_plan import undo_rank
from tasks.step import Step
from tasks.tcp_config import Change
from tasks.tune import LATE_PAUSES_S
from templates.config_sections import Configuration, sections_of
from templates.rows import ArchiveSection, CommandAuthorization, first

STEP = "dead-man"
DEAD_MAN = Step(
    word=STEP,
    label="the applet that takes our lines back by itself is set or removed (`--dead-man`)",
    doing="tuning",
    record_field="dead_man",
)

MARGIN_S = 1800
"""What an applet waits beyond the slowest copy that is worth waiting for: checks, hashing and the restore."""

VTYS_NEEDED = 2
"""Lines that an applet takes when it runs (Cisco: `minimum of two required by EEM`)."""

LONGEST_S = 4_000_000
"""Of 4294967 seconds that a countdown takes (Cisco EEM command reference)."""

_VTY = re.compile(r"^\s*(\*?)\s*\d+(?:\s+\d+)?\s+VTY\b", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadManReport:
    """Whether a device undoes our lines by itself, and when.

    Attributes:
        countdown_s: How long it waits, in seconds.
        undo: What it sends then, before it removes itself.
        reason: Why there is none; empty where there is one.
        earlier: Name of an older applet that still counts and lacks some of our lines; empty where there is none.
    """

    name: str
    is_armed: bool
    countdown_s: int
    undo: tuple[str, ...]
    reason: str = ""
    earlier: str = ""


def countdown_s(size_bytes: int, slowest_bytes_per_s: float) -> int:
    """Return how long an applet waits for a copy that may be as slow as `slowest_bytes_per_s`, in seconds."""
    return min(LONGEST_S, MARGIN_S + int(size_bytes / slowest_bytes_per_s))


def undo_lines(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the lines that put back all that was set or may be: a mark last, a list after what refers to it.

    A line that the device does not show is its default: what we typed is what was there.
    """
    ordered = sorted(changes, key=undo_rank)
    return tuple(dict.fromkeys(change.undo(is_default=change.shown == "") for change in ordered))


def dead_man(task: Task, **given: Any) -> Result:
    """Nornir task: return a DeadManReport. See `arm`."""
    report = arm(session_of(task), **given)
    return Result(host=task.host, result=report, changed=report.is_armed)


def arm(
    session: DeviceSession,
    change: Change,
    *,
    undo: tuple[str, ...],
    countdown_s: int,
    instead_of: Change | None = None,
) -> DeadManReport:
    """Have the device send `undo` by itself after a while, and prove that it will.

    The caller has the change, the applet, on disk before it calls this, and takes it back in any case. An applet
    `instead_of` which this one comes goes once this one counts.

    Raises:
        DeviceRefused: The applet, or the one before it, could not be taken back.
        OutputNotUnderstood: The configuration cannot be read, or a prompt did not come; no session is left then.
        DeviceUnreachable: The session was lost; the applet may count.
    """
    reason = _Arming(session, change, undo, countdown_s).reason_against()
    if not reason and instead_of is not None:
        _take_back(session, instead_of)
    return DeadManReport(
        name=change.keyword, is_armed=not reason, countdown_s=countdown_s, undo=undo, reason=reason or ""
    )


class _Arming:
    """One attempt to arm an applet on one device."""

    def __init__(self, session: DeviceSession, change: Change, undo: tuple[str, ...], countdown_s: int) -> None:
        self._session, self._change = session, change
        self._undo = undo
        self._known: frozenset[str] = frozenset()
        configure = session.platform.commands.configure
        self._body = applet_body(change.keyword, undo, countdown_s, configure=configure)

    def reason_against(self) -> str | None:
        """Arm, and return why that failed; None where the applet counts."""
        running = read_running(self._session, without_syslog=True)
        self._known = frozenset(running.lines)
        head = self._change.ours
        reason = self._known_against(running)
        if reason is None:
            head, reason = self._first_line(running)
        reason = self._typed(head) if reason is None else reason
        return None if reason is None else reason + self._instead(running)

    def _instead(self, running: Configured) -> str:
        """Return the device's own alternative, as advice."""
        if first(ArchiveSection, running.commands) is None:
            return ""
        configure = self._session.platform.commands.configure
        return (
            f"; its archive is on: '{configure} revert timer MINUTES', given by hand, puts the whole configuration "
            "back, other people's changes too"
        )

    def _known_against(self, running: Configured) -> str | None:
        """Return what forbids it before anything is typed, or None."""
        if not may_be_carried(self._undo):
            return "a line that would have to be put back holds quotes, which no action can hold"
        if any(line.startswith(self._change.ours) for line in running.lines):
            return f"the device has an applet {self._change.keyword!r} already"
        free = free_vtys(ask_or_empty(self._session, self._session.platform.commands.terminal_lines))
        if free is not None and free < VTYS_NEEDED:
            return f"an applet needs {VTYS_NEEDED} free vty lines when it runs, and the device has {free}"
        return None

    def _first_line(self, running: Configured) -> tuple[str, str | None]:
        """Return the first line of an applet as the device takes it, and why it takes none, or None."""
        bypassing = self._change.ours + BYPASS
        refused = self._refusal((bypassing,))
        if refused is None:
            return bypassing, None
        if _is_authorized(running):
            return "", (
                "an AAA server authorizes commands, the device takes no applet that goes by without it "
                f"({refused}), and no '{SESSION_USER.strip()}' names a user for it"
            )
        refused = self._refusal((self._change.ours,))
        return self._change.ours, f"the device takes no applet ({refused})" if refused is not None else None

    def _typed(self, head: str) -> str | None:
        """Type the whole applet and prove it; return why it was taken back, or None."""
        refused = self._refusal((head, *self._body))
        reason = f"the device does not take all of the applet ({refused})" if refused is not None else None
        if reason is None:
            reason = self._unproven(head)
        if reason is not None:
            self._check_none_is_left(_take_back(self._session, self._change))
        return reason

    def _check_none_is_left(self, running: Configured) -> None:
        """Check that no new applet is there: a device may keep ours by another name.

        Raises:
            DeviceRefused: One is; it may be ours, and count.
        """
        head = f"{APPLET_COMMAND} "
        left = [line for line in running.lines if line.startswith(head) and line not in self._known]
        if left:
            raise DeviceRefused(
                f"{self._change.ours!r} was taken back, and there is {left[0]!r}, which was not there before",
                host=self._session.name,
                step=STEP,
                hint="Look at that applet's actions; where they are a run's, enter "
                f"'no {' '.join(left[0].split()[:4])}' by hand, then run 'flashferry recover'",
            )

    def _refusal(self, lines: tuple[str, ...]) -> str | None:
        """Send lines of the applet; return the device's words where it refuses one."""
        words = refusals(self._session.configure(lines), lines)
        return next((f"{line!r}: {said}" for line, said in words.items()), None)

    def _unproven(self, head: str) -> str | None:
        """Return what is missing from the proof that the applet counts and may do its work, or None."""
        for pause_s in (0.0, *LATE_PAUSES_S):
            time.sleep(pause_s)
            running = read_running(self._session)
            body = applet_shown(running.sections, self._change)
            # All of it: without `authorization bypass` in its head its commands may be refused when it runs.
            if body is not None and is_as_typed(body, self._body) and head in running.lines:
                break
        else:
            return "the device does not show the applet as it was typed"
        listed = ask_or_empty(self._session, self._session.platform.commands.applets)
        if re.search(rf"\s{re.escape(self._change.keyword)}\s*$", listed, re.MULTILINE) is None:
            return "the device does not list the applet among those that are registered"
        return None


def _is_authorized(running: Configured) -> bool:
    """Return whether an AAA server authorizes an applet's commands and no user is set for them."""
    has_user = any(line.startswith(SESSION_USER) for line in running.lines)
    return not has_user and first(CommandAuthorization, running.commands) is not None


def applet_shown(configuration: Configuration, change: Change) -> tuple[str, ...] | None:
    """Return the lines below an applet of ours in a configuration; None where it is not there."""
    for section in sections_of(configuration):
        if (section.line + " ").startswith(change.ours + " "):
            return tuple(line.strip() for line in section.body)
    return None


def free_vtys(printed: str) -> int | None:
    """Return how many vty lines are free by `show line`; None where it does not show that."""
    marks = _VTY.findall(printed)
    return sum(not mark for mark in marks) if marks else None


def _take_back(session: DeviceSession, change: Change) -> Configured:
    """Take an applet back and prove it gone; return the configuration then.

    Raises:
        DeviceRefused: It is still there.
    """
    undo = without_applet(change.ours)
    for pause_s in (0.0, *LATE_PAUSES_S):
        time.sleep(pause_s)
        session.configure((undo,))
        running = read_running(session)
        if running.tcp.of(applet_of(change.ours)) is None:
            return running
    raise DeviceRefused(
        f"{change.ours!r} could not be taken back",
        host=session.name,
        step=STEP,
        hint=f"Enter '{undo}' by hand, then run 'flashferry recover'",
    )
