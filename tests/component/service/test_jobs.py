"""Jobs as real processes: what a verb prints lands in the job's folder, and nothing of the service's goes along."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from flashferry.core.jobs import TAKEN, JobFolder
from flashferry.service.jobs.create import request_job
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.jobs.supervisor import Supervisor
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.jobs import Job, JobKind, JobState, job_of
from tests.patience import PATIENCE_S, until

ROUTER = {"hostname": "127.0.0.1", "port": 1, "platform": "ios", "username": "u", "password": "p"}
"""Nothing listens there."""


@pytest.fixture
def service(tmp_path: Path) -> Service:
    inventory = tmp_path / "inventory"
    inventory.mkdir()
    (inventory / "hosts.yaml").write_text(json.dumps({"r1": ROUTER}))
    state = tmp_path / "state"
    settings = ServiceSettings(runs=RunSettings(inventory=str(inventory)))
    return Service(state=state, settings=settings, database=ServiceDatabase(state))


def ask(service: Service) -> str:
    with service.database.writing() as database:
        return request_job(service, database, SYSTEM, JobSpec(kind=JobKind.CHECK)).job_id


def seen(service: Service, job_id: str) -> Job:
    with service.database.reading() as database:
        found = job_of(database, job_id)
    assert found is not None
    return found


class Services:
    """Services that are killed all the time: each look is the first one of another."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.killed: list[Supervisor] = []

    def look_until(self, job_id: str, is_so: Callable[[Job], bool]) -> Job:
        """Look until a job is so."""
        turns = count()

        def looked() -> Job | None:
            job = seen(self.service, job_id)
            if not is_so(job) and next(turns) % 10 == 0:
                self.killed.append(Supervisor())
                self.killed[-1].run_once(self.service)
            return job if is_so(job) else None

        return until(looked, lambda: f"another state than that of {seen(self.service, job_id)}")


@pytest.fixture
def services(service: Service) -> Iterator[Services]:
    made = Services(service)
    yield made
    # Their children would be init's.
    for one in made.killed:
        for child in one._children.values():
            child.wait(PATIENCE_S)


def test_a_job_is_done_once_by_services_that_are_killed_all_the_time(service, services, monkeypatch):
    """Each look is the first one of a service: one process, one result, its end in the row; no login goes along."""
    monkeypatch.setenv("FLASHFERRY_PASSWORD", "verysecret")
    monkeypatch.setenv("FLASHFERRY_OUTPUT", "/nowhere")
    job_id = ask(service)
    job = services.look_until(job_id, lambda one: not one.is_open)
    folder = JobFolder.of(service.state, job_id)
    assert (job.state, job.exit_code) == (JobState.ENDED, 3)
    assert job.sentence == "some devices could not be checked, or could not fetch from us"
    document = folder.document()
    assert (document["schema"], [one["host"] for one in document["devices"]]) == ("flashferry.check/1", ["r1"])
    assert "verysecret" not in "".join(path.read_text() for path in folder.path.iterdir())
    assert [path.name for path in folder.path.iterdir() if path.stat().st_mode & 0o077] == []
    again = subprocess.run(
        [sys.executable, "-m", "flashferry.service.jobs.child", str(folder.path)], capture_output=True, check=False
    )
    assert (again.returncode, folder.document()) == (TAKEN, document)


def test_a_jobs_process_outlives_who_began_it(service, services):
    """It has a session of its own: no signal to the service's group reaches it. Killed, it is told as dead."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        _killed_while_it_waits(service, services, silent.getsockname()[1])


def _killed_while_it_waits(service: Service, services: Services, port: int) -> None:
    (Path(service.settings.runs.inventory) / "hosts.yaml").write_text(json.dumps({"r1": ROUTER | {"port": port}}))
    job_id = ask(service)
    job = services.look_until(job_id, lambda one: one.state is not JobState.QUEUED and one.pid is not None)
    process = Path(f"/proc/{job.pid}")
    until(lambda: b"check" in (process / "cmdline").read_bytes(), "the command of the job")
    assert os.getsid(job.pid) == job.pid
    assert f"FLASHFERRY_JOB={job_id}".encode() in (process / "environ").read_bytes().split(b"\0")
    os.kill(job.pid, signal.SIGKILL)
    job = services.look_until(job_id, lambda one: not one.is_open)
    assert (job.state, job.exit_code) == (JobState.DEAD, None)
