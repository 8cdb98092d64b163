"""How processes of jobs are begun: by systemd where its template is named; and whether a depot serves them all."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.service.jobs.supervisor import has_depot, start, unit_of
from flashferry.store.service.jobs import Job, JobKind

from .conftest import AT

JOB = Job(
    job_id="j1",
    kind=JobKind.CHECK,
    words=("check",),
    requested_by="anna",
    via="session",
    created_at=AT,
    unit="flashferry-run@j1.service",
)


@pytest.fixture
def systemctl(tmp_path, monkeypatch):
    """A stand-in of systemd's command, which keeps what it was told and ends as a test says."""
    script = tmp_path / "bin" / "systemctl"
    script.parent.mkdir()

    def write(code, said=""):
        script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\necho "{said}" >&2\nexit {code}\n')
        script.chmod(0o755)
        return tmp_path / "told"

    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    return write


def test_a_unit_is_named_after_its_job():
    """None where the settings name no template."""
    assert unit_of("flashferry-run@.service", "j1") == "flashferry-run@j1.service"
    assert unit_of("", "j1") is None


def test_systemd_is_told_to_begin_it_and_not_waited_for(service, systemctl):
    """The process is systemd's, no child of ours."""
    told = systemctl(0)
    assert start(service, JOB) is None
    assert told.read_text() == "start --no-block -- flashferry-run@j1.service\n"


def test_what_systemd_refuses_is_told_with_what_to_do(service, systemctl):
    """In its own words."""
    systemctl(4, "Interactive authentication required.")
    with pytest.raises(ConfigInvalid, match="Interactive authentication required") as told:
        start(service, JOB)
    assert "docs/service.md" in (told.value.hint or "")


def test_without_systemd_that_is_said(service, monkeypatch, tmp_path):
    """A template is named on a host that has none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigInvalid, match="did not start"):
        start(service, JOB)


def test_a_depot_is_known_by_its_socket(service, monkeypatch):
    """That in the state folder, unless runs are told to use none, or another."""

    def told(*options):
        runs = replace(service.settings.runs, options=options)
        return has_depot(replace(service, settings=replace(service.settings, runs=runs)))

    monkeypatch.chdir(service.state)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("depot.sock")
        made.listen(1)
        assert told()
        assert not told("--depot", "never")
        assert not told("--depot", str(service.state / "other.sock"))
        assert told("--depot", str(service.state / "depot.sock"))


def test_a_socket_that_nobody_serves_is_no_depot(service, monkeypatch):
    """A depot that was killed leaves its socket; one whose line is full is there."""
    monkeypatch.chdir(service.state)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("depot.sock")
        assert not has_depot(service)
        made.listen(0)
        assert [has_depot(service) for _ in range(3)] == [True] * 3
    assert Path("depot.sock").is_socket()
    assert not has_depot(service)
    Path("depot.sock").unlink()
    Path("depot.sock").write_text("")
    assert not has_depot(service)
