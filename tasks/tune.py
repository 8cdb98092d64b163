"""Step `tune`: set the lines of a TunePlan, and read how the device shows each of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace
from nornir.core.task import Result, Task

from flashferry.devices.connection import session_of
from flashferry.devices.errors import DeviceRefused
from flashferry.devices.platforms.platform import ValueKind
from flashferry.devices.prompts import refusal_in, refusals
from flashferry.devices.session import DeviceSession
from tasks.read_config import LATE_PAUSES_S, Configured, new_lines, read_running
from tasks.restore_plan import MatchedLines, match_lines, plan_restore
from tasks.run_marker import SHOW_OUR_LINES, in_other_hands, is_mark, other_mark, owner_of, without_mark
from tasks.snapshot import Snapshot, kept_meanwhile
from tasks.step import CostPhase, Step
from tasks.tcp_config import (
    EXTRAS,
    WINDOW_SIZE,
    Change,
    TcpLines,
    TunePlan,
    is_ours_to_type,
    marks_in,
    shows,
    tcp_lines_of,
)

STEP = "tune"
TUNE = Step(
    word=STEP,
    label="the TCP lines for the copy are set",
    doing="tuning",
    state="tuned",
    record_field="tune",
    seconds=0.3,
    round_trips=20,
    stretch=CostPhase.SET_UP,
    is_delivery=True,
)
"""Its cost includes the snapshot before it and the login at our server after it: they were measured together."""


Remember = Callable[[tuple[Change, ...]], None]


class TuneReport(Struct, frozen=True, kw_only=True):
    """The device's lines after tuning, and what became of our lines that are not among them.

    Attributes:
        running: The lines as read again.
        not_shown: Our lines that the device does not show, since they are the default of that release.
        refused: Lines that the device refused before it accepted a smaller window, with the device's words.
        other_words: Our lines that it shows differently, with what it shows.
        is_marked: Whether the run's mark is set.
        late_s: Seconds until the device showed the lines; 0 if at once.
        channel_as_before: Whether the device accepted no line that widens the SSH channel's window.
    """

    running: TcpLines
    not_shown: tuple[str, ...]
    refused: tuple[str, ...] = ()
    other_words: tuple[str, ...] = ()
    is_marked: bool = False
    late_s: float = 0.0
    channel_as_before: bool = False


def tune(task: Task, plan: TunePlan, before: Snapshot | None = None, remember: Remember | None = None) -> Result:
    """Nornir task: return a TuneReport. See `apply_plan`.

    If it fails before the first line was sent, `remember` gets an empty plan: nothing has to be undone.
    """
    session, sent_before = None, 0
    try:
        session = session_of(task)
        sent_before = session.lines_sent
        report = apply_plan(session, plan, before=before, remember=remember)
    except BaseException:
        if remember is not None and (session is None or session.lines_sent == sent_before):
            remember(())
        raise
    return Result(host=task.host, result=report, changed=bool(plan.changes))


def set_again(task: Task, changes: tuple[Change, ...], remember: Remember | None = None) -> Result:
    """Nornir task: return a TuneReport. See `reapply`."""
    report = reapply(session_of(task), changes, remember=remember)
    return Result(host=task.host, result=report, changed=True)


def reapply(session: DeviceSession, changes: tuple[Change, ...], *, remember: Remember | None = None) -> TuneReport:
    """Set our lines again that are as they were before us, after the device restarted.

    A line that was changed otherwise in between is left alone.

    Raises:
        DeviceRefused: The device refused a line, or never showed one; others may be in force.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    check_all_shown(session, changes)
    running = read_running(session).tcp
    gone = tuple(
        change
        for change in changes
        if running.of(change.keyword) == change.before and not shows(change, running.of(change.keyword))
    )
    kept = tuple(change for change in changes if change not in gone)

    def remember_all(again: tuple[Change, ...]) -> None:
        if remember is not None:
            remember((*kept, *again))

    return apply_plan(session, TunePlan(changes=gone), remember=remember_all, reads_first=True)


def step_down(task: Task, changes: tuple[Change, ...], remember: Remember) -> Result:
    """Nornir task: return a TuneReport. See `without_scaling`."""
    report = without_scaling(session_of(task), changes, remember=remember)
    return Result(host=task.host, result=report, changed=True)


def without_scaling(session: DeviceSession, changes: tuple[Change, ...], *, remember: Remember) -> TuneReport:
    """Undo our windows, and set the largest one without scaling instead: the device failed with ours.

    They are proven gone before the journal drops them, so a crash at any moment leaves nothing unknown. The window of
    an SSH channel is restored. `remember` receives the changes that hold instead, before they are sent.

    Raises:
        DeviceRefused: Our window could not be undone, it was saved meanwhile, or no other is accepted.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    check_all_shown(session, changes)
    window = tuple(change for change in changes if change.keyword == WINDOW_SIZE or change.is_channel)
    seen = read_running(session)
    undo = plan_restore(window, seen.tcp, others=seen.lines)
    if undo.commands:
        session.configure(undo.commands)
    seen = read_running(session)
    left = plan_restore(window, seen.tcp, others=seen.lines)
    smaller = TunePlan(changes=changes, may_back_off=True).unscaled()
    if left.commands or left.foreign or left.uncertain or smaller is None:
        raise DeviceRefused(
            f"{window[0].ours!r} could not be taken back for a smaller one" if window else "there is no window of ours",
            host=session.name,
            step=STEP,
            hint=f"A colleague may have changed its '{session.platform.tcp.family}' lines meanwhile: look at them, or "
            "stage it with --no-tune",
        )
    threat = kept_meanwhile(session, window, seen)
    if threat is not None:
        raise DeviceRefused(
            f"no smaller window is tried: {threat.reason}", host=session.name, step=STEP, hint=threat.hint
        )
    remember(smaller.changes)
    return apply_plan(session, smaller, remember=remember)


def check_all_shown(session: DeviceSession, changes: tuple[Change, ...]) -> None:
    """Check that no line to be set again or dropped is one that the device never showed.

    Raises:
        DeviceRefused: One is: it stays in the journal, and the restore does not report it as gone.
    """
    hidden = next((change for change in changes if change.is_hidden), None)
    if hidden is not None:
        raise DeviceRefused(
            f"{hidden.ours!r} was accepted without an error and is not shown: that it is gone cannot be proven, so no "
            "other line is set in its place",
            host=session.name,
            step=STEP,
            hint=_hint(hidden),
        )


def apply_plan(
    session: DeviceSession,
    plan: TunePlan,
    *,
    before: Snapshot | None = None,
    remember: Remember | None = None,
    reads_first: bool = False,
) -> TuneReport:
    """Send the plan's lines and read how the device shows them; step down to a smaller window if allowed.

    The caller has the plan's changes on disk before, and undoes them in any case.

    Args:
        session: An open session.
        plan: The lines to set.
        before: The snapshot, for a release that shows a line of ours in words of another family.
        remember: Receives the changes that hold instead: before a smaller window is sent, and once it is known how the
            device shows them. They must be on disk when it returns.
        reads_first: Whether the line to be replaced is read again right before, even without a snapshot.

    Raises:
        DeviceRefused: One of these lines was changed since the snapshot, and it was not sent; or the device refused a
            line, or does not show it, or another run holds it, and others may be in force.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    if not plan.changes:
        return TuneReport(running=read_running(session).tcp, not_shown=())
    _check_restorable(session.name, plan)
    return _Tuning(session, before, remember, reads_first=reads_first or before is not None).apply(plan)


class _Tuning:
    """One attempt to set lines on one device."""

    def __init__(
        self, session: DeviceSession, before: Snapshot | None, remember: Remember | None, *, reads_first: bool
    ) -> None:
        self._session, self._before, self._reads_first = session, before, reads_first
        self._remember = remember if remember is not None else _forget
        self._refusals: list[str] = []

    def apply(self, plan: TunePlan) -> TuneReport:
        wants_channel = any(change.is_channel for change in plan.changes)
        plan, seen = self._sent(plan)
        matched, seen, late_s = self._matched(plan.changes, seen)
        matched, seen = self._without_unseen(matched, seen)
        self._remember(matched.changes)
        self._check_is_ours_alone(matched.changes, seen.tcp)
        return TuneReport(
            running=seen.tcp,
            not_shown=tuple(change.ours for change in matched.changes if not change.shown),
            refused=tuple(self._refusals),
            other_words=tuple(f"'{one.ours}' is shown as '{one.shown}'" for one in matched.in_other_words),
            is_marked=any(change.is_mark for change in matched.changes),
            late_s=late_s,
            channel_as_before=wants_channel and not any(change.is_channel for change in matched.changes),
        )

    def _sent(self, plan: TunePlan) -> tuple[TunePlan, Configured]:
        """Send the lines, with smaller windows while refused; return the accepted plan and the configuration."""
        sent = plan.commands
        while True:
            refused = refusals(self._configured(plan, sent), sent)
            seen = read_running(self._session)
            plan, refused = self._without_refused_mark(plan, refused, seen.tcp)
            smaller = _next_plan(self._session.name, plan, refused, seen.tcp)
            self._refusals += [f"{line}: {words}" for line, words in refused.items()]
            if smaller is None:
                return plan, seen
            self._remember(smaller.changes)
            sent = tuple(one.ours for one in smaller.changes if one not in plan.changes)
            plan = smaller
            if not sent:
                return plan, seen

    def _configured(self, plan: TunePlan, sent: tuple[str, ...]) -> str:
        """Send lines if those that they replace are still as they were, and return the transcript; raise if not.

        Those are read in configuration mode right before: a colleague's change within the one round trip after that
        cannot be seen.
        """
        if not self._reads_first:
            return self._session.configure(sent)
        found: list[str] = []

        def is_changed(give: Callable[[str], str]) -> bool:
            shown = give(f"do {SHOW_OUR_LINES}")
            if refusal_in(shown) is None:
                lines = tuple(line.rstrip() for line in shown.splitlines())
                found.extend(_changed(plan, sent, tcp_lines_of(lines, self._session.platform)))
            return bool(found)

        transcript = self._session.configure(sent, unless=is_changed)
        if not found:
            return transcript
        # Those lines may be part of a banner: the whole configuration decides.
        if changed := tuple(_changed(plan, sent, read_running(self._session).tcp)):
            is_first = sent == plan.commands
            if is_first:
                self._remember(())
            raise DeviceRefused(
                f"{changed[0]}; it was changed since the snapshot a moment ago, so that "
                f"{'nothing' if is_first else 'no smaller window'} was set",
                host=self._session.name,
                step=STEP,
                hint="Stage the device again: what is there by then is what comes back afterwards",
            )
        return self._session.configure(sent)

    def _without_refused_mark(
        self, plan: TunePlan, refused: dict[str, str], seen: TcpLines
    ) -> tuple[TunePlan, dict[str, str]]:
        """Return the plan without a mark that the device refuses."""
        mark = next((line for line in refused if is_mark(line)), None)
        if mark is None or mark in seen.lines:
            # If the mark is there, the refusal was about another line.
            return plan, refused
        self._session.configure((without_mark(mark),))
        plan = replace(plan, changes=tuple(one for one in plan.changes if not one.is_mark))
        self._remember(plan.changes)
        return plan, {line: words for line, words in refused.items() if not is_mark(line)}

    def _matched(self, changes: tuple[Change, ...], seen: Configured) -> tuple[MatchedLines, Configured, float]:
        """Match our lines with what is shown, in several readings if needed; return also how late they were shown."""
        started, late_s = time.monotonic(), 0.0
        found = self._match(changes, seen)
        for pause_s in LATE_PAUSES_S:
            if not found.unmatched or (late_s and len(found.unmatched) < len(changes)):
                break
            time.sleep(pause_s)
            seen = read_running(self._session)
            late_s = time.monotonic() - started
            found = self._match(changes, seen)
        return found, seen, late_s

    def _match(self, changes: tuple[Change, ...], seen: Configured) -> MatchedLines:
        found = match_lines(changes, seen.tcp)
        if not found.unmatched or self._before is None:
            return found
        new = new_lines(self._before.running_fingerprint, seen.sections, salt=self._before.salt)
        own = {seen.tcp.of(change.keyword) for change in changes}
        return match_lines(changes, seen.tcp, new_lines=[line for line in new if line not in own])

    def _without_unseen(self, found: MatchedLines, seen: Configured) -> tuple[MatchedLines, Configured]:
        """Undo lines that are not shown, except defaults, which need no line of ours.

        Raises if a line is not shown although it is no default: later it could not be proven gone.
        """
        if not found.unmatched:
            return found, seen
        # Before anything more is sent: if the session is lost now, the line's absence proves nothing.
        unseen = (one if one.is_mark else replace(one, is_hidden=True) for one in found.unmatched)
        self._remember((*(one for one in found.changes if one not in found.unmatched), *unseen))
        self._session.configure(tuple(_negated(change) for change in found.unmatched))
        seen = read_running(self._session)
        stands = [(one, seen.tcp.of(one.keyword)) for one in found.unmatched]
        defaults = tuple(one for one, line in stands if one.is_off(line) and line != one.before)
        if defaults:
            self._session.configure(tuple(change.ours for change in defaults))
            seen = read_running(self._session)
        kept = tuple(change for change in found.changes if change not in found.unmatched)
        lost = [one for one in found.unmatched if one not in defaults and not one.is_mark]
        if lost:
            # Undone at once, and kept in the journal: its absence cannot be proven.
            self._remember((*kept, *defaults, *(replace(one, is_hidden=True) for one in lost)))
            self._take_back(found.changes, seen)
            raise DeviceRefused(
                f"the device accepts {lost[0].ours!r} without an error and does not show it, so that it could not be "
                "proven gone later; it was undone at once",
                host=self._session.name,
                step=STEP,
                hint=_hint(lost[0]),
            )
        # Defaults stay in the journal: a rollback to this moment would restore our `no`.
        return MatchedLines(changes=(*kept, *(replace(one, shown="") for one in defaults)), unmatched=()), seen

    def _check_is_ours_alone(self, changes: tuple[Change, ...], seen: TcpLines) -> None:
        """Raise if another run's mark is there too; the restore then undoes our lines, and our mark last."""
        other = other_mark(seen.lines, marks_in(changes))
        if other is not None:
            raise in_other_hands(self._session.name, STEP, other)

    def _take_back(self, changes: tuple[Change, ...], seen: Configured) -> None:
        undo = plan_restore(changes, seen.tcp, others=seen.lines)
        if undo.commands:
            self._session.configure(undo.commands)


def _forget(changes: tuple[Change, ...]) -> None:
    """Store nothing; for callers without a journal."""


def _changed(plan: TunePlan, sent: tuple[str, ...], present: TcpLines) -> Iterator[str]:
    """Yield a sentence for each line to be sent that replaces something else than when the plan was made."""
    other = other_mark(present.lines, marks_in(plan.changes))
    if other is not None:
        yield f"{owner_of(other)} holds this device (its mark there is '{other}')"
    for change in plan.changes:
        now = present.of(change.keyword)
        if change.ours in sent and not change.is_mark and now != change.before:
            was, found = (f"'{line}'" if line else "no such line" for line in (change.before, now))
            yield f"expected {was} where {change.ours!r} was to be set, found {found}"


def _negated(change: Change) -> str:
    """Return the line that undoes one that is not shown."""
    return change.undo(is_default=False)


def _check_restorable(host: str, plan: TunePlan) -> None:
    """Raise, before anything is sent, if a replaced line is in words that we never send."""
    strange = next((change for change in plan.changes if not is_ours_to_type(change)), None)
    if strange is not None:
        raise DeviceRefused(
            f"expected a line for '{strange.keyword}' that can be put back as it is, found {strange.before!r}",
            host=host,
            step=STEP,
            hint="Stage this device with --no-tune",
        )


def _next_plan(host: str, plan: TunePlan, refused: dict[str, str], running: TcpLines) -> TunePlan | None:
    """Return the plan to continue with if the window was refused; None if nothing was. Raises if none is left."""
    absent = [change for change in plan.changes if not shows(change, running.of(change.keyword))]
    missed = [change for change in absent if change.ours in refused]
    if not missed and refused and absent:
        # Some line was refused and some are missing: whatever the transcript says, these are the refused ones.
        missed, refused = absent, dict.fromkeys((change.ours for change in absent), next(iter(refused.values())))
    if not missed:
        return None
    # A line that is neither ours nor as before was changed by others.
    untouched = all(running.of(change.keyword) == change.before for change in missed)
    smaller = plan.without(missed) if untouched else None
    if smaller is not None:
        return smaller
    other = next((one for one in missed if not one.is_channel and one.keyword != WINDOW_SIZE), missed[0])
    raise DeviceRefused(
        f"the device does not take {other.ours!r}: {refused[other.ours]}", host=host, step=STEP, hint=_hint(other)
    )


def _hint(change: Change) -> str:
    if change.keyword in EXTRAS.values():
        name = next(name for name, keyword in EXTRAS.items() if keyword == change.keyword)
        return f"Stage this device without --extra {name}"
    if change.kind is ValueKind.INTERFACE:
        return "Correct 'source_interface' in the inventory"
    return "Stage this device with --no-tune, or give a smaller --window-bytes"
