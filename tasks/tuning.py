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
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

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

LINES_FILTER = "^ip tcp|^no ip tcp|^ip ftp source-interface"
"""What `| include` takes to print the lines that staging may change, all of them: whoever plans by them, sees them all.
A question mark would call the CLI's help in the middle of the line, so no `^(no )?ip tcp`."""

_SOURCE_LINE = re.compile(r"^ip ftp source-interface (\S+)[ \t\r]*$", re.MULTILINE)
_INTERFACE = re.compile(r"([A-Za-z-]+) ?(\d\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpLines:
    """The global lines of one configuration that staging may change, as printed, in order.

    Attributes:
        lines: Whole lines, for example `ip tcp window-size 65535` or `no ip tcp timestamp`; all `ip tcp` lines, then
            `ip ftp source-interface` where there is one.
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
    """Return the lines that staging may change of a running or startup configuration, or of a part of one."""
    tcp = tuple(_printed(row) for row in rows(IpTcp, configuration))
    source = tuple(f"ip ftp {SOURCE_INTERFACE} {name}" for name in _SOURCE_LINE.findall(configuration))
    return TcpLines(lines=tcp + source)


def _printed(row: IpTcp) -> str:
    return " ".join(part for part in (row.negated, "ip tcp", row.keyword, row.value) if part)


def _keyword(line: str) -> str:
    words = line.split()
    return words[3] if words[0] == "no" else words[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting that we change: the line before (None: absent) and the line we set."""

    keyword: str
    before: str | None
    ours: str


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
        return replace(self, changes=(replace(window, ours=f"ip tcp {WINDOW_SIZE} {smaller}"), *others))

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
    return TunePlan(changes=tuple(change for change in wanted if not _is_on(change)), may_back_off=may_back_off)


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
    typed, printed = (_INTERFACE.fullmatch(text.split()[-1]) for text in (change.ours, line))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """What to send so that the lines are what they were, and what must be left alone."""

    commands: tuple[str, ...]
    foreign: tuple[ForeignChange, ...]


def plan_restore(changes: tuple[Change, ...], present: TcpLines) -> RestorePlan:
    """Return how to undo our changes, whatever happened since they were planned.

    A line that is as before needs nothing (never sent, refused, undone by a reload, or restored already), so the
    plan is right after a crash at any moment and may be applied again and again.
    """
    commands: list[str] = []
    foreign: list[ForeignChange] = []
    for change in changes:
        now = present.of(change.keyword)
        if now == change.before:
            continue
        if shows(change, now) or (now is None and change.before == f"no {change.ours}"):
            # The second case: the setting is on by default there, so our line is taken and not printed.
            commands.append(_undo(change))
        else:
            foreign.append(ForeignChange(keyword=change.keyword, before=change.before, ours=change.ours, present=now))
    return RestorePlan(commands=tuple(commands), foreign=tuple(foreign))


def _undo(change: Change) -> str:
    """Return the line that brings back what was there: the old line itself, or `no` of ours where there was none."""
    return change.before if change.before is not None else f"no {change.ours}"


def _named(line: str | None) -> str:
    return f"'{line}'" if line else "no line (the default)"
