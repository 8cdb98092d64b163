"""Tables of text, and the changes between two: what pages show and streams carry. Pure.

A board has tables, a table rows by name in order, a row cells by name. Browsers set the text as text only.
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
        tone: `good`, `bad`, `warn`, `quiet` or empty; repeats the text by colour.
        path: Page that it links to, or empty.
    """

    text: str
    tone: str = ""
    path: str = ""

    @property
    def wire(self) -> str | list[str]:
        """Return it as streams carry it: the text alone if there is nothing else."""
        return [self.text, self.tone, self.path] if self.tone or self.path else self.text


def whole(board: Board) -> dict[str, object]:
    """Return a board as JSON types."""
    return {
        name: {"order": list(table), "rows": {key: _wire(row) for key, row in table.items()}}
        for name, table in board.items()
    }


def news(before: Board, after: Board) -> dict[str, object]:
    """Return the changes as JSON types: changed cells, and the order of rows if it changed.

    A row that is not in a new order is gone; a new one has all its cells. Both boards have the same tables.
    """
    found: dict[str, object] = {}
    for name, table in after.items():
        old = before.get(name, {})
        rows = {key: changed for key, row in table.items() if (changed := _changed(old.get(key, {}), row))}
        details: dict[str, object] = {"rows": rows} if rows else {}
        if list(old) != list(table):
            details["order"] = list(table)
        if details:
            found[name] = details
    return found


def patched(board: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a board with changes applied, as a browser does it; JSON types."""
    made = dict(board)
    for name, details in change.items():
        old = made.get(name, {"order": [], "rows": {}})
        order = details.get("order", old["order"])
        rows = {key: old["rows"].get(key, {}) | details.get("rows", {}).get(key, {}) for key in order}
        made[name] = {"order": order, "rows": rows}
    return made


def sse(kind: str, number: int, data: Mapping[str, object]) -> bytes:
    """Return a server-sent event in one line of data."""
    text = json.dumps(data, separators=(",", ":"))
    return f"event: {kind}\nid: {number}\ndata: {text}\n\n".encode()


def _changed(before: Row, after: Row) -> dict[str, str | list[str]]:
    if before is after:
        return {}
    return {name: cell.wire for name, cell in after.items() if before.get(name) != cell}


def _wire(row: Row) -> dict[str, str | list[str]]:
    return {name: cell.wire for name, cell in row.items()}
