"""Step `dead-man`: an EEM applet that undoes our lines if controller or path are gone for good.

It is armed before the first of our lines and read back. An applet that is not shown as sent, or is not registered, is
removed at once, and the device is staged without one. It is removed at the restore. If its countdown ends before that,
it has undone our lines, and the copy continues: window and selective acknowledgement belong to a connection's SYN.
It cannot compare first: it removes or replaces what a colleague entered meanwhile in place of our line. If a colleague
saves it together with our lines, a reload restores both. That is detected like any other saved line of ours
(`tasks.snapshot`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
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
from tasks.read_config import LATE_PAUSES_S, Configured, ask_or_empty, read_running
from tasks.restore_plan import undo_rank
from tasks.step import Step
from tasks.tcp_config import Change
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
"""Seconds that an applet waits beyond the slowest copy: for checks, hashing and the restore."""

VTYS_NEEDED = 2
"""vty lines that an applet takes when it runs (Cisco: `minimum of two required by EEM`)."""

LONGEST_S = 4_000_000
"""A countdown takes at most 4294967 seconds (Cisco EEM command reference)."""

_VTY = re.compile(r"^\s*(\*?)\s*\d+(?:\s+\d+)?\s+VTY\b", re.MULTILINE)


class DeadManReport(Struct, frozen=True, kw_only=True):
    """Whether a device undoes our lines by itself, and when.

    Attributes:
        countdown_s: Its countdown in seconds.
        undo: The lines that it sends before it removes itself.
        reason: Why there is none; empty if there is one.
        earlier: Name of an older armed applet that lacks some of our lines; empty if none.
    """

    name: str
    is_armed: bool
    countdown_s: int
    undo: tuple[str, ...]
    reason: str = ""
    earlier: str = ""


def countdown_s(size_bytes: int, slowest_bytes_per_s: float) -> int:
    """Return an applet's countdown in seconds for a copy that may be as slow as `slowest_bytes_per_s`."""
    return min(LONGEST_S, MARGIN_S + int(size_bytes / slowest_bytes_per_s))


def undo_lines(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the lines that undo all changes: a mark last, a list after the line that refers to it.

    A line that the device does not show is its default: what we sent is what was there.
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
    """Have the device send `undo` by itself after a countdown, and prove that it will.

    The caller has the applet's change on disk before, and removes the applet in any case. The applet `instead_of` is
    removed once this one is armed.

    Raises:
        DeviceRefused: The applet, or the earlier one, could not be removed.
        OutputNotUnderstood: The configuration cannot be read, or a prompt did not come; the session is gone then.
        DeviceUnreachable: The session was lost; the applet may be armed.
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
        """Arm the applet, and return why that failed; None if it is armed."""
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
        """Return what forbids the applet before anything is sent, or None."""
        if not may_be_carried(self._undo):
            return "a line that would have to be put back holds quotes, which no action can hold"
        if any(line.startswith(self._change.ours) for line in running.lines):
            return f"the device has an applet {self._change.keyword!r} already"
        free = free_vtys(ask_or_empty(self._session, self._session.platform.commands.terminal_lines))
        if free is not None and free < VTYS_NEEDED:
            return f"an applet needs {VTYS_NEEDED} free vty lines when it runs, and the device has {free}"
        return None

    def _first_line(self, running: Configured) -> tuple[str, str | None]:
        """Return the applet's first line as the device accepts it, and why it accepts none, or None."""
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
        """Send the whole applet and prove it; return why it was removed, or None."""
        refused = self._refusal((head, *self._body))
        reason = f"the device does not take all of the applet ({refused})" if refused is not None else None
        if reason is None:
            reason = self._unproven(head)
        if reason is not None:
            self._check_none_is_left(_take_back(self._session, self._change))
        return reason

    def _check_none_is_left(self, running: Configured) -> None:
        """Raise if a new applet is there: the device may keep ours under another name, armed."""
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
        """Send lines of the applet; return the device's words if it refuses one."""
        words = refusals(self._session.configure(lines), lines)
        return next((f"{line!r}: {said}" for line, said in words.items()), None)

    def _unproven(self, head: str) -> str | None:
        """Return what is missing from the proof that the applet is armed and may do its work, or None."""
        for pause_s in (0.0, *LATE_PAUSES_S):
            time.sleep(pause_s)
            running = read_running(self._session)
            body = applet_shown(running.sections, self._change)
            # The whole head: without `authorization bypass` its commands may be refused when it runs.
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
    """Return the lines below an applet of ours in a configuration; None if it is not there."""
    for section in sections_of(configuration):
        if (section.line + " ").startswith(change.ours + " "):
            return tuple(line.strip() for line in section.body)
    return None


def free_vtys(printed: str) -> int | None:
    """Return the number of free vty lines by `show line`; None if it does not show that."""
    marks = _VTY.findall(printed)
    return sum(not mark for mark in marks) if marks else None


def _take_back(session: DeviceSession, change: Change) -> Configured:
    """Remove an applet and prove it gone; return the configuration. Raises if it is still there."""
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
