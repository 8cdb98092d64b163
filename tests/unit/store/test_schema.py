"""The journal's schema: made whole or not at all, another one refused, each row sealed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.store.history import History
from flashferry.store.journal import Journal
from flashferry.store.schema import SCHEMA_VERSION
from flashferry.store.status import read_status
from tests.patience import PATIENCE_S


def rows(directory, table, columns="*"):
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall()


def version(directory):
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


WRITTEN_BEFORE = """
CREATE TABLE runs (run_id TEXT PRIMARY KEY, verb TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT);
CREATE TABLE devices (run_id TEXT NOT NULL REFERENCES runs, host TEXT NOT NULL);
"""
"""Of a journal that was written before the first release, whose schemas were 1 to 6."""


@pytest.mark.parametrize("schema", [1, 2, 6, 99])
def test_a_journal_of_another_schema_is_refused(tmp_path, schema):
    """To write and to read, in a sentence that says what to do; not a byte of it is changed."""
    path = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(WRITTEN_BEFORE)
        database.execute(f"PRAGMA user_version = {schema}")
    before = path.read_bytes()
    for use in (Journal, read_status, History.read):
        with pytest.raises(ConfigInvalid) as refused:
            use(tmp_path)
        assert f"written by another flashferry: expected schema {SCHEMA_VERSION}, found schema {schema}" in str(
            refused.value
        )
        assert "'flashferry recover' of the flashferry that wrote it" in str(refused.value.hint)
        assert "journal.sqlite3* out of" in str(refused.value.hint)
    assert path.read_bytes() == before


@pytest.mark.parametrize("statement", [1, 3, 5, 7, 9])
def test_a_death_in_the_middle_leaves_all_tables_or_none(tmp_path, statement):
    """Killed at its nth statement, the next one makes what is missing."""
    code = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from flashferry.store import grouped_writer\n"
        "seen = 0\n"
        "def count(statement):\n"
        "    global seen\n"
        "    seen += 1\n"
        "    if seen == int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "class Counted(sqlite3.Connection):\n"
        "    def __init__(self, *given, **named):\n"
        "        super().__init__(*given, **named)\n"
        "        self.set_trace_callback(count)\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda *given, **named: connect(*given, factory=Counted, **named)\n"
        "grouped_writer.open_database(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), str(statement)], check=False)
    assert done.returncode == -signal.SIGKILL
    tables = {name for (name,) in rows(tmp_path, "sqlite_master", "name")}
    assert (version(tmp_path), "steer_requests" in tables) in {(0, False), (SCHEMA_VERSION, True)}
    with Journal(tmp_path) as journal:
        assert journal.begin_run("stage")


def test_two_that_open_it_at_once_make_its_tables_once(tmp_path):
    """The second one waits for the first and finds the work done."""
    code = (
        "import sys; from pathlib import Path; from flashferry.store.journal import Journal\n"
        "sys.stdin.read(); Journal(Path(sys.argv[1]))"
    )
    children = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE) for _ in range(2)]
    for child in children:
        child.stdin.close()
    for child in children:
        child.wait(timeout=PATIENCE_S)
    assert [child.returncode for child in children] == [0, 0]
    assert version(tmp_path) == SCHEMA_VERSION == 1


def test_a_row_without_its_seal_or_with_another_is_damaged(tmp_path, kept):
    """Every row that is written has one; what another program changes or adds has none that fits."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for number in range(3):
            journal.add_transfer(run_id, f"r{number}", kept(ticket_id=f"t{number}"))
        assert journal.damaged_rows() == 0
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        database.execute("UPDATE transfers SET size_bytes = 1 WHERE host = 'r1'")
        database.execute("UPDATE transfers SET seal = NULL WHERE host = 'r2'")
        database.commit()
    with Journal(tmp_path) as journal:
        assert journal.damaged_rows() == 2


def test_a_new_journal_is_private_from_its_first_byte(tmp_path):
    """The folder too, and the log, which has the newest rows."""
    with Journal(tmp_path / "state") as journal:
        journal.begin_run("stage")
        found = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
        assert len(found) == 6
        assert [path.name for path in found if path.stat().st_mode & 0o077 and not path.name.endswith(".lock")] == []
