"""A global line of ours that has a name of its own and is switched off by it: a run's mark, a run's applet. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLine:
    """A kind of such lines.

    Attributes:
        command: How they begin.
        name: Regular expression of their names.
        what: What they are, in words, for errors.
    """

    command: str
    name: str
    what: str

    def line(self, name: str) -> str:
        """Return the line that sets one."""
        return f"{self.command} {name}"

    def is_one(self, line: str) -> bool:
        """Tell whether a line of a configuration is one of them; words may follow the name."""
        return self._found(line) is not None

    def name_of(self, line: str) -> str:
        """Return the name of one.

        Raises:
            ValueError: It is none.
        """
        found = self._found(line)
        if found is None:
            raise ValueError(f"no {self.what} of a run: {line!r}")
        return found[1]

    def rest_of(self, line: str) -> str:
        """Return what follows the name; empty where nothing does, or it is none of them."""
        found = self._found(line)
        return found[2] or "" if found is not None else ""

    def without(self, line: str) -> str:
        """Return the line that takes one back."""
        return f"no {self.line(self.name_of(line))}"

    def first(self, lines: Iterable[str], *, besides: Iterable[str] = ()) -> str | None:
        """Return the first of some lines that is one of them, or None.

        Args:
            lines: Global lines of a configuration.
            besides: Lines that do not count.
        """
        own = frozenset(besides)
        return next((line for line in lines if self.is_one(line) and line not in own), None)

    def _found(self, line: str) -> re.Match[str] | None:
        return re.fullmatch(rf"{re.escape(self.command)} ({self.name})(?: (.*))?", line)
