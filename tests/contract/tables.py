"""A journal's tables: their columns, and what stands in each, as keys and types."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.contract.normal import shape


def tables(path: Path, varying: frozenset[str]) -> str:
    """Return schema, columns and the shape of the rows of a journal, with the JSON in its columns."""
    with closing(sqlite3.connect(path)) as database:
        database.row_factory = sqlite3.Row
        (version,) = database.execute("PRAGMA user_version").fetchone()
        names = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
            if not name.startswith("sqlite_")
        ]
        columns = {name: [column[1:3] for column in database.execute(f"PRAGMA table_info({name})")] for name in names}
        rows = {name: [_read(row) for row in database.execute(f"SELECT * FROM {name}")] for name in names}
    content = {
        name: {
            "columns": [" ".join(column) for column in columns[name]],
            "rows": shape(rows[name], varying),
        }
        for name in names
    }
    return json.dumps({"schema": version, "tables": content}, indent=1) + "\n"


def _read(row: sqlite3.Row) -> dict[str, Any]:
    return {name: _opened(row[name]) for name in row.keys()}  # noqa: SIM118 -- a Row is no mapping


def _opened(value: object) -> Any:
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, str) and value[:1] in ("{", "["):
        with suppress(ValueError):
            return json.loads(value)
    return value
