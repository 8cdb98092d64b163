"""Lines of a live view made of cells: each fits its column, whatever stands in it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

Span = tuple[str, str]
"""A piece of text and its style; an empty style is none."""

Line = list[Span]

GAP = "  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
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


def cut(line: Line, look: Look) -> Line:
    """Return a line no wider than the terminal, in signs that it has."""
    kept: Line = []
    width = look.width
    for text, style in line:
        if look.plain:
            text = text.replace("…", "~").encode("ascii", "replace").decode()
        if width <= 0:
            break
        length = cell_len(text)
        kept.append((text, style) if length <= width else (set_cell_size(text, width), style))
        width -= length
    return kept
