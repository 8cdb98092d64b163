"""A database file in the state folder: private, read without being changed, and of a schema that is known."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.store.database import OtherSchema, execute_all, make_private, open_to_read, schema_of, use_log
from tests.patience import PATIENCE_S


def rights(path: Path) -> int:
    """Return who may do what with a file."""
    return path.stat().st_mode & 0o777


def test_made_private(tmp_path: Path) -> None:
    """A database that is not there is made for its owner alone; what lies open beside one is closed to others."""
    log = tmp_path / "x.sqlite3-wal"
    log.touch(mode=0o644)
    other = tmp_path / "y.sqlite3"
    other.touch(mode=0o644)
    make_private(tmp_path / "x.sqlite3")
    assert (rights(tmp_path / "x.sqlite3"), rights(log), rights(other)) == (0o600, 0o600, 0o644)


def test_locks_stay(tmp_path: Path) -> None:
    """A connection of ours stays known to other processes where the same file is made private once more."""
    path = tmp_path / "x.sqlite3"
    make_private(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as ours:
        use_log(ours)
        execute_all(ours, "CREATE TABLE t (x)")
        make_private(path)
        look = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); d.execute('SELECT * FROM t'); d.close()"
        subprocess.run([sys.executable, "-I", "-S", "-c", look, path], check=True, timeout=PATIENCE_S)
        # Whoever closes it last takes the log away.
        assert path.with_name("x.sqlite3-wal").stat().st_size > 0


@pytest.mark.parametrize("name", ["x.sqlite3", "x.sqlite3-wal"])
def test_no_link_followed(tmp_path: Path, name: str) -> None:
    """A link in the place of a database or its log is refused, and what it leads to is left alone."""
    target = tmp_path / "target"
    target.touch(mode=0o644)
    (tmp_path / name).symlink_to(target)
    with pytest.raises(ConfigInvalid, match="found a link"):
        make_private(tmp_path / "x.sqlite3")
    assert rights(target) == 0o644


def test_asking_makes_none(tmp_path: Path) -> None:
    """Who asks for a database that is not there gets none, and none is made."""
    with open_to_read(tmp_path / "x.sqlite3") as database:
        assert database is None
    assert not list(tmp_path.iterdir())


def test_read_only(tmp_path: Path) -> None:
    """A database that was opened to be read cannot be written, whatever stands in its path."""
    path = tmp_path / "50% of?#.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        execute_all(database, "CREATE TABLE t (x); INSERT INTO t VALUES (7)")
    with open_to_read(path) as read:
        assert read is not None
        assert read.execute("SELECT x FROM t").fetchall() == [(7,)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            read.execute("DELETE FROM t")


def test_newer_schema() -> None:
    """A schema that is newer than the newest known is told as such; that one itself is taken."""
    with closing(sqlite3.connect(":memory:")) as database:
        assert schema_of(database, newest=3) == 0
        database.execute("PRAGMA user_version = 4")
        assert schema_of(database, newest=4) == 4
        with pytest.raises(OtherSchema, match="another flashferry: expected schema 3, found schema 4"):
            schema_of(database, newest=3)
