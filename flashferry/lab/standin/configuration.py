"""A configuration as state: lines in the places where IOS prints them.

A platform's configuration file is a running configuration with marks. ``!@ PREFIX`` says where lines that
begin with PREFIX stand, ``!@sorted PREFIX`` that they stand in alphabetical order, ``!@sections PREFIX``
that each is a section followed by ``!``, and ``!@ *`` where everything else goes. IOS prints a configuration from
its state, in a fixed order; so a line that is taken out and put back stands where it stood.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import hmac
import ipaddress
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MARK = "!@"
HERE = "{address}"
"""Stands for a device's own address in a configuration fresh from stock."""


@dataclass(slots=True)
class Line:
    """A line and the lines of its section, if it has one."""

    text: str
    children: list[Line] = field(default_factory=list)

    def copy(self) -> Line:
        """Return an independent copy."""
        return Line(self.text, [child.copy() for child in self.children])

    def value(self, key: str) -> str | None:
        """Return what follows ``key`` in a line of the section; None without such a line."""
        texts = [child.text for child in self.children if child.text.startswith(f"{key} ")]
        return texts[0].removeprefix(f"{key} ") if texts else None

    @property
    def interface(self) -> str:
        """The name of an interface whose section this is, as are the following."""
        return self.text.removeprefix("interface ")

    @property
    def address(self) -> str | None:
        """Its address."""
        words = (self.value("ip address") or "").split()
        return words[0] if words else None

    @property
    def network(self) -> ipaddress.IPv4Network | None:
        """The network that it is connected to; None also where its mask has gaps and makes none."""
        words = (self.value("ip address") or "").split()
        with contextlib.suppress(ValueError):
            return ipaddress.IPv4Network((words[0], words[1]), strict=False) if words else None
        return None

    @property
    def vrf(self) -> str:
        """Its VRF; empty for the global table."""
        return self.value("vrf forwarding") or ""

    @property
    def is_shut(self) -> bool:
        """Whether it is administratively down."""
        return any(child.text == "shutdown" for child in self.children)


@dataclass(slots=True, kw_only=True)
class Slot:
    """A place of the configuration."""

    prefix: str
    is_sorted: bool = False
    has_sections: bool = False
    lines: list[Line] = field(default_factory=list)

    def copy(self) -> Slot:
        """Return an independent copy."""
        lines = [line.copy() for line in self.lines]
        return Slot(prefix=self.prefix, is_sorted=self.is_sorted, has_sections=self.has_sections, lines=lines)

    def sort(self) -> None:
        """Put the lines into the order in which IOS prints them, where that is the alphabet's."""
        if self.is_sorted:
            self.lines.sort(key=_alphabet)

    def in_order(self) -> bool:
        """Return whether the lines are in the order of the alphabet."""
        return self.lines == sorted(self.lines, key=_alphabet)

    @property
    def is_of_one_line(self) -> bool:
        """Whether it is the place of one line that the platform's file has, and of no other."""
        return [f"{line.text} " for line in self.lines] == [self.prefix]


def _alphabet(line: Line) -> str:
    return line.text.removeprefix("no ")


@dataclass(slots=True)
class Configuration:
    """An ordered running configuration: fixed text (``!`` and blanks) and slots."""

    items: list[str | Slot]

    def copy(self) -> Configuration:
        """Return an independent copy."""
        # By hand: a thousand devices start with two of them each, and deepcopy takes ten times as long.
        return Configuration([item if isinstance(item, str) else item.copy() for item in self.items])

    def refilled(self, lines: list[Line]) -> Configuration:
        """Return a configuration with the same places that holds these lines instead."""
        other = self.copy()
        for slot in other.slots():
            slot.lines.clear()
        for line in lines:
            slot = other.slot_of(line.text)
            slot.lines.append(line.copy())
            slot.sort()
        return other

    def slots(self) -> list[Slot]:
        """Return the places."""
        return [item for item in self.items if isinstance(item, Slot)]

    def at_address(self, address: str) -> Configuration:
        """Return a copy in which `HERE` is an address."""
        made = self.copy()
        for line in made.lines():
            for child in line.children:
                child.text = child.text.replace(HERE, address)
        return made

    def lines(self) -> list[Line]:
        """Return the top-level lines in order."""
        return [line for slot in self.slots() for line in slot.lines]

    def find(self, key: str) -> Line | None:
        """Return the line that is ``key`` or begins with it and a blank."""
        return next((line for line in self.lines() if _has_key(line.text, key)), None)

    def has(self, place: tuple[str, ...]) -> bool:
        """Return whether a section is there, which is named by the lines that opened it and those around it."""
        top = self.find(place[0])
        return top is not None and (len(place) == 1 or _at(top.children, place[1:-1], place[-1]) is not None)

    def value(self, key: str) -> str | None:
        """Return what follows ``key`` in its line, empty for the key alone; None when there is no such line."""
        line = self.find(key)
        return None if line is None else line.text[len(key) :].strip()

    def put(self, text: str, *, key: str) -> Line:
        """Set a line: replace the one with the same key where it stands, or insert it in its place."""
        found = self.find(key)
        if found is not None:
            found.text = text
            return found
        slot = self.slot_of(text)
        line = Line(text)
        slot.lines.append(line)
        slot.sort()
        return line

    def remove(self, key: str) -> bool:
        """Take out the line with this key; return whether there was one."""
        for slot in self.slots():
            for line in slot.lines:
                if _has_key(line.text, key):
                    slot.lines.remove(line)
                    return True
        return False

    def render(self) -> str:
        """Return the text from ``version`` to ``end``."""
        out: list[str] = []
        for item in self.items:
            if isinstance(item, str):
                out.append(item)
                continue
            for line in item.lines:
                out.append(line.text)
                out.extend(f" {child.text}" for child in line.children)
                if item.has_sections:
                    out.append("!")
        return "".join(f"{text}\n" for text in out)

    def put_child(self, place: tuple[str, ...], text: str, *, key: str, order: tuple[str, ...]) -> None:
        """Set a line of a section in place of that with its key.

        `place` is the line that opened the section, and those within it that opened the sections of this one; `order`
        the keys as IOS prints them, those without a place of their own last.
        """
        top = self.find(place[0]) or self.put(place[0], key=place[0])
        for depth, opening in enumerate(place[1:]):
            if _at(top.children, place[1 : 1 + depth], opening) is None:
                self.put_child(place[: 1 + depth], opening, key=opening, order=())
        start, end = _bounds(top.children, place[1:])
        blank = " " * (len(place) - 1)
        found = _at(top.children, place[1:], key)
        if found is not None:
            top.children[found].text = blank + text
            return
        blocks = _blocks([*top.children[start:end], Line(blank + text)], len(blank))
        if order:
            blocks.sort(key=lambda block: _rank(block[0].text.strip().removeprefix("no "), order))
        top.children[start:end] = [line for block in blocks for line in block]

    def remove_child(self, place: tuple[str, ...], key: str) -> bool:
        """Take a line, and the section that it opened, out of a section; return whether there was one."""
        top = self.find(place[0])
        found = _at(top.children, place[1:], key) if top is not None else None
        if top is None or found is None:
            return False
        del top.children[slice(*_bounds(top.children, (*place[1:], key)))]
        del top.children[found]
        return True

    def slot_of(self, text: str) -> Slot:
        """Return the place where a line stands."""
        bare = text.removeprefix("no ")
        fitting = [s for s in self.slots() if s.prefix == "*" or (bare + " ").startswith(s.prefix.removeprefix("no "))]
        return max(fitting, key=lambda slot: len(slot.prefix) if slot.prefix != "*" else 0)


def parse_configuration(text: str) -> Configuration:
    """Read a platform's configuration file.

    Raises ValueError: a line is indented without a section above it, or there is no ``!@ *`` mark.
    """
    items: list[str | Slot] = []
    slot: Slot | None = None
    last: Line | None = None
    for raw in text.splitlines():
        if raw.startswith(_MARK):
            option, _, prefix = raw.removeprefix(_MARK).partition(" ")
            slot, last = Slot(prefix=prefix, is_sorted=option == "sorted", has_sections=option == "sections"), None
            items.append(slot)
        elif raw.startswith(" "):
            if last is None:
                raise ValueError(f"no section above the line {raw!r}")
            last.children.append(Line(raw[1:]))
        elif raw.startswith("!") or raw in {"", "end"}:
            if slot is not None and slot.has_sections and last is not None:
                last = None  # the separator that the slot prints itself
            else:
                items.append(raw)
                slot = None
        else:
            slot = _slot_for(raw, slot, items)
            last = Line(raw)
            slot.lines.append(last)
    configuration = Configuration(items)
    if not any(slot.prefix == "*" for slot in configuration.slots()):
        raise ValueError("there is no mark '!@ *' for lines without a place of their own")
    return configuration


def _slot_for(raw: str, slot: Slot | None, items: list[str | Slot]) -> Slot:
    """Return the open slot when the line belongs to it, else a new one for this very line."""
    if slot is not None and (raw.removeprefix("no ") + " ").startswith(slot.prefix.removeprefix("no ")):
        return slot
    own = Slot(prefix=raw + " ")
    items.append(own)
    return own


def _has_key(text: str, key: str) -> bool:
    return text == key or text.startswith(key + " ")


def _depth(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _bounds(children: list[Line], within: tuple[str, ...]) -> tuple[int, int]:
    """Return the first and the last but one index of the lines below a line of a section, which is found by its keys.

    The lines of a section are kept flat: what is deeper stands below its line, indented further.
    """
    start, end = 0, len(children)
    for depth, key in enumerate(within):
        at = next(
            i for i in range(start, end) if _has_key(children[i].text[depth:], key) and _depth(children[i]) == depth
        )
        start, end = at + 1, next((i for i in range(at + 1, end) if _depth(children[i]) <= depth), end)
    return start, end


def _at(children: list[Line], within: tuple[str, ...], key: str) -> int | None:
    """Return the index of a line of a section; None where there is no such line or no such section."""
    try:
        start, end = _bounds(children, within)
    except StopIteration:
        return None
    depth = len(within)
    fitting = (i for i in range(start, end) if children[i].text[:depth].isspace() or not depth)
    return next((i for i in fitting if _has_key(children[i].text[depth:], key)), None)


def _blocks(children: list[Line], depth: int) -> list[list[Line]]:
    """Return lines of a section, each with what stands deeper below it."""
    blocks: list[list[Line]] = []
    for line in children:
        if not blocks or _depth(line) <= depth:
            blocks.append([])
        blocks[-1].append(line)
    return blocks


def _rank(text: str, order: tuple[str, ...]) -> int:
    return next((i for i, key in enumerate(order) if _has_key(text, key)), len(order))


_HEADER = re.compile(r"(Building configuration\.\.\.|Current configuration|Using \d+ out of|Uncompressed size)")
_BANNER = re.compile(r"(banner (?:motd|login|exec|incoming)) (\^C|\S)(.*)", re.DOTALL)
DELIMITER = "^C"
"""How IOS shows the delimiter of a banner."""


def banner_start(line: str) -> tuple[str, str, str] | None:
    """Split ``banner motd #Hello`` into ``banner motd``, the delimiter and what follows it; None for other lines."""
    found = _BANNER.fullmatch(line.strip())
    return (found[1], found[2], found[3]) if found else None


def banner_line(key: str, text: str) -> str:
    """Return a banner as it stands in the running configuration."""
    return f"{key} {DELIMITER}{text}{DELIMITER}"


def banner_text(line: str | None) -> str:
    """Return what a configured banner says; empty for None."""
    found = banner_start(line) if line else None
    return found[2].removesuffix(found[1]) if found else ""


def parse_lines(text: str) -> list[Line]:
    """Read a configuration file; the header, comments and ``end`` are left out."""
    lines: list[Line] = []
    rows = iter(text.replace("\r", "").split("\n"))
    for row in rows:
        if row.strip() == "end":
            break
        if not row.strip() or row.lstrip().startswith("!") or _HEADER.match(row):
            continue
        banner = banner_start(row)
        if banner is not None:
            lines.append(Line(whole_banner(banner, rows)))
        elif row[0] == " " and lines:
            lines[-1].children.append(Line(row[1:].rstrip()))
        else:
            lines.append(Line(row.strip()))
    return lines


def whole_banner(start: tuple[str, str, str], rows: Iterator[str]) -> str:
    """Return the whole line of a banner, read from its first row to its closing delimiter."""
    key, delimiter, text = start
    while delimiter not in text:
        row = next(rows, None)
        if row is None:
            break
        text += "\n" + row
    return banner_line(key, text.partition(delimiter)[0])


def as_commands(lines: list[Line]) -> list[str]:
    """Return lines as they would be typed: each section's lines after it, indented by a blank."""
    return [text for line in lines for text in (line.text, *(f" {child.text}" for child in line.children))]


def contextual(old: Sequence[Line], new: Sequence[Line]) -> list[str]:
    """Return ``+`` and ``-`` lines that lead from old to new, each below the section it stands in."""
    before, after = {line.text: line for line in old}, {line.text: line for line in new}
    rows: list[str] = []
    for text, line in after.items():
        if text not in before:
            rows += [f"+{text}", *(f" +{child.text}" for child in line.children)]
        else:
            rows += _section(before[text], line)
    for text, line in before.items():
        if text not in after:
            rows += [f"-{text}", *(f" -{child.text}" for child in line.children)]
    return rows


def _section(old: Line, new: Line) -> list[str]:
    before, after = [c.text for c in old.children], [c.text for c in new.children]
    rows = [f" +{text}" for text in after if text not in before]
    rows += [f" -{text}" for text in before if text not in after]
    return [new.text, *rows] if rows else []


def replacing(running: Sequence[Line], target: Sequence[Line]) -> list[Line]:
    """Return the commands that turn running into target: removals first, so that a new value is not taken out again."""
    requested, present = {line.text: line for line in target}, {line.text: line for line in running}
    commands = [Line(inverse(line.text)) for line in running if line.text not in requested and not _is_fixed(line.text)]
    for line in target:
        if _is_fixed(line.text):
            continue
        old = present.get(line.text)
        if old is None:
            commands.append(Line(line.text, [Line(child.text) for child in line.children]))
            continue
        before, after = [c.text for c in old.children], [c.text for c in line.children]
        children = [inverse(text) for text in before if text not in after] + [t for t in after if t not in before]
        if children:
            commands.append(Line(line.text, [Line(text) for text in children]))
    return commands


def incremental(running: Sequence[Line], added: Sequence[Line]) -> list[str]:
    """Return the commands of a file that would change the running configuration."""
    present = {line.text: line for line in running}
    rows: list[str] = []
    for line in added:
        old = present.get(line.text)
        if not line.children:
            rows += [] if _is_in(line.text, list(present)) else [line.text]
            continue
        have = [child.text for child in old.children] if old else []
        new = [child.text for child in line.children if not _is_in(child.text, have)]
        if new or old is None:
            rows += [line.text, *(f" {text}" for text in new)]
    return rows


def inverse(text: str) -> str:
    """Return the command that takes a line out again."""
    if text.startswith("no "):
        return text.removeprefix("no ")
    return f"no {text.partition(chr(10))[0]}"


def _is_in(text: str, present: list[str]) -> bool:
    """Return whether a command changes nothing: the line stands already, or is gone already."""
    if not text.startswith("no "):
        return text in present
    bare = text.removeprefix("no ")
    return text in present or not any(each == bare or each.startswith(bare + " ") for each in present)


def _is_fixed(text: str) -> bool:
    """Return whether a line is one that no command sets: it says what wrote the file."""
    return text.startswith(("version ", "boot-start-marker", "boot-end-marker"))


_KINDS = (
    "GigabitEthernet", "FastEthernet", "Ethernet", "Loopback", "Tunnel", "Vlan", "TenGigabitEthernet", "TwentyFiveGigE",
    "FortyGigabitEthernet", "Port-channel", "BDI", "Dialer", "Virtual-Template", "Serial",
)  # fmt: skip

_VIRTUAL = ("Loopback", "Tunnel", "Vlan", "Port-channel", "BDI", "Dialer", "Virtual-Template")


def canonical_interface(name: str, configuration: Configuration) -> str | None:
    """Write an interface name out (``Gi1`` becomes ``GigabitEthernet1``).

    Returns None for a physical interface that the device does not have; virtual ones are made on demand.
    """
    found = re.fullmatch(r"([A-Za-z-]+)\s*(\d[\d/.]*)", name)
    kinds = [kind for kind in _KINDS if found and kind.lower().startswith(found[1].lower())]
    if found is None or not kinds:
        return None
    full = f"{kinds[0]}{found[2]}"
    parent = full.partition(".")[0]
    if kinds[0] in _VIRTUAL or configuration.find(f"interface {parent}") is not None:
        return full
    return None


def interface_range(text: str, configuration: Configuration) -> tuple[str, ...]:
    """Return the interfaces of ``Gi1/0/1 - 4, Te1/1/1``; none where one of them is not there."""
    names: list[str | None] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([A-Za-z-]+)\s*((?:\d+/)*)(\d+)(?:\s*-\s*(?:\d+/)*(\d+))?\s*", part)
        if found is None or int(found[4] or found[3]) < int(found[3]):
            return ()
        numbers = range(int(found[3]), int(found[4] or found[3]) + 1)
        names += [canonical_interface(f"{found[1]}{found[2]}{number}", configuration) for number in numbers]
    return () if None in names else tuple(name for name in names if name)


def interface_lines(configuration: Configuration) -> list[Line]:
    """Return the interface sections in order."""
    return [line for line in configuration.lines() if line.text.startswith("interface ")]


def is_virtual(name: str) -> bool:
    """Return whether an interface has no plug."""
    return name.startswith(_VIRTUAL)


def is_up(section: Line, cabled: tuple[str, ...]) -> bool:
    """Return whether an interface is up: not shut, and virtual, addressed or one with a cable to the world."""
    name = section.interface
    return not section.is_shut and (is_virtual(name) or section.address is not None or name in cabled)


def short_name(name: str) -> str:
    """Return an interface's name as tables shorten it (``Gi1/0/1``)."""
    kind = next((kind for kind in _KINDS if name.startswith(kind)), name)
    return f"{'Twe' if kind == 'TwentyFiveGigE' else kind[:2]}{name.removeprefix(kind)}"


_KEY7 = b"dsfd;kfoA,.iyewrkldJKDHSUBsgvca69834ncxv9873254k;fg87"
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_STANDARD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_IOS = str.maketrans(_STANDARD, _ALPHABET)


def encode7(plain: str, start: int = 8) -> str:
    """Return the type 7 form of a password; ``start`` (0-15) is the place in the key."""
    pairs = (byte ^ _KEY7[(start + i) % len(_KEY7)] for i, byte in enumerate(plain.encode("latin-1")))
    return f"{start:02d}" + "".join(f"{value:02X}" for value in pairs)


def decode7(text: str) -> str:
    """Undo `encode7`. Raises ValueError: the text is not in the type 7 form."""
    start, body = int(text[:2]), bytes.fromhex(text[2:])
    return bytes(b ^ _KEY7[(start + i) % len(_KEY7)] for i, b in enumerate(body)).decode("latin-1")


def hash9(plain: str, salt: str | None = None) -> str:
    """Return the type 9 form of a secret."""
    salt = salt or "".join(secrets.choice(_ALPHABET) for _ in range(14))
    digest = hashlib.scrypt(plain.encode(), salt=salt.encode(), n=16384, r=1, p=1, dklen=32)
    return f"$9${salt}${base64.b64encode(digest).decode().rstrip('=').translate(_TO_IOS)}"


@functools.lru_cache(maxsize=64)
def typed9(plain: str) -> str:
    """Return the type 9 form of a secret that is typed.

    The same secret gives the same form within a lab: a thousand devices that share a login would otherwise spend
    half a minute of scrypt before they start.
    """
    return hash9(plain)


def matches9(plain: str, hashed: str) -> bool:
    """Return whether a secret is that of a type 9 form."""
    parts = hashed.split("$")
    return len(parts) == 4 and hmac.compare_digest(hash9(plain, parts[2]), hashed)
