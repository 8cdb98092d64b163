"""Terminals of Latin-1 and ASCII: no traceback, no nonsense; and the width that COLUMNS gives."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flashferry.cli.terminal import streams
from flashferry.cli.terminal.streams import ascii_for, is_ascii_asked_for
from flashferry.cli.view import layout

SPEAK = """
import sys
from rich.text import Text
from flashferry.cli import program as cli
from flashferry.cli.view import layout
from flashferry.cli.terminal.output import say
def status(*, json=False):
    layout.console().print(Text("image… → flash ▁█ 5 µs ü 漢"))
    say("mended — café")
cli.build = lambda: lambda **options: status()
cli.run([])
"""


def spoken(**environment: str) -> subprocess.CompletedProcess[bytes]:
    """Have the program print characters of all kinds."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONIO"))}
    root = {"PYTHONPATH": str(Path(__file__).parents[4])}
    return subprocess.run(
        [sys.executable, "-c", SPEAK], capture_output=True, check=False, env=kept | root | environment
    )


@pytest.mark.parametrize(
    ("environment", "encoding", "out", "err"),
    [
        ({"PYTHONIOENCODING": "latin-1"}, "latin-1", "image... -> flash _# 5 µs ü ?", "mended - café"),
        ({"PYTHONIOENCODING": "ascii"}, "ascii", "image... -> flash _# 5 us u ?", "mended - cafe"),
        ({"LC_ALL": "C"}, "ascii", "image... -> flash _# 5 us u ?", "mended - cafe"),
        ({"PYTHONIOENCODING": "utf-8"}, "utf-8", "image… → flash ▁█ 5 µs ü 漢", "mended — café"),
    ],
)
def test_what_a_terminal_cannot_show_has_a_likeness(environment, encoding, out, err):
    """What it can show it shows; the rest is ASCII that reads alike."""
    done = spoken(**environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode(encoding).strip() == out
    assert done.stderr.decode(encoding).strip() == f"flashferry: {err}"


def test_every_character_of_ours_has_a_likeness():
    """None of those that stand in our sources becomes a question mark."""
    root = Path(streams.__file__).parents[3]
    ours = {
        one
        for package in ("flashferry", "tasks")
        for path in (root / package).rglob("*.py")
        for one in path.read_text(encoding="utf-8")
        if not one.isascii()
    }
    assert len(ours) > 10
    assert {one for one in ours if not (ascii_for(one).isascii() and ascii_for(one) != "?")} == set()


@pytest.mark.parametrize(
    ("environment", "is_ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"LC_ALL": "POSIX"}, True),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({}, False),
        ({"LC_ALL": "C", "PYTHONIOENCODING": "utf-8"}, False),
        ({"LANG": "C"}, False),
    ],
)
def test_who_asks_for_ascii(environment, is_ascii):
    """LC_ALL alone: with LANG=C Python takes C.UTF-8, and so do we (PEP 538)."""
    assert is_ascii_asked_for(environment) is is_ascii


@pytest.mark.parametrize(("columns", "width"), [("80", 80), ("120", 120), (None, 160), ("wide", 160), ("3", 160)])
def test_the_width_of_what_is_piped(monkeypatch, columns, width):
    """160 columns, so that no row is cut; COLUMNS goes before."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert layout.console().width == width
