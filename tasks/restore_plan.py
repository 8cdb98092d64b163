"""Which of our lines a shown line is, and which lines restore the configuration exactly. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from flashferry.devices.platforms.platform import ValueKind
from tasks.applet import is_applet
from tasks.run_marker import is_mark
from tasks.tcp_config import Change, TcpLines, may_be_shown, shows, window_of

ROUNDING = 0.02
"""A window that differs from ours by no more than this share is ours, rounded by the device."""


class LineState(Enum):
    """The line found in place of a line of ours.

    Attributes:
        BEFORE: The line from before: ours was never set, refused, undone, or is not shown (yet).
        UNCERTAIN: What the device may have made of our line, or of the one that undoes it; or a colleague's change.
        FOREIGN: A line that ours cannot have become.
    """

    BEFORE = "before"
    OURS = "ours"
    UNCERTAIN = "uncertain"
    FOREIGN = "foreign"


def line_state(
    change: Change, now: str | None, others: frozenset[str] = frozenset(), *, is_undone: bool = False
) -> LineState:
    """Return the state of a line of ours, given `now`, the line shown for its keyword.

    With `is_undone` the line from before has just been sent.
    """
    if change.is_mark:
        return LineState.BEFORE if now is None else LineState.OURS
    if change.serves is not None:
        return _serving_state(change, now, others)
    if change.shown and change.shown in others and change.shown != change.before:
        return LineState.OURS
    if now == change.before:
        return LineState.BEFORE
    if change.shown == "" and change.before is None and change.is_off(now):
        # A default that we tried to switch off and on: a rollback may have restored that moment.
        return LineState.UNCERTAIN
    if _is_ours(change, now):
        return LineState.OURS
    if change.kind is ValueKind.BYTES and _has_lost_digits(change.before, now):
        # A damaged copy of the line that undoes ours: ours to repair if we have just sent it.
        return LineState.OURS if is_undone else LineState.UNCERTAIN
    is_explained = is_undone or (change.shown is None and _may_be_ours(change, now))
    return LineState.UNCERTAIN if is_explained else LineState.FOREIGN


def _serving_state(change: Change, now: str | None, others: Iterable[str]) -> LineState:
    """Return the state of a line by which the device serves others.

    Its name was free right before it was sent. Anything else under that name stays uncertain: another list may have got
    our entries.
    """
    kind = change.serves
    assert kind is not None
    if now is None:
        return LineState.BEFORE
    if kind.stands_for(change.ours, now):
        return LineState.OURS
    is_there = any(kind.stands_for(change.ours, line) for line in others)
    return LineState.UNCERTAIN if change.shown is None or is_there else LineState.FOREIGN


def _is_ours(change: Change, now: str | None) -> bool:
    if now is None:
        # On by default there: our line is accepted and not shown.
        return change.may_be_hidden and not change.shown
    if shows(change, now) or now == change.shown or (change.before is None and change.is_off(now)):
        # The last case: a default that our own undoing switched off.
        return True
    if change.kind is ValueKind.BYTES:
        return _is_rounded(change, now) or (change.shown is None and _has_lost_digits(change.ours, now))
    return change.kind is not ValueKind.INTERFACE and now.startswith(f"{change.ours} ")


def _is_rounded(change: Change, now: str) -> bool:
    ours = window_of(change.ours)
    return abs(window_of(now) - ours) <= ours * ROUNDING


def _has_lost_digits(sent: str | None, now: str | None) -> bool:
    """Return whether a window is one that was sent, with one or two digits lost on the way to the device."""
    if sent is None or now is None or now.startswith("no "):
        return False
    whole, found = sent.split()[-1], now.split()[-1]
    digits = iter(whole)
    return whole.isdigit() and len(whole) - len(found) in {1, 2} and all(digit in digits for digit in found)


def _may_be_ours(change: Change, now: str | None) -> bool:
    """Return whether a device may have made this of a line of ours that was not seen.

    It takes no larger window than the one sent, and may show no line at all.
    """
    if now is None:
        return True
    return change.kind is ValueKind.BYTES and 0 < window_of(now) < window_of(change.ours)


class MatchedLines(Struct, frozen=True, kw_only=True):
    """Our lines with how the device shows them.

    Attributes:
        changes: Matched changes with how the device shows them; then the others.
        unmatched: Changes of which it shows nothing that could be theirs.
    """

    changes: tuple[Change, ...]
    unmatched: tuple[Change, ...]

    @property
    def in_other_words(self) -> tuple[Change, ...]:
        """Return the changes that the device shows differently from what was sent."""
        return tuple(one for one in self.changes if one.shown and not shows(one, one.shown))


def match_lines(changes: Iterable[Change], present: TcpLines, *, new_lines: Iterable[str] = ()) -> MatchedLines:
    """Match lines that were sent and not refused with what the device shows right afterwards.

    `new_lines` are global lines that it did not show before; one of them may be ours in other words.
    """
    matched, unmatched = [], []
    for change in changes:
        found = change.line_in(present, ()) if change.is_mark else present.of(change.keyword)
        line = found if change.is_mark else _own_line(change, found)
        line = _renamed(change, new_lines) if line is None else line
        if line is None:
            unmatched.append(change)
        else:
            matched.append(replace(change, shown=line))
    return MatchedLines(changes=(*matched, *unmatched), unmatched=tuple(unmatched))


def _own_line(change: Change, now: str | None) -> str | None:
    """Return the line under our keyword if it is what the device made of ours."""
    if now is None:
        # On by default there, and switched off before: our line is accepted and not shown.
        return "" if change.may_be_hidden else None
    if shows(change, now):
        return now
    if now == change.before or now.startswith("no "):
        return None
    if change.kind is ValueKind.INTERFACE:
        return None
    # A window may be rounded or clamped by the device; a switch may be shown with one more word.
    return now if change.kind is ValueKind.BYTES or now.startswith(f"{change.ours} ") else None


def _renamed(change: Change, new_lines: Iterable[str]) -> str | None:
    """Return the one new line that holds our keyword or value, for a release with another word for it."""
    value = change.ours.split()[-1]
    found = [
        line
        for line in new_lines
        if not line.startswith("no ") and (change.keyword in line or (value.isdigit() and value in line.split()))
    ]
    return found[0] if len(found) == 1 else None


class ForeignChange(Struct, frozen=True, kw_only=True):
    """A line that is neither what it was nor what we set. Its author is not proven, so it was left alone."""

    keyword: str
    before: str | None
    ours: str
    present: str | None

    def __str__(self) -> str:
        """Return the finding and what to do, in one sentence."""
        return (
            f"expected '{self.ours}' as we set it, or {_named(self.before)} as before, found {_named(self.present)}; "
            "it was left alone"
        )


class RestorePlan(Struct, frozen=True, kw_only=True):
    """The lines that restore the configuration, and those to leave alone.

    Attributes:
        foreign: Lines that are neither ours nor what was there before.
        uncertain: Lines that may be ours in other words: left alone, and kept in the journal.
        closing: Lines that remove the applet, then the mark; sent once our lines are proven gone.
    """

    commands: tuple[str, ...]
    foreign: tuple[ForeignChange, ...]
    uncertain: tuple[ForeignChange, ...] = ()
    closing: tuple[str, ...] = ()


def plan_restore(
    changes: tuple[Change, ...],
    present: TcpLines,
    *,
    others: Iterable[str] = (),
    sent: Iterable[str] = (),
    is_sure: bool = False,
) -> RestorePlan:
    """Return how to undo our changes, whatever happened since they were planned.

    A line that is as before needs nothing (never sent, refused, undone by a reload, or restored already), so the plan
    is right after a crash at any moment and can be applied repeatedly.

    Args:
        changes: The lines that we meant to set.
        present: The lines as the device shows them.
        others: All its global lines, if one of ours may be shown in words of another family.
        sent: Lines just sent to undo them; what became of such a line is ours as well.
        is_sure: Whether lines that are shown as before are undone too: a device may show late what is in force, and
            undoing a line that is gone does nothing.
    """
    lines = tuple(others)
    shown, undone = frozenset(lines), frozenset(sent)
    found = [(one, one.line_in(present, lines, beside=changes)) for one in changes if not one.is_entry]
    stands = [(change, now, line_state(change, now, shown, is_undone=change.before in undone)) for change, now in found]
    undo = [one for one in stands if one[2] is LineState.OURS or (is_sure and _may_be_late(*one))]
    undo.sort(key=lambda one: undo_rank(one[0]))

    def typed(*, is_closing: bool) -> tuple[str, ...]:
        meant = [(one, now) for one, now, _ in undo if is_closing == (one.is_mark or one.is_applet)]
        return tuple(replace(one, shown=now or one.shown).undo(is_default=one.is_off(now)) for one, now in meant)

    def left(kind: LineState) -> tuple[ForeignChange, ...]:
        return tuple(
            ForeignChange(keyword=one.keyword, before=one.before, ours=one.ours, present=now)
            for one, now, stand in stands
            if stand is kind
        )

    return RestorePlan(
        commands=typed(is_closing=False),
        foreign=left(LineState.FOREIGN),
        uncertain=left(LineState.UNCERTAIN),
        closing=typed(is_closing=True),
    )


def undo_rank(change: Change) -> tuple[bool, bool, bool]:
    """Return the sort key of the order in which lines are undone.

    A mark goes last: until then other runs see it. An applet stays as long as lines do, and a list as long as a line
    refers to it.
    """
    return change.is_mark, change.is_applet, change.is_list


def lines_back(
    start: Iterable[str], present: Iterable[str], new: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the missing lines of the start, and the lines that lead back to the start; both as far as known.

    Of the `new` lines, those that may hold a secret or are another run's are left out.
    """
    missing = tuple((Counter(start) - Counter(present)).elements())
    more = [line for line in new if may_be_shown(line) and not (is_mark(line) or is_applet(line))]
    # Restoring a missing line replaces the present one of the same setting.
    replaced = {_setting(line) for line in missing}
    return missing, (*(_negated(line) for line in more if _setting(line) not in replaced), *missing)


def _setting(line: str) -> tuple[str, ...]:
    """Return the first three words of a line without `no`: the setting that it is about."""
    return tuple(line.removeprefix("no ").split()[:3])


def _negated(line: str) -> str:
    return line.removeprefix("no ") if line.startswith("no ") else f"no {line}"


def _may_be_late(change: Change, now: str | None, stands: LineState) -> bool:
    """Return whether our line may be in force although the line from before is shown; a default is no line."""
    return stands is LineState.BEFORE and not (change.shown == "" and now is None)


def _named(line: str | None) -> str:
    return f"'{line}'" if line else "no line (the default)"
