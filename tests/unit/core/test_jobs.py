"""What a job's process hands on to the verb that it becomes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flashferry.core import jobs
from flashferry.core.jobs import JobFolder


class Executed(Exception):
    """Stands for the program that would run from here on."""


@pytest.mark.parametrize("given", [None, "glibc.malloc.arena_max=1"])
def test_a_job_keeps_no_freed_memory_for_each_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None
):
    """Hundreds of threads that wait would keep more than all else of them; what an operator set for glibc stays."""
    folder = JobFolder(path=tmp_path)
    folder.command.write_text(json.dumps({"job": "j1", "actor": "anna", "words": ["status"]}))
    got: list[dict[str, str]] = []

    def execute(_: str, words: list[str], environment: dict[str, str]) -> None:
        assert words[-1] == "status"
        got.append(environment)
        raise Executed

    monkeypatch.setattr(os, "execve", execute)
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setenv("FLASHFERRY_PASSWORD", "secret")
    name, value = jobs.NO_THREAD_CACHE
    monkeypatch.delenv(name, raising=False)
    if given is not None:
        monkeypatch.setenv(name, given)
    with pytest.raises(Executed):
        jobs.main([str(tmp_path)])
    (environment,) = got
    assert environment[name] == (given or value)
    assert environment["FLASHFERRY_JOB"] == "j1"
    assert "FLASHFERRY_PASSWORD" not in environment
