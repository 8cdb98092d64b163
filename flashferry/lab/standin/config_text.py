"""Configuration files as lines: what `copy FILE running-config` and `configure replace` read.

Facts
-----
A saved configuration begins with a header (``Building configuration...``, ``Current configuration : N bytes``) that is
no command; ``!`` and blank lines separate; a line that begins with a blank belongs to the section above it; a
banner runs from its first delimiter to the next one, over lines (captures of whole configurations).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import Line

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            lines.append(Line(_whole_banner(banner, rows)))
        elif row[0] == " " and lines:
            lines[-1].children.append(Line(row[1:].rstrip()))
        else:
            lines.append(Line(row.strip()))
    return lines


def _whole_banner(start: tuple[str, str, str], rows: Iterator[str]) -> str:
    """Read a banner to its closing delimiter."""
    key, delimiter, text = start
    while delimiter not in text:
        row = next(rows, None)
        if row is None:
            break
        text += "\n" + row
    return banner_line(key, text.partition(delimiter)[0])


def as_commands(lines: list[Line]) -> list[str]:
    """Return lines as they would be typed: each section's lines behind it, indented by a blank."""
    return [text for line in lines for text in (line.text, *(f" {child.text}" for child in line.children))]
