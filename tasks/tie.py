"""What a device made of the lines that were sent to it: which line that it shows is which of ours. Pure.

A device may show a line in other words than it was typed, and what it shows is all that tells later whether our line is
still in force. So the two are tied while we know that nothing else has changed, right after the lines were sent. What
cannot be tied could not be told from somebody else's line later, nor could its absence: it is taken back at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tasks.tuning import SOURCE_INTERFACE, WINDOW_SIZE, Change, TcpLines, shows


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
