"""How to put a device's lines back exactly as they were, whatever happened since they were set. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tasks.applet import is_applet
from tasks.config_line_state import LineState, line_state
from tasks.run_marker import is_mark
from tasks.tcp_config import Change, TcpLines, may_be_shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChange:
    """A line that is neither what it was nor what we set; its author is not proven, so it was left alone."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What to send so that the lines are what they were, and what must be left alone.

    Attributes:
        foreign: Lines that are neither ours nor what was there before.
        uncertain: Lines that may be ours in other words: left alone, and kept in the journal.
        closing: What to send once our lines are proven gone: it takes back the applet, then the mark.
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

    A line that is as before needs nothing (never sent, refused, undone by a reload, or restored already), so the
    plan is right after a crash at any moment and may be applied again and again.

    Args:
        changes: What we meant to set.
        present: The lines as the device shows them.
        others: All global lines that it shows, where one of ours may be shown in words of another family.
        sent: Lines that were sent just now to undo them; what became of such a line is ours as well.
        is_sure: Also take back what is shown as before: a device may be late in showing what is in force, and what
            takes our line back does nothing where it is gone.
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
    """Return the sort key of the order in which lines are taken back.

    A mark goes last: until then other runs see it. An applet stays as long as lines do, and a list as long as a line
    refers
    to it.
    """
    return change.is_mark, change.is_applet, change.is_list


def lines_back(
    start: Iterable[str], present: Iterable[str], new: Iterable[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the lines of the start that are missing, and what leads back to the start; both as far as known.

    Of the `new` lines that were not there at the start, what may hold a secret, or another run's, is left out.
    """
    missing = tuple((Counter(start) - Counter(present)).elements())
    more = [line for line in new if may_be_shown(line) and not (is_mark(line) or is_applet(line))]
    # A line of the start takes the place of the one that stands there now.
    replaced = {_setting(line) for line in missing}
    return missing, (*(_negated(line) for line in more if _setting(line) not in replaced), *missing)


def _setting(line: str) -> tuple[str, ...]:
    """Return the first three words of a line without a `no`: what it is about."""
    return tuple(line.removeprefix("no ").split()[:3])


def _negated(line: str) -> str:
    return line.removeprefix("no ") if line.startswith("no ") else f"no {line}"


def _may_be_late(change: Change, now: str | None, stands: LineState) -> bool:
    """Return whether a line of ours may be in force although what was there before is shown; a default is no line."""
    return stands is LineState.BEFORE and not (change.shown == "" and now is None)


def _named(line: str | None) -> str:
    return f"'{line}'" if line else "no line (the default)"
