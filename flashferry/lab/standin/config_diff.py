"""Differences of configurations, as `show archive config differences` and `configure replace` find them.

Shapes follow the captures of genieparser (contextual and incremental diffs). Order of equal lines is not compared: IOS
does that for order-dependent lines such as access lists only, and none of those is modelled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.lab.standin.configuration import Line

if TYPE_CHECKING:
    from collections.abc import Sequence


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
