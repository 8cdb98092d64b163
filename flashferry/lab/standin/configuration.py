"""A configuration as state: lines in the places where IOS prints them.

A platform's configuration file is a running configuration with marks. ``!@ PREFIX`` says where lines that
begin with PREFIX stand, ``!@sorted PREFIX`` that they stand in alphabetical order, ``!@sections PREFIX``
that each is a section followed by ``!``, and ``!@ *`` where everything else goes. IOS prints a configuration from
its state, in a fixed order; so a line that is taken out and put back stands where it stood.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MARK = "!@"


@dataclass(slots=True)
class Line:
    """A line and the lines of its section, if it has one."""

    text: str
    children: list[Line] = field(default_factory=list)

    def copy(self) -> Line:
        """Return an independent copy."""
        return Line(self.text, [child.copy() for child in self.children])


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
            self.lines.sort(key=lambda each: each.text.removeprefix("no "))


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

    def lines(self) -> list[Line]:
        """Return the top-level lines in order."""
        return [line for slot in self.slots() for line in slot.lines]

    def find(self, key: str) -> Line | None:
        """Return the line that is ``key`` or begins with it and a blank."""
        return next((line for line in self.lines() if _has_key(line.text, key)), None)

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

    def put_child(self, section: str, text: str, *, key: str, order: tuple[str, ...]) -> None:
        """Set a line of a section; ``order`` lists the keys as IOS prints them."""
        line = self.find(section)
        if line is None:
            line = self.put(section, key=section)
        found = next((child for child in line.children if _has_key(child.text, key)), None)
        if found is not None:
            found.text = text
            return
        line.children.append(Line(text))
        if order:
            line.children.sort(key=lambda child: _rank(child.text.removeprefix("no "), order))

    def remove_child(self, section: str, key: str) -> bool:
        """Take a line out of a section; return whether there was one."""
        line = self.find(section)
        for child in line.children if line else ():
            if line and _has_key(child.text, key):
                line.children.remove(child)
                return True
        return False

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
            slot, last = _read_mark(raw), None
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
    return _with_place_for_all(Configuration(items))


def _with_place_for_all(configuration: Configuration) -> Configuration:
    if not any(slot.prefix == "*" for slot in configuration.slots()):
        raise ValueError("there is no mark '!@ *' for lines without a place of their own")
    return configuration


def _read_mark(raw: str) -> Slot:
    option, _, prefix = raw.removeprefix(_MARK).partition(" ")
    return Slot(prefix=prefix, is_sorted=option == "sorted", has_sections=option == "sections")


def _slot_for(raw: str, slot: Slot | None, items: list[str | Slot]) -> Slot:
    """Return the open slot when the line belongs to it, else a new one for this very line."""
    if slot is not None and (raw.removeprefix("no ") + " ").startswith(slot.prefix.removeprefix("no ")):
        return slot
    own = Slot(prefix=raw + " ")
    items.append(own)
    return own


def _has_key(text: str, key: str) -> bool:
    return text == key or text.startswith(key + " ")


def _rank(text: str, order: tuple[str, ...]) -> int:
    return next((i for i, key in enumerate(order) if _has_key(text, key)), len(order))
