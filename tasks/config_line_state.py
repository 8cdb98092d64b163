"""Which line that a device shows is which of ours. Pure.

A device may show a line in other words than it was typed. So lines sent and lines shown are matched right after they
were sent, while nothing else has changed: later, only what it shows says whether our line is still in force. What
cannot be matched could not be distinguished from another line later, nor could its absence: it is taken back at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from flashferry.devices.platforms.platform import ValueKind
from tasks.tcp_config import Change, TcpLines, shows, window_of

ROUNDING = 0.02
"""A window that differs from ours by no more is ours, rounded by the device."""


class LineState(Enum):
    """What stands where we meant to set a line.

    Attributes:
        BEFORE: What was there before: ours was never set, refused, undone, or is not shown (yet).
        UNCERTAIN: What the device may have made of a line of ours, or of the one that puts back; or a colleague's
            change.
        FOREIGN: A line that ours cannot have become.
    """

    BEFORE = "before"
    OURS = "ours"
    UNCERTAIN = "uncertain"
    FOREIGN = "foreign"


def line_state(
    change: Change, now: str | None, others: frozenset[str] = frozenset(), *, is_undone: bool = False
) -> LineState:
    """Return what stands where we meant to set a line, by the line `now` shown for its keyword.

    With `is_undone` the line that was there before has just been sent.
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
        # A default that we tried to switch off and on: a rollback may have brought that moment back.
        return LineState.UNCERTAIN
    if _is_ours(change, now):
        return LineState.OURS
    if change.kind is ValueKind.BYTES and _has_lost_digits(change.before, now):
        # What became of the line that puts back: ours to mend where we have just typed it.
        return LineState.OURS if is_undone else LineState.UNCERTAIN
    is_explained = is_undone or (change.shown is None and _may_be_ours(change, now))
    return LineState.UNCERTAIN if is_explained else LineState.FOREIGN


def _serving_state(change: Change, now: str | None, others: Iterable[str]) -> LineState:
    """Return what stands where a line was meant to be by which the device serves others.

    Its name was free a moment before it was typed. Anything else under that name stays uncertain: another list may have
    got
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
        # On by default there: our line is taken and not printed.
        return change.may_be_hidden and not change.shown
    if shows(change, now) or now == change.shown or (change.before is None and change.is_off(now)):
        # The last case: on by default there as well, and it was our own undoing that switched it off.
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

    It takes no larger window than it was given, and may show no line at all.
    """
    if now is None:
        return True
    return change.kind is ValueKind.BYTES and 0 < window_of(now) < window_of(change.ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedLines:
    """Our lines with what the device shows of them.

    Attributes:
        changes: Those that were matched, with how the device shows them; then the others.
        unmatched: Those of which it shows nothing that could be theirs.
    """

    changes: tuple[Change, ...]
    unmatched: tuple[Change, ...]

    @property
    def in_other_words(self) -> tuple[Change, ...]:
        """Return those that the device shows otherwise than they were sent."""
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
    """Return the line under our keyword where it is what the device made of ours."""
    if now is None:
        # On by default there, and switched off before: our line is taken and not printed.
        return "" if change.may_be_hidden else None
    if shows(change, now):
        return now
    if now == change.before or now.startswith("no "):
        return None
    if change.kind is ValueKind.INTERFACE:
        return None
    # A window may be rounded or clamped to whatever the device takes; a word may stand behind a switch.
    return now if change.kind is ValueKind.BYTES or now.startswith(f"{change.ours} ") else None


def _renamed(change: Change, new_lines: Iterable[str]) -> str | None:
    """Return the one new line that holds our keyword or our value, for a release that has another word for it."""
    value = change.ours.split()[-1]
    found = [
        line
        for line in new_lines
        if not line.startswith("no ") and (change.keyword in line or (value.isdigit() and value in line.split()))
    ]
    return found[0] if len(found) == 1 else None
