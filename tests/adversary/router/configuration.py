"""A configuration as IOS keeps it: entries with a rank each, printed from the state and never from what was typed.

What is set and taken out again leaves the same text: an entry's place is given by its rank, within a rank by its words
where the rank sorts, else by when it came.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field
from functools import lru_cache

SINGLE = (
    "hostname", "version", "enable secret", "aaa new-model", "clock timezone", "file prompt", "ip domain name",
    "ip domain lookup", "ip ftp source-interface", "ip ftp passive", "ip ftp username", "ip ssh version",
    "ip ssh window-size", "ip forward-protocol", "configuration mode", "snmp-server location", "snmp-server contact",
    "ntp clock-period", "ip http server", "ip http secure-server",
)  # fmt: skip
"""Lines of which there is one: another value takes the place of the first."""

_KEYED = (re.compile(r"ip tcp [a-z-]+"), re.compile(r"alias \S+ \S+"), re.compile(r"banner \S+"))

SECTIONS = (
    "interface", "line", "archive", "vrf definition", "router", "redundancy", "crypto pki trustpoint", "control-plane",
    "ip access-list", "class-map", "policy-map", "crypto pki certificate chain",
)  # fmt: skip
"""Lines that lead into a mode of their own; what is typed there stands indented below."""

RANKS = (
    "version", "service", "platform", "hostname", "boot-start-marker", "boot", "boot-end-marker", "vrf definition",
    "enable", "aaa", "clock", "switch", "file prompt", "ip name-server", "ip domain", "login", "subscriber",
    "multilink", "crypto pki trustpoint", "crypto pki certificate chain", "license", "memory", "diagnostic", "archive",
    "spanning-tree", "username", "redundancy", "configuration mode", "macro", "class-map", "policy-map", "interface",
    "router", "ip forward-protocol", "ip tcp", "ip http", "ip ftp", "ip tftp", "ip route", "ip ssh", "ip access-list",
    "logging", "access-list", "*", "snmp-server", "control-plane", "banner", "alias", "line", "ntp",
)  # fmt: skip

RANKS_OF_OLD = tuple(
    name for one in RANKS if one != "ip tcp" for name in ((one, "ip tcp") if one == "redundancy" else (one,))
)
"""Before 16.x the `ip tcp` lines stand behind the users, in front of the interfaces."""

SORTED = frozenset({"service", "ip tcp", "ip http", "ip ftp", "ip domain", "alias"})


@dataclass(slots=True)
class Entry:
    """A line with what stands below it.

    Attributes:
        line: As it is printed.
        below: Lines below it as they are printed, with their blanks; those of a banner begin in the first column.
        number: When it came, to keep its place within its rank.
        is_shown: Whether `show` prints it; one that is not is in force all the same.
    """

    line: str
    below: tuple[str, ...] = ()
    number: int = 0
    is_shown: bool = True

    @property
    def lines(self) -> tuple[str, ...]:
        """Return it as printed."""
        return (self.line, *self.below)


@dataclass(slots=True)
class Configuration:
    """All entries, and what is on without a line.

    Attributes:
        ranks: The order in which the platform prints kinds of lines.
        on_by_default: Lines that are in force without being there; taken out, their `no` is a line.
    """

    ranks: tuple[str, ...] = RANKS
    on_by_default: frozenset[str] = frozenset()
    entries: list[Entry] = field(default_factory=list)
    _count: int = 0

    def copied(self) -> Configuration:
        """Return a copy that goes its own way."""
        return copy.deepcopy(self)

    def put(self, line: str, below: tuple[str, ...] = (), *, is_shown: bool = True) -> None:
        """Set a line; a value takes the place of another one, a section keeps what stands below it already."""
        line = " ".join(line.split())
        if line.startswith("no "):
            self.take_out(line.removeprefix("no "))
            return
        key = key_of(line)
        self._drop(f"no {key}")
        if key in self.on_by_default:
            return
        for entry in self.entries:
            if key_of(entry.line) == key:
                entry.line, entry.is_shown = line, is_shown
                entry.below = below if line.startswith("banner") else _merged(entry.below, below)
                return
        self._add(Entry(line=line, below=below, is_shown=is_shown))

    def take_out(self, line: str) -> None:
        """Take a line out; what is on by default is then off by a line of its own. What is not there is no error."""
        line = " ".join(line.split())
        key = key_of(line)
        if key in self.on_by_default:
            if not any(entry.line == f"no {key}" for entry in self.entries):
                self._add(Entry(line=f"no {key}"))
            return
        self._drop(key)

    def put_below(self, head: str, line: str) -> None:
        """Set or take out a line of a section, which is made where it is not there."""
        if not any(entry.line == head for entry in self.entries):
            self._add(Entry(line=head))
        entry = next(entry for entry in self.entries if entry.line == head)
        line = " ".join(line.split())
        if line.startswith("no "):
            gone = line.removeprefix("no ")
            entry.below = tuple(one for one in entry.below if not f"{one.strip()} ".startswith(f"{gone} "))
        else:
            entry.below = _merged(entry.below, (f" {line}",))

    def find(self, prefix: str) -> Entry | None:
        """Return the first entry that begins with some words."""
        return next((entry for entry in self.entries if f"{entry.line} ".startswith(f"{prefix} ")), None)

    def printed(self) -> tuple[str, ...]:
        """Return what `show running-config` prints below its head."""
        lines: list[str] = []
        shown = [entry for entry in self._ordered() if entry.is_shown]
        for entry, following in zip(shown, [*shown[1:], None], strict=True):
            lines += entry.lines
            if entry.below or following is None or self._rank(following.line) != self._rank(entry.line):
                lines.append("!")
        return (*lines, "end")

    def in_force(self) -> tuple[str, ...]:
        """Return every line that is in force in the order of printing, also what is not shown; for the judge."""
        return tuple(
            f"{line}" if entry.is_shown else f"{line} (in force, not shown)"
            for entry in self._ordered()
            for line in entry.lines
        )

    def _ordered(self) -> list[Entry]:
        return sorted(self.entries, key=self._place)

    def _place(self, entry: Entry) -> tuple[int, str, int]:
        rank = self._rank(entry.line)
        name = self.ranks[rank]
        return rank, entry.line.removeprefix("no ") if name in SORTED else "", entry.number

    def _rank(self, line: str) -> int:
        return _rank_of(line, self.ranks)

    def _add(self, entry: Entry) -> None:
        self._count += 1
        entry.number = self._count
        self.entries.append(entry)

    def _drop(self, line: str) -> None:
        self.entries = [entry for entry in self.entries if not f"{entry.line} ".startswith(f"{line} ")]


@lru_cache(maxsize=4096)
def _rank_of(line: str, ranks: tuple[str, ...]) -> int:
    bare = f"{line.removeprefix('no ')} "
    found = [place for place, name in enumerate(ranks) if bare.startswith(f"{name} ")]
    return max(found, key=lambda place: len(ranks[place]), default=ranks.index("*"))


def key_of(line: str) -> str:
    """Return what a line sets, without its value."""
    for single in SINGLE:
        if f"{line} ".startswith(f"{single} "):
            return single
    for pattern in _KEYED:
        if (found := pattern.match(line)) is not None:
            return found[0]
    return line


def is_section(line: str) -> bool:
    """Tell whether a line leads into a mode of its own."""
    return any(f"{line} ".startswith(f"{head} ") for head in SECTIONS)


def _merged(present: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines of a section with more of them; a value takes the place of another one."""
    lines = list(present)
    for line in more:
        head = " ".join(line.split()[:2])
        same = next((place for place, one in enumerate(lines) if " ".join(one.split()[:2]) == head), None)
        if line in lines:
            continue
        if same is not None and head.split()[0] not in {"rule", "permit", "deny"}:
            lines[same] = line
        else:
            lines.append(line)
    return tuple(lines)


def parsed(text: str, *, ranks: tuple[str, ...] = RANKS, on_by_default: frozenset[str] = frozenset()) -> Configuration:
    """Return the configuration that a stock text describes: lines with a blank in front stand below the one above.

    A banner's text goes from `^C` to `^C`, a macro's to a line with `@` alone, in whatever column.
    """
    made = Configuration(ranks=ranks, on_by_default=on_by_default)
    entry: Entry | None = None
    until: str | None = None
    for line in text.splitlines():
        if until is not None and entry is not None:
            entry.below += (line,)
            until = None if line.strip() == until else until
            continue
        if line.startswith(" ") and entry is not None:
            entry.below += (line,)
        elif line.strip() not in {"", "!", "end"}:
            made._add(Entry(line=line.rstrip()))
            entry = made.entries[-1]
            until = "^C" if line.startswith("banner") else "@" if line.startswith("macro name") else None
    return made
