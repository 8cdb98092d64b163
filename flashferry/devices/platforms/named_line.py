"""A global configuration line with a name of its own, by which it is switched off. Pure.

A run's mark and its applet are such lines, and those by which a device serves files to devices beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLine:
    """A kind of such lines.

    Attributes:
        shown_as: Matches a line that sets one, however it is shown, with the groups `name` (or `head`) and `rest`.
        off: What switches one off, with a group's name in braces.
        keyword: What journals and reports call one, likewise.
        entries: Matches the `rest` of further lines of that name that we type, one for each device that is let in;
            None where ours is the only line of its name.
    """

    what: str
    shown_as: re.Pattern[str]
    off: str
    keyword: str = "{name}"
    entries: re.Pattern[str] | None = None

    @classmethod
    def of(cls, command: str, name: str, what: str) -> NamedLine:
        """Return the kind of the lines `COMMAND NAME ...`, by a regular expression of their names."""
        shown_as = re.compile(rf"{re.escape(command)} (?P<name>{name})(?P<rest> .*|)")
        return cls(what=what, shown_as=shown_as, off=f"no {command} {{name}}")

    def is_one(self, line: str) -> bool:
        """Return whether a line is one of them, ours or not."""
        return self.shown_as.fullmatch(line) is not None

    def name_of(self, line: str) -> str:
        """Return what journals call a line.

        Raises:
            ValueError: It is none of them.
        """
        return self.keyword.format(**self._parts(line))

    def rest_of(self, line: str) -> str:
        """Return what follows the name; empty also where the line is none of them."""
        return self._parts(line)["rest"] if self.is_one(line) else ""

    def without(self, line: str) -> str:
        """Return the line that takes one back.

        Raises:
            ValueError: It is none of them.
        """
        return self.off.format(**self._parts(line))

    def first(self, lines: Iterable[str]) -> str | None:
        """Return the first of some lines that is one of them, or None."""
        return next((line for line in lines if self.is_one(line)), None)

    def stands_for(self, ours: str, shown: str) -> bool:
        """Return whether a line that a device shows is one that we typed: of the same name and rest."""
        if not self.is_one(ours) or not self.is_one(shown):
            return False
        own, other = self._parts(ours), self._parts(shown)
        return own["name"] == other["name"] and own["rest"] == other["rest"]

    def line_in(self, ours: str, lines: Iterable[str], typed: Iterable[str] = ()) -> str | None:
        """Return the line that stands where ours is meant to be, or None.

        In a list, an entry that is none of the `typed` lines comes first: what takes ours back would take it too.
        """
        name = self.name_of(ours)
        same = [line for line in lines if self.is_one(line) and self.name_of(line) == name]
        own = [line for line in same if self.stands_for(ours, line)]
        if self.is_entry(ours):
            return next(iter(own), None)
        entries = [line for line in typed if self.is_entry(line)]
        strange = [line for line in same if line not in own and not self.goes_with(line, entries)]
        found = (*strange, *own, *same) if self.entries is not None else (*own, *same)
        return next(iter(found), None)

    def is_entry(self, line: str) -> bool:
        """Return whether a line is of the kind of the entries that we type, ours or not."""
        return self.entries is not None and bool(self.entries.fullmatch(self.rest_of(line)))

    def goes_with(self, line: str, entries: Collection[str]) -> bool:
        """Return whether a line of the same name is one of our entries, or has no content.

        Where no entry of ours is known, each of that kind counts as ours.
        """
        if self.entries is None or not self._parts(line)["rest"]:
            return self.entries is not None
        return self.is_entry(line) and (not entries or any(self.stands_for(one, line) for one in entries))

    def _parts(self, line: str) -> dict[str, str]:
        """Return the groups of a line; two forms of one line may have their name at different places."""
        found = self.shown_as.fullmatch(line)
        if found is None:
            raise ValueError(f"no {self.what}: {line!r}")
        parts = {key: " ".join((one or "").split()) for key, one in found.groupdict().items()}
        parts["rest"] = parts["rest"].replace("permit host ", "permit ")
        return parts | {"name": parts["name"] or parts.get("head", "")}
