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
"""

from __future__ import annotations

from dataclasses import dataclass

from templates.rows import IpTcp, rows

WINDOW_SIZE = "window-size"
SELECTIVE_ACK = "selective-ack"

MAX_WINDOW_BYTES = 1_073_741_823
"""Largest value that `ip tcp window-size` takes (CLI help: <68-1073741823>)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpLines:
    """The global `ip tcp` lines of one configuration, as printed, in order.

    Attributes:
        lines: Whole lines, for example `ip tcp window-size 65535` or `no ip tcp timestamp`.
    """

    lines: tuple[str, ...]

    def of(self, keyword: str) -> str | None:
        """Return the line that sets a keyword, or None where the default holds."""
        return next((line for line in self.lines if _keyword(line) == keyword), None)

    @property
    def window_bytes(self) -> int | None:
        """Return the configured window size, or None where the default holds."""
        line = self.of(WINDOW_SIZE)
        value = line.split()[-1] if line and not line.startswith("no ") else ""
        return int(value) if value.isdigit() else None


def tcp_lines(configuration: str) -> TcpLines:
    """Return the global `ip tcp` lines of a running or startup configuration, or of a part of one."""
    return TcpLines(lines=tuple(_printed(row) for row in rows(IpTcp, configuration)))


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
    """The changes that a device needs; none where it is good enough as it is."""

    changes: tuple[Change, ...]

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the configuration lines to send."""
        return tuple(change.ours for change in self.changes)


def plan_tune(present: TcpLines, *, window_bytes: int) -> TunePlan:
    """Return what to set so that the device advertises the window and offers SACK.

    A window that is already at least as large is left alone: it is enough, and somebody chose it.

    Args:
        present: The device's lines as they are.
        window_bytes: The window wanted, 68 to 1073741823.

    Raises:
        ValueError: The window is outside what the command takes.
    """
    if not 68 <= window_bytes <= MAX_WINDOW_BYTES:
        raise ValueError(f"window_bytes: expected 68 to {MAX_WINDOW_BYTES}, found {window_bytes}")
    changes = []
    if (present.window_bytes or 0) < window_bytes:
        ours = f"ip tcp {WINDOW_SIZE} {window_bytes}"
        changes.append(Change(keyword=WINDOW_SIZE, before=present.of(WINDOW_SIZE), ours=ours))
    if present.of(SELECTIVE_ACK) != f"ip tcp {SELECTIVE_ACK}":
        changes.append(Change(keyword=SELECTIVE_ACK, before=present.of(SELECTIVE_ACK), ours=f"ip tcp {SELECTIVE_ACK}"))
    return TunePlan(changes=tuple(changes))


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
        if now == change.ours or (now is None and change.before == f"no {change.ours}"):
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
