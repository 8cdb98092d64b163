"""Runs that the service begins, the whole way over HTTP: by the demo's two people, and by a schedule; and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.lab.demo.main_job import Before
from flashferry.lab.demo.service.environment import IMAGES, Environment, Person, opened_environment
from flashferry.lab.demo.service.scenario import ANNA, BEN, Scenario
from flashferry.lab.world import DeviceSpec, SiteSpec, WorldSpec
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.jobs import ScheduleState, set_schedule
from tests.e2e.conftest import Rig
from tests.needs import need_packages
from tests.patience import PATIENCE_S, until
from tests.some import some

pytestmark = pytest.mark.soak

ROUTERS = {"n1": "north", "s1": "south"}
IMAGE_BYTES = 300_000
PLAYBOOK = Path(__file__).parents[2] / "docs" / "examples" / "ansible" / "stage.yml"


@pytest.fixture(scope="module")
def ground() -> Iterator[Environment]:
    """The demo's ground with a router at each of two sites, and what the demo does on it, done; nothing is amiss."""
    sites = tuple(
        SiteSpec(name=site, profile="lan", devices=(DeviceSpec(name=name),)) for name, site in ROUTERS.items()
    )
    with opened_environment(WorldSpec(sites=sites), None, threading.Event(), threading.Event()) as made:
        assert Scenario(made).play() == ()
        yield made


@pytest.fixture
def people(ground: Environment) -> Iterator[tuple[Person, Person]]:
    """Both people of the demo, signed in."""
    with closing(Person(ground.url, ANNA)) as anna, closing(Person(ground.url, BEN)) as ben:
        yield anna, ben


def ended(who: Person, job_id: str) -> dict:
    """Return a job that has ended well."""

    def seen() -> dict | None:
        job = who.get(f"/jobs/{job_id}")
        return None if job["is_open"] or (job["kind"] == "plan" and job["digest"] is None) else job

    job = until(seen, lambda: f"the end of {who.get(f'/jobs/{job_id}')}")
    assert job["exit_code"] == 0, job
    return job


def planned(anna: Person, image: str, *names: str) -> str:
    """Return the digest of a plan over some routers, for a new image that was sent; it is a draft."""
    assert anna.send_image(image, os.urandom(IMAGE_BYTES))["state"] == "published"
    job = ended(anna, anna.post("/plans/make", {"title": image, "image": image, "hosts": names})["job"])
    return job["digest"]


def check_staged(ground: Environment, who: Person, run_id: str, image: str, names: set[str]) -> None:
    """Hold a run against what must have come of it: by the API, by its reports, and on the routers' flash."""
    devices = who.get(f"/runs/{run_id}/devices")["devices"]
    told = {one["host"]: (one["outcome"], one["restored"], one["image"], one["is_held"]) for one in devices}
    assert told == dict.fromkeys(names, ("done", "restored", image, False))
    report = who.get(f"/runs/{run_id}/report.json")
    assert {one["host"] for one in some(report["devices"])} == names
    assert report["summary"]["hashes_proven"] == len(names)
    assert who.text(f"/runs/{run_id}/report.html").startswith("<!DOCTYPE html>")
    for form in ("csv", "xml"):
        text = who.text(f"/runs/{run_id}/report.{form}")
        assert all(name in text for name in names)
    for name in names:
        assert [file.name for file in ground.world.files(name)].count(image) == 1


def check_audit(ben: Person, *expected: tuple[str, str]) -> None:
    """Hold the audit against who did what, in this order among others; it is whole."""
    assert ben.get("/audit/verify")["is_whole"]
    found = iter([(one["actor"], one["action"]) for one in ben.get("/audit")["entries"]])
    assert all(one in found for one in expected), f"not in this order: {expected}"


@pytest.mark.lab
def test_from_an_image_to_its_report_by_two_people(ground, people):
    """Sent and planned by one, approved by the other alone, begun, done; all restored, told and in the audit."""
    _, ben = people
    (run,) = ben.get("/runs")["runs"]
    plan = ben.get(f"/plans/{ben.get('/runs/' + run['run_id'])['plan_digest']}")
    assert (plan["made_by"], plan["decided_by"], plan["state"]) == ("anna", "ben", "approved")
    assert (run["state"], run["actor"]) == ("finished", "anna")
    check_staged(ground, ben, run["run_id"], IMAGES[0].name, set(ROUTERS))
    did = (("anna", "image.uploaded"), ("anna", "plan.made"), ("anna", "plan.approve"), ("ben", "plan.approve"))
    check_audit(ben, *did, ("anna", "run.start"), ("system", "job.ended"))


@pytest.mark.lab
def test_a_schedule_begins_an_approved_plan_when_it_is_due(ground, people):
    """Once, for its owner, with nobody at hand; its router is staged and restored, the others are left alone."""
    anna, ben = people
    before = Before.of(ground.world)
    digest = planned(anna, "second.bin", "s1")
    at = datetime.now(UTC) + timedelta(hours=2)
    asked = {"subject": digest, "calendar": f"once {at:%Y-%m-%d %H:%M}", "time_zone": "UTC", "window_s": 3600}
    schedule = anna.post("/schedules", asked)
    ben.post(f"/plans/{digest}/approve", {"comment": "read"})
    # A calendar knows minutes, and nobody is to wait for one: its due time is moved ahead.
    due = moment(datetime.now(UTC) + timedelta(seconds=2))
    with ServiceDatabase(ground.state).writing() as database:
        active = {"state": ScheduleState.ACTIVE, "owner": "anna", "sentence": ""}
        set_schedule(database, schedule["schedule_id"], next_at=due, **active)
    occasions = until(lambda: anna.get(f"/schedules/{schedule['schedule_id']}")["occasions"], "an occasion")
    (occasion,) = occasions
    assert (occasion["outcome"], occasion["due_at"]) == ("started", due)
    job = ended(anna, occasion["job_id"])
    check_staged(ground, ben, job["run_id"], "second.bin", {"s1"})
    assert not any(before.compared(ground.world).values())
    check_audit(ben, ("anna", "schedule.made"), ("ben", "plan.approve"), ("system", "schedule.started"))


@pytest.mark.lab
def test_an_ansible_playbook_runs_an_approved_plan(ground, people, tmp_path):
    """docs/examples/ansible/stage.yml refuses a draft; approved, it is checked, staged and restored, once per key."""
    playbook = need_packages("ansible-core").with_name("ansible-playbook")
    anna, ben = people
    before = Before.of(ground.world)
    digest = planned(anna, "by-ansible.bin", "n1")
    token = anna.post("/tokens", {"name": "ansible"})["token"]

    def play() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(playbook), str(PLAYBOOK), "-e", f"url={ground.url}", "-e", f"plan={digest}", "-e", "poll_s=1"],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=tmp_path,
            env=os.environ | {"FLASHFERRY_TOKEN": token, "HOME": str(tmp_path), "ANSIBLE_LOCALHOST_WARNING": "False"},
        )  # fmt: skip

    refused = play()
    assert refused.returncode == 2, refused.stdout
    assert anna.get(f"/plans/{digest}")["why_not"] in refused.stdout
    ben.post(f"/plans/{digest}/approve", {"comment": "read"})
    for _ in ("started", "followed"):
        done = play()
        assert done.returncode == 0, done.stdout + done.stderr
        assert token not in done.stdout + done.stderr
    (run,) = (one for one in anna.get("/runs")["runs"] if anna.get(f"/runs/{one['run_id']}")["plan_digest"] == digest)
    check_staged(ground, ben, run["run_id"], "by-ansible.bin", {"n1"})
    assert not any(before.compared(ground.world).values())


def test_a_command_of_a_rig_ends_with_a_block_that_fails(tmp_path):
    """The failure is told at once, and not waited for behind a command that would go on for ever."""
    access = SimpleNamespace(name="r1", address="192.0.2.1", username="u", password="p", enable_secret="e")
    rig = Rig(SimpleNamespace(core_pid=os.getpid(), devices=(access,)), tmp_path)  # type: ignore[arg-type]
    begun = []

    def fail() -> None:
        with rig.started("service", "--listen", "127.0.0.1:0") as process:
            begun.append(process)
            raise AssertionError(process.stderr.readline())

    with pytest.raises(AssertionError, match="the service has no admin"):
        fail()
    assert begun[0].poll() is not None


@pytest.mark.lab
def test_the_demo_ends_whenever_it_is_told_to():
    """With its people told already: exit code 130, and no process or folder of it is left."""
    # Sockets lie below it, whose paths may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="demo-") as folder:
        command = [sys.executable, "-P", "-m", "flashferry", "lab", "service-demo", "--wait"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": folder}) as demo:
            try:
                assert any(BEN.name in line for line in demo.stdout)
                assert any(folder in line for line in _command_lines())
                demo.send_signal(signal.SIGINT)
                demo.communicate(timeout=PATIENCE_S)
            finally:
                demo.kill()
        assert demo.returncode == 130
        assert not [line for line in _command_lines() if folder in line]
        assert not list(Path(folder).iterdir())


def _command_lines() -> list[str]:
    """Return the command lines of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text(errors="replace"))
    return found
