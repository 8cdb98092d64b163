"""The tables have one reader, and no line of SQL is anywhere but in its room."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from flashferry import store
from flashferry.core.values import field_names
from flashferry.store.schema import migrate
from flashferry.store.tables import AttemptRow, LeaseRow, RecordRow, RunRow, SampledRow
from tests.house.modules import source_files, tree_of

ROOT = Path(store.__file__).parents[2]
STORE = ROOT / "flashferry" / "store"
HANDS_ON = (ROOT / "flashferry" / "service", ROOT / "flashferry" / "sites")
OWN = (STORE / "service", STORE / "sites")
"""The databases of the service and of sites, each its own."""
SQL = re.compile(r"\s*(?:SELECT\s.*\sFROM|INSERT\s.*INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|PRAGMA)\b", re.DOTALL)


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in source_files():
        yield path, tree_of(path)


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield the texts of a module, of those put together the fixed pieces."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "x" for one in node.values)


def hands_on(path: Path, tree: ast.Module) -> bool:
    """Tell whether one hands the connection of its transaction on to the store: names its kind, says nothing to it."""
    return not set(HANDS_ON).isdisjoint(path.parents) and "sqlite3.connect(" not in ast.unparse(tree)


def speaks_sql(path: Path, tree: ast.Module) -> bool:
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    return ("sqlite3" in imported and not hands_on(path, tree)) or any(SQL.match(text) for text in texts(tree))


def test_sql_is_spoken_in_one_room() -> None:
    """Nobody else opens a database, nor has a statement in a text."""
    speaking = [path for path, tree in modules() if speaks_sql(path, tree)]
    assert [path for path in speaking if STORE not in path.parents] == []
    assert STORE / "tables.py" in speaking


def test_questions_are_asked_in_one_module() -> None:
    """In that room, too, a table is read by one module: the others write."""
    asking = {
        path.name
        for path, tree in modules()
        if set(OWN).isdisjoint(path.parents) and any(text.lstrip().startswith("SELECT") for text in texts(tree))
    }
    # A device that begins anew has its row copied among the attempts, by the very statement that writes it there.
    # Nights are in a database of their own, and one module does all with it; so are service and sites, a module each
    # per subject.
    assert asking - {"journal_rows.py", "nights.py"} == {"tables.py"}


@pytest.mark.parametrize("kinds", [(RunRow,), (RecordRow, LeaseRow), (AttemptRow,), (SampledRow,)])
def test_rows_have_every_column(kinds: tuple[type, ...]) -> None:
    """A column that is added to a table is read by somebody, or its absence is a decision."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        migrate(database)
        table = {name for _, name, *_ in database.execute(f"PRAGMA table_info({kinds[0].TABLE})")}
    read = {name for kind in kinds for name in field_names(kind)} - {"is_sound"}
    assert table - read == {"seal"}
    assert read <= table
