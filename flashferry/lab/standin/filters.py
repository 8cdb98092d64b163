"""The output filters behind a pipe: include, exclude, begin, section, count (IOS "Show Command Output Filtering")."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_NAMES = ("begin", "count", "exclude", "include", "section")


class BadFilterError(ValueError):
    """The filter is not one of ours or its expression is not valid; ``offset`` counts from the pipe."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def split_pipe(line: str) -> tuple[str, str | None]:
    """Return command and filter; the first pipe with a blank before it parts them."""
    command, pipe, rest = line.partition(" |")
    return command, rest if pipe else None


def filter_text(text: str, specification: str) -> str:
    """Apply a filter such as ``include ^ip tcp`` to an output. Raises BadFilterError: it is none."""
    name, _, expression = specification.strip().partition(" ")
    candidates = [full for full in _NAMES if name and full.startswith(name.lower())]
    if not candidates or not expression:
        raise BadFilterError(1 + len(specification) - len(specification.lstrip()))
    try:
        pattern = re.compile(expression)
    except re.error as error:
        raise BadFilterError(1 + specification.index(expression)) from error
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    kept = _FILTERS[candidates[0]](lines, pattern)
    return "".join(f"{line}\n" for line in kept)


def _begin(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    first = next((i for i, line in enumerate(lines) if pattern.search(line)), len(lines))
    return lines[first:]


def _count(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    return [f"Number of lines which match regexp = {len(_include(lines, pattern))}"]


def _exclude(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    return [line for line in lines if not pattern.search(line)]


def _include(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    return [line for line in lines if pattern.search(line)]


def _section(lines: list[str], pattern: re.Pattern[str]) -> list[str]:
    """Keep each matching line with the lines indented below it."""
    kept: list[str] = []
    depth: int | None = None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if depth is not None and indent > depth and line.strip():
            kept.append(line)
            continue
        depth = indent if pattern.search(line) else None
        if depth is not None:
            kept.append(line)
    return kept


_FILTERS: dict[str, Callable[[list[str], re.Pattern[str]], list[str]]] = {
    "begin": _begin,
    "count": _count,
    "exclude": _exclude,
    "include": _include,
    "section": _section,
}
