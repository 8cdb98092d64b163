"""Step `restore`: undo every line that is still as we set it, then prove that the configuration is what it was.

Facts
-----

* A device may show a change seconds late, when it is set and when it is removed. So the lines that undo ours are sent
  even if ours are not shown: they do nothing if ours are gone. And the proof is read a second time, once the device has
  settled.
* Mark and applet keep other controllers off and undo our lines by themselves. So they stay until the lines are proven
  gone, and are removed in a configuration session of their own; the last reading proves them gone as well.
* Undoing a line may change another one: a default is shown that was not, a neighbouring line is gone. The author of a
  difference is proven only if nothing of ours was ever sent, or by the operator. So a difference keeps the device in
  the journal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.core.units import counted
from flashferry.devices.connection import session_of
from flashferry.devices.errors import RestoreIncomplete
from flashferry.devices.prompts import refusals
from flashferry.devices.session import DeviceSession
from tasks.applet import undo_carried
from tasks.dead_man import applet_shown
from tasks.read_config import (
    READINGS,
    Configured,
    Difference,
    difference,
    holds_syslog,
    new_lines,
    read_running,
    read_startup,
)
from tasks.restore_plan import ForeignChange, RestorePlan, lines_back, match_lines, plan_restore
from tasks.run_marker import is_mark, other_mark, owner_of
from tasks.snapshot import Snapshot, Threat, archived_lines, holds_ours, pending_change
from tasks.step import CostPhase, Step
from tasks.tcp_config import Change, TcpLines, marks_in

STEP = "restore"
RESTORE = Step(
    word=STEP,
    label="the configuration is restored, and proven to be what it was",
    doing="restoring",
    state="restored",
    record_field="restore",
    seconds=0.03,
    round_trips=9.4,
    stretch=CostPhase.RESTORE,
    runs_when_stopping=True,
)

SETTLE_S = 0.25
"""Seconds after the last line until the last reading, for a device that showed our lines at once."""

UNKNOWN_SETTLE_S = 2.0
"""The same if it is unknown how late the device shows what is set."""

LATE_PAUSES_S = (0.0, 0.5, 1.5, 3.0)
"""Pauses before readings of lines that should be gone; each time they are undone again."""


class RestoreReport(Struct, frozen=True, kw_only=True):
    """The result of a restore, with the proof.

    Attributes:
        commands: The lines sent.
        foreign: Lines that are neither ours nor what was there before; they were left alone.
        running: The lines that staging may change, afterwards.
        running_difference: The whole running configuration compared with the snapshot, without stamps.
        startup_changed: Whether those lines of the startup configuration changed while we were tuned.
        held_by: What could restore our lines, so that the device stays in the journal; None if nothing can.
        held_hint: What to do about it, or None.
        passes: Whether that ends by itself after a while.
        applet_was_gone: Whether the applet that undoes our lines (`tasks.dead_man`) was already gone.
        missing: Lines of the start that are missing, as far as their text is known.
        proposals: Lines that lead back to the start, as far as their text is known; none if nothing was sent and a
            run's mark is there.
        hidden: Lines of ours that the device accepted and never showed: their undoing was sent, and proves nothing.
        left: Lines of ours that are still in force; only if the operator accepted that.
        not_typed: Why nothing was sent although the device differs from the start, or None.
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
    missing: tuple[str, ...] = ()
    proposals: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    not_typed: str | None = None

    @property
    def is_proven(self) -> bool:
        """Return whether running configuration and startup lines equal the start, and nothing can change that."""
        return self.held_by is None and not self._findings

    @property
    def undecided(self) -> str | None:
        """Return the differences that the operator has to decide about, since their author is not proven, or None."""
        if not self._findings:
            return None
        about = self.not_typed + "; nothing was typed" if self.not_typed else ""
        if not (about or self.left or self.hidden):
            about = "our lines are proven gone"
        parts = (about, *self._findings)
        return "; ".join(part for part in parts if part) + "; this awaits a decision"

    def decision(self, host: str) -> str:
        """Return how the operator releases a device that awaits a decision, by its inventory name."""
        lines = ", ".join(f"'{line}'" for line in self.proposals)
        back = f"To have it as it was, enter {lines} by hand and run 'flashferry recover' again; to" if lines else "To"
        return f"{back} keep it as it is now, run 'flashferry recover --accept {host}'"

    @property
    def _findings(self) -> tuple[str, ...]:
        found = []
        if self.left:
            found.append("still in force: " + _quoted(self.left))
        if self.hidden:
            found.append(
                f"{_quoted(self.hidden)} was accepted without an error and is not shown: it was undone, and that it "
                "is gone cannot be proven"
            )
        if self.running_difference:
            found.append(f"the running configuration differs from the start ({self._difference})")
        elif self.foreign:
            found.append("; ".join(map(str, self.foreign)))
        if self.startup_changed:
            found.append("lines of the startup configuration changed meanwhile")
        return tuple(found)

    @property
    def _difference(self) -> str:
        unknown = self.running_difference.gone - len(self.missing)
        if not self.missing or unknown < 0 or self.running_difference.reordered:
            return str(self.running_difference)
        new = str(self.running_difference).rpartition("; gone: ")[0]
        return f"{new}; gone: {_quoted(self.missing)}" + (f" and {unknown} more" if unknown else "")


def _quoted(lines: Iterable[str]) -> str:
    return ", ".join(f"'{line}'" for line in lines)


def restore(task: Task, **given: Any) -> Result:
    """Nornir task: return a RestoreReport. See `restore_device`."""
    report = restore_device(session_of(task), **given)
    return Result(host=task.host, result=report, changed=bool(report.commands))


def restore_device(
    session: DeviceSession,
    *,
    before: Snapshot,
    changes: tuple[Change, ...],
    settle_s: float = UNKNOWN_SETTLE_S,
    is_again: bool = False,
    needs_mark: bool = False,
    doubt: str | None = None,
    is_accepted: bool = False,
) -> RestoreReport:
    """Undo our changes as far as they are still ours, and compare the whole configuration with the snapshot.

    Can be called at any time and repeatedly. Nothing is sent if another run holds the device.

    Args:
        session: An open session.
        before: The snapshot.
        changes: The lines that we set, or may have set.
        settle_s: Seconds after the last line until the last reading; without changes one reading is enough.
        is_again: Whether this was tried before: what the device made of the undoing lines is then ours.
        needs_mark: Whether nothing is sent either if neither the journal's mark nor its whole applet is there, or if
            another run's mark is: the journal may be older than the device's state.
        doubt: Why nothing is sent in any case, or None.
        is_accepted: Whether the operator accepts what is left: it is reported, not raised.

    Raises:
        RestoreIncomplete: A line of ours, or one that may be ours, is still in force after its undoing was sent.
        DeviceUnreachable: The session was lost; the journal still has the device.
    """
    run = _Restoring(session, before, changes, settle_s, is_again=is_again, is_accepted=is_accepted)
    return run.report(needs_mark=needs_mark, doubt=doubt)


class _Restoring:
    """One attempt to restore one device."""

    def __init__(
        self,
        session: DeviceSession,
        before: Snapshot,
        changes: tuple[Change, ...],
        settle_s: float,
        *,
        is_again: bool,
        is_accepted: bool,
    ) -> None:
        self._session, self._before, self._changes = session, before, changes
        self._settle_s, self._is_accepted = settle_s, is_accepted
        self._sent_before = tuple(change.before for change in changes if change.before is not None) if is_again else ()
        self._sent: list[str] = []
        self._refused: dict[str, str] = {}
        self._sent_at: float | None = None
        self._applet_was_gone = False

    def report(self, *, needs_mark: bool, doubt: str | None) -> RestoreReport:
        seen = read_running(self._session)
        applets = [change.keyword for change in self._changes if change.is_applet]
        self._applet_was_gone = bool(applets) and not any(seen.tcp.of(name) for name in applets)
        not_typed = self._reason_not_to_type(seen, needs_mark=needs_mark)
        if needs_mark and not_typed is not None and self._changes:
            # A device may show its configuration as it was some seconds ago.
            time.sleep(UNKNOWN_SETTLE_S)
            seen = read_running(self._session)
            not_typed = self._reason_not_to_type(seen, needs_mark=needs_mark)
        not_typed = (not_typed or doubt) if self._changes else None
        if not_typed is not None:
            startup = read_startup(self._session)
            # If nothing of ours is shown, there was nothing to undo.
            is_clear = not self._difference(seen) or (self._is_free(seen) and doubt is None)
            held = self._threat(seen, startup) if is_clear else None
            return self._reported(seen, startup, held, None if is_clear else not_typed)
        seen = self._undone(seen)
        startup = read_startup(self._session)
        held = self._threat(seen, startup)
        return self._reported(self._closed(seen), startup, held, None)

    def _reported(
        self, seen: Configured, startup: Configured, held: Threat | None, not_typed: str | None
    ) -> RestoreReport:
        plan = self._plan(seen)
        missing, proposals = self._lines_back(seen)
        if not_typed is not None and any(is_mark(line) for line in seen.tcp.lines):
            # Another run may be staging it: its lines must not be removed by hand.
            proposals = ()
        return RestoreReport(
            commands=tuple(self._sent),
            foreign=(*plan.foreign, *plan.uncertain) if self._is_accepted else plan.foreign,
            running=seen.tcp,
            running_difference=self._difference(seen),
            startup_changed=startup.tcp != self._before.startup,
            held_by=held.reason if held is not None else None,
            held_hint=held.hint if held is not None else None,
            passes=held is not None and held.passes,
            applet_was_gone=self._applet_was_gone,
            missing=missing,
            proposals=proposals,
            hidden=tuple(change.ours for change in self._changes if change.is_hidden),
            left=self._left(seen, plan) if self._is_accepted else (),
            not_typed=not_typed,
        )

    def _left(self, seen: Configured, plan: RestorePlan) -> tuple[str, ...]:
        """Return our lines that are in force."""
        return tuple(dict.fromkeys(self._present(seen, line) for line in (*plan.commands, *plan.closing)))

    def _present(self, seen: Configured, undo: str) -> str:
        """Return the shown line whose undoing is still needed."""
        for change in self._changes:
            if undo in {change.off, change.before, change.by_default}:
                return change.line_in(seen.tcp, seen.lines, beside=self._changes) or change.ours
        return undo

    def _reason_not_to_type(self, seen: Configured, *, needs_mark: bool) -> str | None:
        """Return why nothing may be sent, by the mark and applet on the device; None if the lines are ours."""
        marks = [change for change in self._changes if change.is_mark]
        is_marked = any(change.line_in(seen.tcp, ()) for change in marks)
        other = other_mark(seen.tcp.lines, marks_in(self._changes))
        if other is not None and (needs_mark or not is_marked):
            return f"{owner_of(other)} holds this device (its mark there is '{other}')"
        if needs_mark and marks and not is_marked and not self._is_ours_by_applet(seen):
            # The mark is sent before any other line: if it was never seen, no line of ours may be there either.
            mark, was_seen = marks[0].ours, any(change.shown for change in marks)
            left, no_more = ("left", " any more") if was_seen else ("was to leave", "")
            return (
                f"the mark that {owner_of(mark)} {left} ('{mark}') is not on the device{no_more}, so its lines cannot "
                "be distinguished from equal ones"
            )
        return None

    def _is_ours_by_applet(self, seen: Configured) -> bool:
        """Return whether the journal's applet is there, whole and alone, and would undo the journal's mark and lines.

        It is armed before the mark is set and names the run by that mark, so no other run's applet matches. If a line
        like one of ours is there as well, a colleague entered it or removed its mark: the operator decides.
        """
        configure = self._session.platform.commands.configure
        lines = [replace(change, shown=None) for change in self._changes if not change.is_applet]
        # A line from before is not one of ours.
        if any(line.line_in(seen.tcp, seen.lines) not in (None, line.before) for line in lines):
            return False
        for applet in (change for change in self._changes if change.is_applet):
            body = applet_shown(seen.sections, applet)
            undo = undo_carried(applet.keyword, body or (), configure=configure)
            if undo and all(
                line.undo(is_default=False) in undo or line.undo(is_default=True) in undo for line in lines
            ):
                return True
        return False

    def _is_free(self, seen: Configured) -> bool:
        """Return whether there is nothing to undo: no line that is or may be ours, no other mark."""
        plan = self._plan(seen)
        others = other_mark(seen.tcp.lines, marks_in(self._changes))
        return not (plan.commands or plan.closing or plan.uncertain or self._renamed(seen) or others)

    def _undone(self, seen: Configured) -> Configured:
        """Undo our lines until none is shown; return the configuration. Mark and applet stay. Raises if one is left."""
        # The first time undo lines that are not shown, too: the device may show them late.
        commands = self._plan(seen, is_sure=not self._sent).commands
        for pause_s in LATE_PAUSES_S:
            if not commands:
                break
            time.sleep(pause_s if self._sent else 0.0)
            self._send(commands)
            seen = read_running(self._session)
            commands = self._plan(seen).commands
            if self._refused:
                break
        return self._checked(seen)

    def _send(self, commands: tuple[str, ...]) -> None:
        self._refused = refusals(self._session.configure(commands), commands)
        self._sent += [line for line in commands if line not in self._sent]
        self._sent_at = time.monotonic()

    def _closed(self, seen: Configured) -> Configured:
        """Remove applet and mark after our lines; return the settled configuration. Raises if one is left or back."""
        closing = self._plan(seen, is_sure=True).closing
        if self._sent_at is not None:
            time.sleep(max(0.0, self._sent_at + self._settle_s - time.monotonic()))
            if closing and self._settle_s > SETTLE_S:
                # If the device shows changes late, one reading does not prove the lines gone.
                seen = self._still_undone(read_running(self._session))
        for pause_s in LATE_PAUSES_S if self._sent or closing else ():
            if closing:
                time.sleep(pause_s)
                self._send(closing)
            seen = self._still_undone(read_running(self._session))
            closing = self._plan(seen).closing
            if not closing or self._refused:
                break
        if closing:
            raise self._incomplete(closing)
        for _ in range(READINGS - 1):
            if not holds_syslog(seen.sections) or not self._difference(seen):
                break
            seen = read_running(self._session)
        return self._checked(seen)

    def _still_undone(self, seen: Configured) -> Configured:
        """Undo our lines once more if they are back."""
        return self._undone(seen) if self._plan(seen).commands and not self._is_accepted else seen

    def _incomplete(self, needed: tuple[str, ...]) -> RestoreIncomplete:
        said = [
            repr(line) + (f" (the device says: {self._refused[line]})" if line in self._refused else "")
            for line in needed
        ]
        return RestoreIncomplete(
            f"sent {counted(len(self._sent), 'line')} to undo our changes, but the device still needs "
            + ", ".join(said),
            host=self._session.name,
            step=STEP,
            hint="Enter these lines by hand, then run 'flashferry recover'",
        )

    def _checked(self, seen: Configured) -> Configured:
        left = self._plan(seen)
        if self._is_accepted:
            return seen
        if left.commands:
            raise self._incomplete(tuple(map(self._by_its_shown_words(seen), left.commands)))
        uncertain = [(one.ours, one.present) for one in left.uncertain] + self._renamed(seen)
        if uncertain:
            ours, present = uncertain[0]
            shown, it = (f"'{present}'", f"'{present}'") if present else ("no such line", "it so")
            raise RestoreIncomplete(
                f"where '{ours}' was sent the device shows {shown}: what it made of our line, or a change of a "
                "colleague's; it was left alone",
                host=self._session.name,
                step=STEP,
                hint=f"If {it} is not meant, {self._by_hand(ours)}, then run 'flashferry recover'; to keep it, run "
                f"'flashferry recover --accept {self._session.name}'",
            )
        return seen

    def _by_its_shown_words(self, seen: Configured) -> Callable[[str], str]:
        """Return a function from an undoing line to the same in the device's words."""
        others = {
            change.off: f"no {change.shown}"
            for change in self._changes
            if change.before is None
            and change.serves is None
            and change.shown in seen.lines
            and seen.tcp.of(change.keyword) is None
        }
        return lambda line: others.get(line, line)

    def _by_hand(self, ours: str) -> str:
        """Return what the operator has to do about a line of ours."""
        change = next(one for one in self._changes if one.ours == ours)
        if change.serves is None:
            return "put back by hand what was there"
        return f"enter '{change.off}' by hand" + (", which takes all of that list" if change.is_list else "")

    def _renamed(self, seen: Configured) -> list[tuple[str, str | None]]:
        """Return new lines of other families that may be lines of ours that were not seen."""
        unseen = [change for change in self._changes if change.shown is None]
        if not unseen:
            return []
        new = new_lines(self._before.running_fingerprint, seen.sections, salt=self._before.salt)
        strange = [line for line in new if line not in seen.tcp.lines]
        return [
            (one.ours, one.shown)
            for one in match_lines(unseen, TcpLines(lines=()), new_lines=strange).changes
            if one.shown
        ]

    def _lines_back(self, seen: Configured) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the missing lines of the start, and the lines that lead back to the start; both as far as known."""
        if not self._difference(seen):
            return (), ()
        new = new_lines(self._before.running_fingerprint, seen.sections, salt=self._before.salt)
        return lines_back(self._before.beside or self._before.running.lines, seen.lines, new)

    def _plan(self, seen: Configured, *, is_sure: bool = False) -> RestorePlan:
        sent = (*self._sent_before, *self._sent)
        return plan_restore(self._changes, seen.tcp, others=seen.lines, sent=sent, is_sure=is_sure)

    def _difference(self, seen: Configured) -> Difference:
        return difference(self._before.running_fingerprint, seen.sections, salt=self._before.salt)

    def _threat(self, seen: Configured, startup: Configured) -> Threat | None:
        """Return what could restore our lines; None if none was ever set."""
        if not self._changes:
            return None
        if holds_ours(self._changes, startup.sections, self._session.platform):
            return Threat(
                reason="the configuration was saved while our lines were set, so the startup configuration holds them, "
                "and a reload would bring them back",
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
