"""Step `restore`: put every line back that is still as we set it, then prove that the configuration is what it was.

Facts
-----
* What a device shows may be late by seconds, in either direction. So what takes our lines back is sent also where they
  are not shown: where they are gone it does nothing. And the proof is looked at a second time, once the device settled.
* A difference that our own doing can explain is not called somebody else's: the device stays in the journal.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from nornir.core.task import Result, Task

from flashferry.core.described import counted
from flashferry.devices.connection import session_of
from flashferry.devices.errors import RestoreIncomplete
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.configuration import Difference, difference, holds_syslog, new_lines
from tasks.line_state import match_lines
from tasks.readings import READINGS, Configured, read_running, read_startup
from tasks.restore_plan import ForeignChange, RestorePlan, plan_restore
from tasks.snapshot import Snapshot
from tasks.step import Step, Stretch
from tasks.tcp_config import Change, TcpLines
from tasks.threats import Threat, archived_lines, holds_ours, pending_change

STEP = "restore"
RESTORE = Step(
    word=STEP,
    doing="restoring",
    state="restored",
    record_field="restore",
    seconds=0.03,
    round_trips=7.4,
    stretch=Stretch.RESTORE,
    goes_on_when_stopped=True,
)

SETTLE_S = 0.25
"""So long after the last line was sent a device that showed our lines at once is looked at again."""

UNKNOWN_SETTLE_S = 2.0
"""The same where nobody knows how late it shows what is set."""

LATE_PAUSES_S = (0.0, 0.5, 1.5, 3.0)
"""Pauses in front of looks for lines that should be gone; each time they are taken back again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What restoring did, and the proof.

    Attributes:
        commands: Lines that were sent; none where there was nothing to take back.
        foreign: Lines that somebody else changed meanwhile; they were left alone.
        running: The lines that staging may change, after.
        running_difference: The whole running configuration against the snapshot, stamps left out.
        startup_changed: Whether those lines of the startup configuration changed: somebody saved while we were tuned.
        held_by: What could bring our lines back, so that the device stays in the journal; None where nothing can.
        held_hint: What to do about it, or None.
        passes: Whether that is over by itself after a while.
        applet_was_gone: Whether the applet that undoes our lines by itself (`tasks.dead_man`) was not there any more.
    """

    commands: tuple[str, ...]
    foreign: tuple[ForeignChange, ...]
    running: TcpLines
    running_difference: Difference
    startup_changed: bool
    held_by: str | None = None
    held_hint: str | None = None
    passes: bool = False
    applet_was_gone: bool = False

    @property
    def is_proven(self) -> bool:
        """Return whether running configuration and startup lines equal the start, and nothing can change that."""
        return not (self.foreign or self.running_difference or self.startup_changed or self.held_by)


def restore(
    task: Task,
    before: Snapshot,
    changes: tuple[Change, ...],
    settle_s: float = UNKNOWN_SETTLE_S,
    *,
    is_again: bool = False,
) -> Result:
    """Nornir task: return a RestoreReport. See `restore_device`."""
    report = restore_device(session_of(task), before=before, changes=changes, settle_s=settle_s, is_again=is_again)
    return Result(host=task.host, result=report, changed=bool(report.commands))


def restore_device(
    session: DeviceSession,
    *,
    before: Snapshot,
    changes: tuple[Change, ...],
    settle_s: float = UNKNOWN_SETTLE_S,
    is_again: bool = False,
) -> RestoreReport:
    """Undo our changes as far as they are still ours, and compare the whole configuration with the snapshot.

    May be called at any time and again.

    Args:
        session: An open session.
        before: What the configuration was.
        changes: What we set, or may have set.
        settle_s: How long after the last line the device is looked at again, in seconds; nothing was set where there
            are no changes, and one look is enough.
        is_again: Whether this was tried before: what the device made of the lines that put back is not somebody else's.

    Raises:
        RestoreIncomplete: A line of ours is still in force after its undoing was sent, or one is that may be ours.
        DeviceUnreachable: The session was lost; the journal still knows the device.
    """
    return _Restoring(session, before, changes, settle_s, is_again=is_again).report()


class _Restoring:
    """One go at putting one device back."""

    def __init__(
        self,
        session: DeviceSession,
        before: Snapshot,
        changes: tuple[Change, ...],
        settle_s: float,
        *,
        is_again: bool,
    ) -> None:
        self._session, self._before, self._changes = session, before, changes
        self._settle_s = settle_s
        self._sent_before = tuple(change.before for change in changes if change.before is not None) if is_again else ()
        self._sent: list[str] = []
        self._refused: dict[str, str] = {}
        self._sent_at: float | None = None
        self._applet_was_gone = False

    def report(self) -> RestoreReport:
        seen = self._undone()
        startup = read_startup(self._session)
        held = self._threat(seen, startup)
        seen = self._second_look(seen)
        return RestoreReport(
            commands=tuple(self._sent),
            foreign=self._plan(seen).foreign,
            running=seen.tcp,
            running_difference=self._difference(seen),
            startup_changed=startup.tcp.as_in(self._before.scope) != self._before.startup,
            held_by=held.reason if held is not None else None,
            held_hint=held.hint if held is not None else None,
            passes=held is not None and held.passes,
            applet_was_gone=self._applet_was_gone,
        )

    def _undone(self) -> Configured:
        """Take our lines back until none is shown any more; return what is shown then.

        Raises:
            RestoreIncomplete: One still is, or something that may be ours.
        """
        # The first time also what is not shown: the device may be late, and what is gone is not harmed.
        commands = self._plan(seen := read_running(self._session), is_sure=True).commands
        applets = [change.keyword for change in self._changes if change.is_applet]
        self._applet_was_gone = bool(applets) and not any(seen.tcp.of(name) for name in applets) and not self._sent
        for pause_s in LATE_PAUSES_S:
            time.sleep(pause_s if self._sent else 0.0)
            if commands:
                self._send(commands)
                seen = read_running(self._session)
            commands = self._plan(seen).commands
            if not commands or self._refused:
                break
        return self._checked(seen)

    def _send(self, commands: tuple[str, ...]) -> None:
        self._refused = refusals(self._session.configure(commands), commands)
        self._sent += [line for line in commands if line not in self._sent]
        self._sent_at = time.monotonic()

    def _checked(self, seen: Configured) -> Configured:
        left = self._plan(seen)
        if left.commands:
            needed = ", ".join(
                repr(line) + (f" (the device says: {self._refused[line]})" if line in self._refused else "")
                for line in left.commands
            )
            raise RestoreIncomplete(
                f"sent {counted(len(self._sent), 'line')} to undo our changes, but the device still needs {needed}",
                host=self._session.name,
                step=STEP,
                hint="Enter these lines by hand, then run 'flashferry recover'",
            )
        uncertain = [(one.ours, one.present) for one in left.uncertain] + self._renamed(seen)
        if uncertain:
            ours, present = uncertain[0]
            shown, it = (f"'{present}'", f"'{present}'") if present else ("no such line", "it so")
            raise RestoreIncomplete(
                f"where '{ours}' was sent the device shows {shown}: what it made of our line, or somebody else's "
                "doing; it was left alone",
                host=self._session.name,
                step=STEP,
                hint=f"If nobody wants {it}, {self._by_hand(ours)}, then run 'flashferry recover'; else "
                f"let go of the device with 'flashferry recover --forget {self._session.name}'",
            )
        return seen

    def _by_hand(self, ours: str) -> str:
        """Return what somebody has to do in place of us about a line of ours."""
        change = next(one for one in self._changes if one.ours == ours)
        if change.serves is None:
            return "put back by hand what was there"
        return f"enter '{change.off}' by hand" + (", which takes all of that list" if change.is_list else "")

    def _renamed(self, seen: Configured) -> list[tuple[str, str | None]]:
        """Return new lines of no family of ours that may be one of ours, where nobody saw what became of that."""
        unseen = [change for change in self._changes if change.shown is None]
        if not unseen:
            return []
        new = new_lines(self._before.running_fingerprint, seen.text, salt=self._before.salt)
        strange = [line for line in new if line not in seen.tcp.lines]
        return [
            (one.ours, one.shown)
            for one in match_lines(unseen, TcpLines(lines=()), new_lines=strange).changes
            if one.shown
        ]

    def _second_look(self, seen: Configured) -> Configured:
        """Return what is shown once the device has settled, and no log line has fallen into it."""
        if self._sent_at is not None:
            time.sleep(max(0.0, self._sent_at + self._settle_s - time.monotonic()))
            seen = read_running(self._session)
            if self._plan(seen).commands:
                seen = self._undone()
        for _ in range(READINGS - 1):
            if not holds_syslog(seen.text) or not self._difference(seen):
                break
            seen = read_running(self._session)
        return self._checked(seen)

    def _plan(self, seen: Configured, *, is_sure: bool = False) -> RestorePlan:
        sent = (*self._sent_before, *self._sent)
        return plan_restore(self._changes, seen.tcp, others=seen.lines, sent=sent, is_sure=is_sure)

    def _difference(self, seen: Configured) -> Difference:
        return difference(self._before.running_fingerprint, seen.text, salt=self._before.salt)

    def _threat(self, seen: Configured, startup: Configured) -> Threat | None:
        """Return what could bring our lines back; nothing can where none was ever set."""
        if not self._changes:
            return None
        if holds_ours(self._changes, startup.text, self._session.platform):
            return Threat(
                reason="somebody saved while our lines were set, so the startup configuration holds them, and a reload "
                "would bring them back",
                hint="Save the running configuration ('write memory') if nothing else speaks against it, which takes "
                f"{_lines(self._changes)} out of it, then run 'flashferry recover'",
                passes=False,
            )
        return pending_change(self._session, seen) or archived_lines(
            self._session, self._changes, seen, frozenset(self._before.archives)
        )


def _lines(changes: tuple[Change, ...]) -> str:
    """Return our lines in words."""
    return " and ".join(f"'{change.ours}'" for change in changes)
