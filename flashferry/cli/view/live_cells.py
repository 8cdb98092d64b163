"""Lines of a live view made of cells: bars, rates, amounts and times, each no wider than its column. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

Span = tuple[str, str]
"""A piece of text and its style; an empty style is none."""

Line = list[Span]

GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalSize:
    """What a terminal can show.

    Attributes:
        width: Columns.
        height: Lines.
        plain: Whether only ASCII can be shown.
    """

    width: int
    height: int
    plain: bool = False


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return a text in exactly so many columns; one that is too long ends with an ellipsis."""
    text = "".join(character if character.isprintable() else " " for character in text)
    length = cell_len(text)
    if length <= width:
        return " " * (width - length) + text if right else text + " " * (width - length)
    return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""


def joined(cells: Iterable[Line]) -> Line:
    """Return cells as a line, with gaps between them; those without any text leave no gap."""
    line: Line = []
    for cell in cells:
        if line and cell:
            line.append((GAP, ""))
        line += cell
    return line


def cut(line: Line, screen: TerminalSize) -> Line:
    """Return a line no wider than the terminal, in signs that it has."""
    kept: Line = []
    width = screen.width
    for text, style in line:
        if screen.plain:
            text = text.replace("…", "~").encode("ascii", "replace").decode()
        if width <= 0:
            break
        length = cell_len(text)
        kept.append((text, style) if length <= width else (set_cell_size(text, width), style))
        width -= length
    return kept


_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def bar(share: float, width: int, *, plain: bool) -> tuple[str, str]:
    """Return the done and the undone part of a bar.

    Args:
        share: How much is done, 0 to 1.
        width: Columns of both parts together.
        plain: Whether only ASCII can be shown.
    """
    # Full only when all is done: rounding must not promise an end.
    filled = width if share >= 1 else min(width - 1, int(share * width))
    done, undone = ("#", ".") if plain else ("━", "─")
    return done * filled, undone * (width - filled)


def percent(share: float) -> str:
    """Return a share; 100 % only when all is done."""
    return f"{min(int(share * 100), 99 if share < 1 else 100)}%"


def rate(bytes_per_s: float) -> str:
    """Return a rate in MB/s with three figures or so, without its unit; a dash for none."""
    found = bytes_per_s / 1e6
    if found < 0.000_5:
        return "-"
    return f"{found:.3f}" if found < 1 else f"{found:.2f}" if found < 100 else f"{found:,.0f}"


def amount(done_bytes: float, all_bytes: float) -> str:
    """Return how much of how much in the unit that fits the whole."""
    for size, unit in _UNITS:
        if all_bytes >= size:
            return f"{done_bytes / size:,.1f} of {all_bytes / size:,.1f} {unit}"
    return f"{done_bytes / 1e6:.2f} of {all_bytes / 1e6:.2f} MB"


def clock(seconds: float) -> str:
    """Return a time as `4:05` or `1:02:03`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 1000:
        return f"{hours // 24} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left(seconds: float | None) -> str:
    """Return a time that is left; nothing where it is not known."""
    return "" if seconds is None else f"{clock(seconds)} left"
