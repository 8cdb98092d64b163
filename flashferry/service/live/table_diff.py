"""Rows of words of what goes on, and what changed between two such boards: what pages show and streams carry. Pure.

A board has tables, a table rows by name in their order, a row cells by name. Words are made here once for all browsers;
they set them as text and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, "Cell"]
Table = Mapping[str, Row]
Board = Mapping[str, Table]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell.

    Attributes:
        text: What it says.
        tone: `good`, `bad`, `warn`, `quiet` or empty: repeats by colour what the words say.
        path: The page that it leads to, or empty.
    """

    text: str
    tone: str = ""
    path: str = ""

    @property
    def wire(self) -> str | list[str]:
        """Return it as streams carry it: its text alone where it has nothing else."""
        return [self.text, self.tone, self.path] if self.tone or self.path else self.text


def whole(board: Board) -> dict[str, object]:
    """Return a board as JSON types."""
    return {
        name: {"order": list(table), "rows": {key: _wire(row) for key, row in table.items()}}
        for name, table in board.items()
    }


def news(before: Board, after: Board) -> dict[str, object]:
    """Return what changed, as JSON types: cells that are not what they were, and the order of rows where it is another.

    A row that is not in a new order is gone; one that is new has all its cells. Both boards have the same tables.
    """
    found: dict[str, object] = {}
    for name, table in after.items():
        old = before.get(name, {})
        rows = {key: changed for key, row in table.items() if (changed := _changed(old.get(key, {}), row))}
        told: dict[str, object] = {"rows": rows} if rows else {}
        if list(old) != list(table):
            told["order"] = list(table)
        if told:
            found[name] = told
    return found


def patched(board: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a whole board with its news taken in, as a browser does it; both as JSON types."""
    made = dict(board)
    for name, told in change.items():
        old = made.get(name, {"order": [], "rows": {}})
        order = told.get("order", old["order"])
        rows = {key: old["rows"].get(key, {}) | told.get("rows", {}).get(key, {}) for key in order}
        made[name] = {"order": order, "rows": rows}
    return made


def sse(kind: str, number: int, data: Mapping[str, object]) -> bytes:
    """Return an event of a stream: its name, its number, and its data in one line."""
    text = json.dumps(data, separators=(",", ":"))
    return f"event: {kind}\nid: {number}\ndata: {text}\n\n".encode()


def _changed(before: Row, after: Row) -> dict[str, str | list[str]]:
    if before is after:
        return {}
    return {name: cell.wire for name, cell in after.items() if before.get(name) != cell}


def _wire(row: Row) -> dict[str, str | list[str]]:
    return {name: cell.wire for name, cell in row.items()}
