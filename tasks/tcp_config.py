"""What to change in a device's TCP configuration, and how to put it back exactly. Pure: lines in, lines out.

Facts
-----
* Settings are global lines `ip tcp KEYWORD [VALUE]`, one per keyword. An absent line means the platform's default;
  `show running-config all` is no help (what it prints at default differs by release), so absence itself is the state.
* Where a release has a setting on by default, switching it off shows as `no ip tcp KEYWORD`: a line of its own.
* `no ip tcp window-size` and `no ip tcp window-size 65536` are both accepted (two C8000v going to 17.12.04a).
* A value above 65535 is what makes the device offer window scaling, and needs it from the server too
  (TCP Window Scaling feature guide, 12.2(8)T; RFC 7323 2.2).
* Scaling and SACK are options of the SYN: only connections opened after the change have them.
* Above some size a platform may not take a window, or fail with it: a 2960X had I/O errors at 1073741823
  (austind/iosfw issue 2). Cisco states no limit below the command's own.
* The source address of a copy is a configuration line, `ip ftp source-interface NAME`, not an option of the command.
  It is set and put back like the others. The device prints the interface's whole name, whatever was typed.
* A device may show a line in other words than it was typed: a value rounded or clamped, a word more, a blank within an
  interface's name. What ours looks like is learnt when it is set (`tasks.tcp_config`), and kept with it.
* `alias exec NAME TEXT` changes nothing but what that word means at the prompt; we leave one as a mark (`tasks.mark`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from tasks.mark import is_mark, mark_of
from templates.config_sections import global_lines
from templates.rows import IpTcp, rows

WINDOW_SIZE = "window-size"
SELECTIVE_ACK = "selective-ack"
SOURCE_INTERFACE = "source-interface"

EXTRAS = {"timestamps": "timestamp", "path-mtu-discovery": "path-mtu-discovery"}
"""Optional lines: the name that the operator gives, and the keyword of `ip tcp`. Both are off by default
(IP Application Services Configuration Guide, "Configuring TCP")."""

MAX_WINDOW_BYTES = 1_073_741_823
"""Largest value that `ip tcp window-size` takes (CLI help: <68-1073741823>)."""

LARGEST_UNSCALED_BYTES = 65_535
"""Largest window without scaling: the least that an automatic choice backs off to."""

ROUNDING = 0.02
"""A window that differs from ours by no more is ours, rounded by the device."""

_BEGINNINGS = ("ip tcp", "no ip tcp", "ip ftp", "no ip ftp", "alias exec", "ip  ", "no  ")
"""A device may print more than one blank between words."""

_SOURCE_LINE = re.compile(r"(?:no )?ip ftp source-interface\b.*")
_INTERFACE = re.compile(r"([A-Za-z-]+) ?(\d\S*)")

_FAMILIES = (
    re.compile(r"(?:no )?ip tcp (?P<keyword>window-size|selective-ack|timestamp|path-mtu-discovery)(?: [\w-]+){0,3}"),
    re.compile(r"(?:no )?ip ftp (?P<keyword>source-interface)(?: [A-Za-z][\w-]*(?: ?\d[\w/.:]*)?)?"),
)
"""All that we ever set or put back, apart from our mark. What a journal says beyond that was not written by us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpLines:
    """The global lines of one configuration that staging may change, as printed, in order.

    Attributes:
        lines: Whole lines, for example `ip tcp window-size 65535` or `no ip tcp timestamp`; all `ip tcp` lines, then
            `ip ftp source-interface` where there is one, then marks of runs that have the device in hand.
    """

    lines: tuple[str, ...]

    def of(self, keyword: str) -> str | None:
        """Return the line that sets a keyword, or None where the default holds."""
        return next((line for line in self.lines if _keyword(line) == keyword), None)

    @property
    def window_bytes(self) -> int | None:
        """Return the configured window size, or None where the default holds."""
        return _window_of(self.of(WINDOW_SIZE)) or None


def tcp_lines(configuration: str) -> TcpLines:
    """Return the lines that staging may change of a running or startup configuration.

    Raises:
        ConfigNotUnderstood: A text in the configuration does not end.
    """
    return tcp_lines_of(global_lines(configuration))


def tcp_lines_of(lines: Iterable[str]) -> TcpLines:
    """Return those that staging may change of a configuration's global lines."""
    known = tuple(" ".join(line.split()) for line in lines if line.startswith(_BEGINNINGS))
    tcp = tuple(_printed(row) for row in rows(IpTcp, "\n".join(known)))
    source = tuple(line for line in known if _SOURCE_LINE.fullmatch(line))
    return TcpLines(lines=(*tcp, *source, *(line for line in known if is_mark(line))))


def _printed(row: IpTcp) -> str:
    return " ".join(part for part in (row.negated, "ip tcp", row.keyword, row.value) if part)


def _keyword(line: str) -> str:
    if is_mark(line):
        return mark_of(line)
    words = line.split()
    return words[3] if words[0] == "no" else words[2]


def is_ours_to_type(change: Change) -> bool:
    """Tell whether all that a change would have us type is of the families that we set; see `plan_restore`."""
    if is_mark(change.ours):
        return change.before is None and change.keyword == mark_of(change.ours)
    lines = [line for line in (change.before, change.ours) if line is not None]
    found = [next((match for one in _FAMILIES if (match := one.fullmatch(line))), None) for line in lines]
    return all(match is not None and match["keyword"] == change.keyword for match in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting that we change.

    Attributes:
        keyword: What it is about.
        before: The line before, or None where there was none.
        ours: The line that we set.
        shown: How the device shows ours, empty where it shows none, since it is the default there; None where nobody
            has seen what became of it.
    """

    keyword: str
    before: str | None
    ours: str
    shown: str | None = None

    @property
    def is_tuning(self) -> bool:
        """Return whether it makes a difference to the speed: a source interface and a mark do not."""
        return self.keyword != SOURCE_INTERFACE and not is_mark(self.ours)


@dataclass(frozen=True, slots=True, kw_only=True)
class TunePlan:
    """The changes that a device needs; none where it is good enough as it is.

    Attributes:
        changes: What to set, in this order.
        may_back_off: Whether a smaller window will do where the device refuses ours: nobody asked for this very one.
    """

    changes: tuple[Change, ...]
    may_back_off: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the configuration lines to send."""
        return tuple(change.ours for change in self.changes)

    def backed_off(self) -> TunePlan | None:
        """Return the plan with half the window, at last the largest without scaling; None where there is none left.

        Where the window before is at least as large, it stays, and the plan is one without a window.
        """
        window = next((change for change in self.changes if change.keyword == WINDOW_SIZE), None)
        if window is None or not self.may_back_off:
            return None
        present = int(window.ours.split()[-1])
        if present <= LARGEST_UNSCALED_BYTES:
            return None
        smaller = max(LARGEST_UNSCALED_BYTES, present // 2)
        others = tuple(change for change in self.changes if change is not window)
        if _window_of(window.before) >= smaller:
            return replace(self, changes=others)
        made = replace(window, ours=f"ip tcp {WINDOW_SIZE} {smaller}", shown=None)
        return replace(self, changes=tuple(made if change is window else change for change in self.changes))

    def unscaled(self) -> TunePlan | None:
        """Return the plan with the largest window without scaling; None where it has none that may become smaller."""
        plan, smaller = None, self.backed_off()
        while smaller is not None:
            plan, smaller = smaller, smaller.backed_off()
        return plan


def plan_tune(
    present: TcpLines,
    *,
    window_bytes: int | None,
    extras: Iterable[str] = (),
    source_interface: str | None = None,
    may_back_off: bool = False,
    mark: str | None = None,
) -> TunePlan:
    """Return what to set so that the device advertises the window and offers SACK.

    A window that is already at least as large is left alone: it is enough, and somebody chose it. So is an extra that
    is on already, in whatever form (`ip tcp path-mtu-discovery age-timer 20`).

    Args:
        present: The device's lines as they are.
        window_bytes: The window wanted, 68 to 1073741823; None leaves window and SACK as they are.
        extras: Names of EXTRAS to switch on too.
        source_interface: Where the copy is to come from; None leaves the device's own choice.
        may_back_off: Whether a smaller window will do where the device refuses this one.
        mark: The line that tells others whose the device is while anything is set; None leaves none.

    Raises:
        ValueError: The window is outside what the command takes, or there is no such extra.
    """
    wanted: list[Change] = []
    if window_bytes is not None:
        if not 68 <= window_bytes <= MAX_WINDOW_BYTES:
            raise ValueError(f"window_bytes: expected 68 to {MAX_WINDOW_BYTES}, found {window_bytes}")
        if (present.window_bytes or 0) < window_bytes:
            wanted.append(_change(present, WINDOW_SIZE, f"ip tcp {WINDOW_SIZE} {window_bytes}"))
        wanted += [_change(present, key, f"ip tcp {key}") for key in (SELECTIVE_ACK, *_keywords(extras))]
    if source_interface is not None:
        wanted.append(_change(present, SOURCE_INTERFACE, f"ip ftp {SOURCE_INTERFACE} {source_interface}"))
    changes = tuple(change for change in wanted if not _is_on(change))
    if changes and mark is not None:
        # First, so that whoever looks meanwhile sees it with the first of our lines.
        changes = (Change(keyword=mark_of(mark), before=None, ours=mark), *changes)
    return TunePlan(changes=changes, may_back_off=may_back_off)


def _keywords(extras: Iterable[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(extras))
    if unknown := [name for name in names if name not in EXTRAS]:
        raise ValueError(f"extra: expected {' or '.join(EXTRAS)}, found {unknown[0]!r}")
    return tuple(EXTRAS[name] for name in names)


def _change(present: TcpLines, keyword: str, ours: str) -> Change:
    return Change(keyword=keyword, before=present.of(keyword), ours=ours)


def _is_on(change: Change) -> bool:
    """Tell whether what was there before does the same already; only a window is compared by its value."""
    if change.before is None or change.before.startswith("no ") or change.keyword == WINDOW_SIZE:
        return False
    return change.keyword != SOURCE_INTERFACE or shows(change, change.before)


def _window_of(line: str | None) -> int:
    value = (line or "").split()[-1:]
    return int(value[0]) if value and value[0].isdigit() and not str(line).startswith("no ") else 0


def shows(change: Change, line: str | None) -> bool:
    """Tell whether a line of the configuration is ours; an interface is printed whole where it was typed short."""
    if line is None or line == change.ours or change.keyword != SOURCE_INTERFACE:
        return line == change.ours
    typed, printed = (_INTERFACE.fullmatch(text.partition(f"{SOURCE_INTERFACE} ")[2]) for text in (change.ours, line))
    if typed is None or printed is None or line.startswith("no "):
        return False
    short, long = sorted((typed[1].lower(), printed[1].lower()), key=len)
    return typed[2] == printed[2] and long.startswith(short)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignChange:
    """A line that is neither what it was nor what we set: somebody changed it meanwhile, so it stays."""

    keyword: str
    before: str | None
    ours: str
    present: str | None

    def __str__(self) -> str:
        """Return the finding and what to do, in one sentence."""
        return (
            f"expected '{self.ours}' as we set it, found {_named(self.present)}; somebody changed it meanwhile, so it "
            f"was left alone (it was {_named(self.before)} before)"
        )


def marks_in(changes: Iterable[Change]) -> tuple[str, ...]:
    """Return the lines among changes that mark a device as a run's."""
    return tuple(change.ours for change in changes if is_mark(change.ours))


class Standing(Enum):
    """What stands where we meant to set a line.

    Attributes:
        BEFORE: What was there before: ours was never set, refused, undone, or is not shown (yet).
        OURS: Our line, in whatever words.
        UNCERTAIN: What the device may have made of a line of ours that nobody saw set, or of the one that puts back;
            or somebody else's doing.
        FOREIGN: Somebody else's line.
    """

    BEFORE = "before"
    OURS = "ours"
    UNCERTAIN = "uncertain"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What to send so that the lines are what they were, and what must be left alone.

    Attributes:
        commands: What to send; our mark is taken back last.
        foreign: Lines of somebody else.
        uncertain: Lines that may be ours in other words: left alone, and not to be forgotten.
    """

    commands: tuple[str, ...]
    foreign: tuple[ForeignChange, ...]
    uncertain: tuple[ForeignChange, ...] = ()


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
        sent: Lines that were sent a moment ago to undo them; what became of such a line is ours as well.
        is_sure: Also take back what is shown as before: a device may be late in showing what is in force, and what
            takes our line back does nothing where it is gone.
    """
    shown, undone = frozenset(others), frozenset(sent)
    found = [(change, present.of(change.keyword)) for change in changes]
    stands = [(change, now, standing(change, now, shown, is_undone=change.before in undone)) for change, now in found]
    undo = [one for one in stands if one[2] is Standing.OURS or (is_sure and _may_be_late(*one))]
    # A mark goes last: until then others are to see whose the device is.
    undo.sort(key=lambda one: is_mark(one[0].ours))

    def left(kind: Standing) -> tuple[ForeignChange, ...]:
        return tuple(
            ForeignChange(keyword=one.keyword, before=one.before, ours=one.ours, present=now)
            for one, now, stand in stands
            if stand is kind
        )

    return RestorePlan(
        commands=tuple(_undo(change, now) for change, now, _ in undo),
        foreign=left(Standing.FOREIGN),
        uncertain=left(Standing.UNCERTAIN),
    )


def standing(
    change: Change, now: str | None, others: frozenset[str] = frozenset(), *, is_undone: bool = False
) -> Standing:
    """Return what stands where we meant to set a line.

    Args:
        change: What we meant to set.
        now: The line of that keyword as the device shows it, or None.
        others: All global lines that it shows.
        is_undone: Whether the line that was there before has just been sent.
    """
    if change.shown and change.shown in others and change.shown != change.before:
        return Standing.OURS
    if now == change.before:
        return Standing.BEFORE
    if change.shown == "" and change.before is None and now == f"no {change.ours}":
        # A default that we tried to switch off and on: a rollback may have brought that moment back.
        return Standing.UNCERTAIN
    if _is_ours(change, now):
        return Standing.OURS
    if change.keyword == WINDOW_SIZE and _has_lost_digits(change.before, now):
        # What became of the line that puts back: ours to mend where we have just typed it.
        return Standing.OURS if is_undone else Standing.UNCERTAIN
    is_explained = is_undone or (change.shown is None and _may_be_ours(change, now))
    return Standing.UNCERTAIN if is_explained else Standing.FOREIGN


def _may_be_late(change: Change, now: str | None, stands: Standing) -> bool:
    """Tell whether a line of ours may be in force although what was there before is shown; a default is no line."""
    return stands is Standing.BEFORE and not (change.shown == "" and now is None)


def _is_ours(change: Change, now: str | None) -> bool:
    if now is None:
        # On by default there: our line is taken and not printed.
        return change.before == f"no {change.ours}"
    if shows(change, now) or now == change.shown or (change.before is None and now == f"no {change.ours}"):
        # The last case: on by default there as well, and it was our own undoing that switched it off.
        return True
    if change.keyword == WINDOW_SIZE:
        return _is_rounded(change, now) or (change.shown is None and _has_lost_digits(change.ours, now))
    return change.keyword != SOURCE_INTERFACE and now.startswith(f"{change.ours} ")


def _is_rounded(change: Change, now: str) -> bool:
    ours = _window_of(change.ours)
    return abs(_window_of(now) - ours) <= ours * ROUNDING


def _has_lost_digits(sent: str | None, now: str | None) -> bool:
    """Tell whether a window is one that was sent, with digits that were lost on the way to the device."""
    if sent is None or now is None or now.startswith("no "):
        return False
    whole, found = sent.split()[-1], now.split()[-1]
    digits = iter(whole)
    return whole.isdigit() and len(whole) - len(found) in {1, 2} and all(digit in digits for digit in found)


def _may_be_ours(change: Change, now: str | None) -> bool:
    """Tell whether a device may have made this of a line of ours that nobody saw.

    It takes no larger window than it was given. And one that shows nothing of a line shows none in its place either,
    where there was one before.
    """
    if now is None:
        return True
    return change.keyword == WINDOW_SIZE and 0 < _window_of(now) < _window_of(change.ours)


def _undo(change: Change, now: str | None) -> str:
    """Return the line that brings back what was there: the old line itself, or `no` of ours where there was none."""
    if change.before is not None:
        return change.before
    if now == f"no {change.ours}":
        return change.ours
    return f"no alias exec {change.keyword}" if is_mark(change.ours) else f"no {change.ours}"


def _named(line: str | None) -> str:
    return f"'{line}'" if line else "no line (the default)"


# What a device made of the lines that were sent to it: which line that it shows is which of ours. Pure.
#
# A device may show a line in other words than it was typed, and what it shows is all that tells later whether our line
# is still in force. So the two are tied while we know that nothing else has changed, right after the lines were sent.
# What cannot be tied could not be told from somebody else's line later, nor could its absence: it is taken back at
# once.


@dataclass(frozen=True, slots=True, kw_only=True)
class Tie:
    """Our lines, tied to what the device shows as far as it shows them.

    Attributes:
        changes: Those that were tied, with how the device shows them; then the others.
        untied: Those of which it shows nothing that could be theirs.
    """

    changes: tuple[Change, ...]
    untied: tuple[Change, ...]

    @property
    def in_other_words(self) -> tuple[Change, ...]:
        """Return those that the device shows otherwise than they were sent."""
        return tuple(one for one in self.changes if one.shown and not shows(one, one.shown))


def tie(changes: Iterable[Change], present: TcpLines, *, new_lines: Iterable[str] = ()) -> Tie:
    """Tie lines that were sent to what the device shows right afterwards.

    Args:
        changes: What was sent and not refused.
        present: The lines of our families as the device shows them.
        new_lines: All global lines that it did not show before they were sent; where none of our families can be a line
            of ours, one of these may.
    """
    tied, untied = [], []
    for change in changes:
        line = _own_line(change, present.of(change.keyword)) or _renamed(change, new_lines)
        if line is None:
            untied.append(change)
        else:
            tied.append(replace(change, shown=line))
    return Tie(changes=(*tied, *untied), untied=tuple(untied))


def _own_line(change: Change, now: str | None) -> str | None:
    """Return the line under our keyword where it is what the device made of ours."""
    if now is None:
        # On by default there, and switched off before: our line is taken and not printed.
        return "" if change.before == f"no {change.ours}" else None
    if shows(change, now):
        return now
    if now == change.before or now.startswith("no "):
        return None
    if change.keyword == SOURCE_INTERFACE:
        return None
    # A window may be rounded or clamped to whatever the device takes; a word may stand behind a switch.
    return now if change.keyword == WINDOW_SIZE or now.startswith(f"{change.ours} ") else None


def _renamed(change: Change, new_lines: Iterable[str]) -> str | None:
    """Return the one new line that holds our keyword or our value, for a release that has another word for it."""
    value = change.ours.split()[-1]
    found = [
        line
        for line in new_lines
        if not line.startswith("no ") and (change.keyword in line or (value.isdigit() and value in line.split()))
    ]
    return found[0] if len(found) == 1 else None
