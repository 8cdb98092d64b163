"""Processes told apart for good, and jobs that only one of them gets."""

from __future__ import annotations

import os
import subprocess
import sys

from flashferry.core.jobs import ProcessMark, claim, read_mark
from flashferry.core.values import replace


def test_a_process_is_known_until_it_ends():
    """Also where nobody has fetched it yet: a zombie does nothing any more."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = ProcessMark.of(child.pid)
    assert mark is not None
    assert mark.is_alive()
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not mark.is_alive()
    child.wait()
    assert not mark.is_alive()
    assert ProcessMark.of(child.pid) is None


def test_another_process_of_the_same_number_is_another():
    """A later one, or one of an earlier boot."""
    mine = ProcessMark.of(os.getpid())
    boot, _, tick = mine.started.partition(":")
    assert mine.is_alive()
    assert not replace(mine, started=f"{boot}:{int(tick) - 1}").is_alive()
    assert not replace(mine, started=f"another:{tick}").is_alive()


def test_of_many_processes_one_gets_a_job(tmp_path):
    """The others see who has it, whole; nothing else stays in the folder."""
    code = (
        "import sys; from pathlib import Path; from flashferry.core.jobs import claim\n"
        "sys.stdin.read(); print(claim(Path(sys.argv[1])))"
    )
    tries = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "begun.json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(6)
    ]
    for one in tries:
        one.stdin.close()
    said = {one.pid: one.stdout.read().decode().strip() for one in tries}
    for one in tries:
        one.stdout.close()
        one.wait()
    assert sorted(said.values()) == ["False"] * 5 + ["True"]
    mark = read_mark(tmp_path / "begun.json")
    assert said[mark.pid] == "True"
    assert [path.name for path in tmp_path.iterdir()] == ["begun.json"]


def test_a_file_that_says_nothing_is_no_mark(tmp_path):
    """Nor is one that is not there, nor a link."""
    assert read_mark(tmp_path / "none") is None
    (tmp_path / "odd").write_text("[]")
    assert read_mark(tmp_path / "odd") is None
    assert claim(tmp_path / "mine")
    assert not claim(tmp_path / "mine")
    assert read_mark(tmp_path / "mine") == ProcessMark.of(os.getpid())
