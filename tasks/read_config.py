"""A device's configurations: read whole, compared without keeping their text, saved or locked."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from msgspec import Struct

from flashferry.core.units import counted
from flashferry.devices.errors import DeviceRefused, OutputNotUnderstood
from flashferry.devices.session import DeviceSession
from tasks.tcp_config import TcpLines, may_be_shown, tcp_lines_of
from templates.config_sections import ConfigNotUnderstood, Configuration, Section, lines_of, sections, sections_of
from templates.rows import (
    ConfigDifference,
    ConfigLock,
    ConfigStamp,
    NoDifference,
    RollbackTimer,
    SessionLock,
    Unchanged,
    first,
    rows,
)

_MOVES = re.compile(
    r"^(Building configuration\.\.\.|(Current|Uncompressed) configuration\b.*|Using \d+ out of \d+ bytes.*"
    r"|ntp clock-period \d+|Load for five secs: .*|Time source is .*)$"
)
"""Lines that change by themselves. All but `ntp clock-period` are in the header of the output; the last two are those
of `terminal exec prompt timestamp`."""

_SYSLOG = re.compile(r"%[A-Z][A-Z0-9_]*-(?:[A-Z0-9_]+-)?[0-7]-[A-Z0-9_]+:")

_SYSLOG_LINE = re.compile(r"(?:\d+: )?[*.]?[A-Z][a-z]{2} +\d+ [\d:. ]+.*?" + _SYSLOG.pattern + r"|" + _SYSLOG.pattern)

_IN_ORDER = re.compile(
    r"(?:no )?(access-list \S+|ipv?6? ?prefix-list \S+|boot system|ip name-server|(?:tacacs|radius)-server host)\b"
)
"""Global lines whose order matters."""

_FREE_BODY = re.compile(r"(?:interface|line) ")
"""Sections whose lines may come in any order."""

_HEAD_SECTIONS = 20

_KEYWORD = re.compile(r"[a-z][a-z-]*")


class Fingerprint(Struct, frozen=True, kw_only=True):
    """A configuration as digests, without the lines that change by themselves.

    Attributes:
        whole: SHA-256 over all of it, hexadecimal: equal means equal.
        lines: First 16 hexadecimal digits of the SHA-256 of salt and line, one per line, in order.
    """

    whole: str
    lines: tuple[str, ...]


class Difference(Struct, frozen=True, kw_only=True):
    """The difference of a configuration from a fingerprint; false if they are equal.

    Attributes:
        added: New lines; only the first one or two keywords of those that staging may not set.
        gone: Number of missing lines.
        reordered: Whether the same lines are in another order that matters, or in other sections.
    """

    added: tuple[str, ...]
    gone: int
    reordered: bool

    def __bool__(self) -> bool:
        """Return whether there is a difference."""
        return bool(self.added or self.gone or self.reordered)

    def __str__(self) -> str:
        """Return the difference in one sentence."""
        if not self:
            return "equal"
        if self.reordered:
            return "the same lines in another order"
        shown = ", ".join(f"'{line.strip()}'" for line in self.added[:5])
        more = f" and {len(self.added) - 5} more" if len(self.added) > 5 else ""
        added = f"new: {shown}{more}" if self.added else "none new"
        return f"{added}; gone: {self.gone or 'none'}"


def fingerprint(configuration: Configuration, *, salt: str) -> Fingerprint:
    """Return the digests of a configuration; the salt makes equal lines of two devices differ.

    Raises:
        ConfigNotUnderstood: A text in it does not end.
    """
    return _fingerprint(_kept(configuration), salt)


def difference(before: Fingerprint, configuration: Configuration, *, salt: str) -> Difference:
    """Return how a configuration differs from the one of a fingerprint.

    Raises:
        ConfigNotUnderstood: A text in it does not end.
    """
    kept = _kept(configuration)
    if _fingerprint(kept, salt).whole == before.whole:
        return Difference(added=(), gone=0, reordered=False)
    new, missing = _unknown(before, _lines(kept), salt)
    return Difference(added=tuple(map(_shown, new)), gone=missing, reordered=not new and not missing)


def new_lines(before: Fingerprint, configuration: Configuration, *, salt: str) -> tuple[str, ...]:
    """Return the global lines that are not in a fingerprint, in full: they may hold secrets.

    Raises:
        ConfigNotUnderstood: A text in the configuration does not end.
    """
    return tuple(_unknown(before, (one.line for one in _kept(configuration)), salt)[0])


def holds_syslog(configuration: Configuration) -> bool:
    """Return whether a log line may have been printed into a configuration; reading it again decides."""
    found = sections_of(configuration)
    return any(_SYSLOG.search(one.line) for one in found if not one.line.startswith(("event ", "logging ")))


def _fingerprint(kept: Sequence[Section], salt: str) -> Fingerprint:
    order = _hashed([salt, *_in_order(kept)])
    return Fingerprint(
        whole=_hashed([salt, order, *sorted(map(_block, kept))]),
        lines=tuple(_digest(line, salt) for line in _lines(kept)),
    )


def _unknown(before: Fingerprint, lines: Iterable[str], salt: str) -> tuple[list[str], int]:
    """Return the lines that are not in a fingerprint, and how many of its lines are missing."""
    missing, new = Counter(before.lines), []
    for line in lines:
        if missing[digest := _digest(line, salt)]:
            missing[digest] -= 1
        else:
            new.append(line)
    return new, missing.total()


def _kept(configuration: Configuration) -> list[Section]:
    """Return the sections that count: not the header before `version`, no comment, nothing that changes by itself."""
    found = sections_of(configuration)
    heads = (number for number, one in enumerate(found[:_HEAD_SECTIONS]) if one.line.startswith("version "))
    return [one for one in found[next(heads, 0) :] if not one.is_comment and not _moves(one)]


def _moves(section: Section) -> bool:
    return not section.body and bool(_MOVES.match(section.line) or _SYSLOG_LINE.match(section.line))


def _lines(kept: Iterable[Section]) -> list[str]:
    return [line for one in kept for line in (one.line, *one.body)]


def _block(section: Section) -> str:
    """Return a section as one text, equal for every order that means the same."""
    body = _ordered(section.body) if _FREE_BODY.match(section.line) else section.body
    return "\n".join((section.line, *body))


def _ordered(body: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of a section sorted, lines of sub-modes after their own head."""
    groups: list[list[str]] = []
    for line in body:
        if groups and line.startswith("  "):
            groups[-1].append(line)
        else:
            groups.append([line])
    return tuple(line for group in sorted(groups) for line in group)


def _in_order(kept: Iterable[Section]) -> list[str]:
    """Return the sections whose order matters, by kind and in their order."""
    found = [(match[1], _block(one)) for one in kept if (match := _IN_ORDER.match(one.line))]
    return [block for _, block in sorted(found, key=lambda pair: pair[0])]


def _hashed(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest(line: str, salt: str) -> str:
    return hashlib.sha256(f"{salt}\n{line}".encode()).hexdigest()[:16]


def _shown(line: str) -> str:
    """Return the part of a line that may be shown although it is not ours.

    A configuration has secrets in too many places to list them (`password X`, `key X`, `path ftp://u:p@h`, a community
    after `version 2c`). So only the first word is shown, and the second if it is a keyword with two more words after
    it.
    """
    words = line.split()
    if may_be_shown(line):
        return line
    shown = words[:2] if len(words) >= 4 and _KEYWORD.fullmatch(words[1]) else words[:1]
    return " ".join(shown) + (" ..." if len(words) > len(shown) else "")


CHANGED = "Last configuration change"

SAVED = "NVRAM config last updated"


class ConfigurationState(Struct, frozen=True, kw_only=True):
    """The state of a device's configuration as a whole; None for what the device does not show.

    Attributes:
        saved: Whether running and startup configuration agree.
        differing_lines: Number of differing lines, or None if not compared.
        changed_at: Time of the last change, as printed.
        rollback: The user who armed a rollback, and its time.
    """

    saved: bool | None
    differing_lines: int | None = None
    changed_by: str | None = None
    changed_at: str | None = None
    locked_by: str | None = None
    rollback: str | None = None

    @property
    def refusal(self) -> str | None:
        """Return why the configuration must not be changed now, or None."""
        if self.locked_by is not None:
            return f"the configuration is locked by {self.locked_by}: wait until that session has left it"
        if self.rollback is not None:
            return (
                f"a rollback of the whole configuration is pending ({self.rollback}), which would take our lines with "
                "it: have it confirmed ('configure confirm') or reverted first"
            )
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes for the operator."""
        if self.saved is not False:
            return ()
        who = f"; last changed at {self.changed_at}" if self.changed_at else ""
        by = f" by {self.changed_by}" if self.changed_by else ""
        lines = f" ({counted(self.differing_lines, 'line differs', 'lines differ')})" if self.differing_lines else ""
        return (f"the running configuration is not saved{lines}{who}{by}: a reload would lose it, and we save nothing",)


def saved_by_stamps(running: str, startup: str) -> bool | None:
    """Return whether the configuration is saved, by its stamps; None if they do not show that."""
    if first(Unchanged, running) is not None:
        return True
    changed, saved = _stamp(running, CHANGED), _stamp(running, SAVED)
    if changed is None:
        return None
    if saved is None:
        # Newer releases stamp only the change; the startup configuration then has the stamp of its save.
        saved = _stamp(startup, CHANGED)
        if saved is None:
            return None
        if _same(changed, saved):
            return True
    return _before(changed, saved)


def last_change(running: str) -> tuple[str | None, str | None]:
    """Return time and user of a configuration's last change."""
    stamp = _stamp(running, CHANGED)
    if stamp is None:
        return None, None
    return f"{stamp.time} {stamp.zone} {stamp.date}", stamp.user or None


def differing_lines(output: str) -> int | None:
    """Return the number of lines in `show archive config differences`, or None if it is not understood."""
    if first(NoDifference, output) is not None:
        return 0
    return len(rows(ConfigDifference, output)) or None


def lock_holder(output: str) -> str | None:
    """Return the user who holds a lock by `show configuration lock`, or None."""
    for lock in rows(ConfigLock, output):
        if lock.state.upper() == "LOCKED":
            cause = f" ({lock.cause})" if lock.cause else ""
            return f"user '{lock.user}' on line {lock.tty}{cause}"
    session = first(SessionLock, output)
    return f"user '{session.user}' on line {session.tty}" if session is not None else None


def pending_rollback(output: str) -> str | None:
    """Return the pending rollback in `show archive config rollback timer`, or None."""
    timer = first(RollbackTimer, output)
    if timer is None:
        return None
    return f"armed by '{timer.user}' at {timer.configured}, {timer.value}"


def _stamp(text: str, event: str) -> ConfigStamp | None:
    return next((row for row in rows(ConfigStamp, text) if row.event == event), None)


def _same(one: ConfigStamp, other: ConfigStamp) -> bool:
    return (one.time, one.zone, one.date, one.user) == (other.time, other.zone, other.date, other.user)


def _before(changed: ConfigStamp, saved: ConfigStamp) -> bool | None:
    """Compare two stamps of one device; None if its clock's time zone changed in between.

    Within one second the order is unknown, and a change that may have come last counts as one.
    """
    if changed.zone != saved.zone:
        return None
    at = [datetime.strptime(f"{one.time} {one.date}", "%H:%M:%S %a %b %d %Y") for one in (changed, saved)]
    return at[0] < at[1]


LATE_PAUSES_S = (0.5, 1.0, 2.0, 4.0)
"""Pauses between readings of our lines: a device may show its configuration as it was some seconds ago."""
READINGS = 3
"""Readings of a configuration that a log line was printed into."""

ASK_LIMIT_S = 60.0
"""Longest silence of such a command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configured:
    """A configuration as read; never stored, since it holds secrets.

    Attributes:
        text: All of it.
        sections: The same, parsed as IOS parses it.
        lines: Its global lines, with the entries of a standard list, however the list is shown.
        comments: Its comments in the first column, including the stamps, as one text.
        tcp: The lines that staging may change.
    """

    text: str = field(repr=False)
    sections: tuple[Section, ...] = field(repr=False)
    lines: tuple[str, ...] = field(repr=False)
    comments: str = field(repr=False)
    tcp: TcpLines

    @property
    def commands(self) -> str:
        """Return its global lines as one text."""
        return "\n".join(self.lines)


def read_running(session: DeviceSession, *, without_syslog: bool = False) -> Configured:
    """Return the running configuration as it is now.

    With `without_syslog` it is read again, a few times at most, if a log line was printed into it.

    Raises:
        OutputNotUnderstood: It is not complete, or a text in it does not end.
    """
    for _ in range(READINGS - 1 if without_syslog else 0):
        found = _configured(session, session.running_config())
        if not holds_syslog(found.sections):
            return found
    return _configured(session, session.running_config())


def ask_or_empty(session: DeviceSession, command: str) -> str:
    """Return the output of a command; empty if the release lacks it or the user may not use it."""
    try:
        return session.ask(command, limit_s=ASK_LIMIT_S)
    except DeviceRefused:
        return ""


def read_startup(session: DeviceSession) -> Configured:
    """Return the startup configuration as it is now; an empty one if the device has none."""
    return _configured(session, session.startup_config())


_LONGEST_KEPT_CHARS = 50_000

_MOST_KEPT = 64
"""Configurations that are kept parsed: a stage reads nine, of which five differ. Few: waiting devices have none."""


def _parsed(text: str) -> tuple[tuple[Section, ...], tuple[str, ...], str]:
    """Return a configuration's sections, its global lines and its comments. Raises `ConfigNotUnderstood`."""
    found = sections(text)
    return found, lines_of(found), "\n".join(one.line for one in found if one.is_comment)


_parsed_once = lru_cache(_MOST_KEPT)(_parsed)


def _configured(session: DeviceSession, text: str) -> Configured:
    try:
        found, lines, comments = (_parsed_once if len(text) <= _LONGEST_KEPT_CHARS else _parsed)(text)
    except ConfigNotUnderstood as error:
        raise OutputNotUnderstood(
            f"the configuration cannot be read: {error}",
            host=session.name,
            hint="Look at the banners, macros and certificates of the device's configuration",
        ) from None
    in_doubt = tuple(one for one in found if one.is_doubtful)
    if in_doubt and (doubtful := tcp_lines_of(lines_of(in_doubt), session.platform).lines):
        raise OutputNotUnderstood(
            f"the configuration cannot be read: '{doubtful[0]}' is in what may be embedded text of an unknown kind",
            host=session.name,
            hint="Look at 'show running-config' around that line: it may belong to a script or a message",
        )
    return Configured(
        text=text, sections=found, lines=lines, comments=comments, tcp=tcp_lines_of(lines, session.platform)
    )
