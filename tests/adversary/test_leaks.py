"""The search for secrets finds them where they hide."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest

from tests.adversary.controller import surroundings
from tests.adversary.leaks import leaks, whole
from tests.patience import killed_at_end, until

SECRETS = {"the password": "Loginabc123"}


@pytest.mark.parametrize(
    "content",
    [b"said Loginabc123 aloud", b"Logina\r\nbc123", b"Logina$\x08bc123", rb'{"text": "Logina\nbc123"}'],
)
def test_a_secret_in_a_text(content: bytes):
    """Whole, wrapped, scrolled, or written as JSON."""
    assert list(leaks([("stderr", content)], SECRETS)) == ["the password is in stderr"]
    assert list(leaks([("stderr", b"said nothing")], SECRETS)) == []


@pytest.mark.parametrize("value", ["Loginabc123", zlib.compress(b"x" * 99 + b"Loginabc123")])
def test_a_secret_in_a_database(tmp_path: Path, value: str | bytes):
    """In a row, and in a row that is compressed."""
    path = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE devices (record)")
        database.execute("INSERT INTO devices VALUES (?)", (value,))
        database.commit()
    assert list(leaks([("journal", whole(path))], SECRETS)) == ["the password is in journal"]


def test_a_secret_in_the_environment_of_a_child():
    """What a child inherits, and what its command line says, is looked at; what it need not know is found."""
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import sys; sys.stdin.read()'])"
    environment = os.environ | {"FLASHFERRY_PASSWORD": "Loginabc123"}
    with killed_at_end(
        subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env=environment, stdout=subprocess.PIPE)
    ) as process:
        # A child that is just being started has a command line before it has an environment.
        found = until(
            lambda: list(leaks([("a child", surroundings(process.pid).partition(b"subprocess.run")[2])], SECRETS)),
            "the child's environment holds the password",
        )
        process.communicate(b"")
    assert found == ["the password is in a child"]
