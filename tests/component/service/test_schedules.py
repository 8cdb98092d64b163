"""The scheduler in the service as a process that is killed: whenever that is, a due time is begun once or told."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.subjects import free_port
from flashferry.service.principal import Actor, Grant, Role, Via
from flashferry.service.schedules.scheduler import ScheduleSpec, make_schedule
from flashferry.service.service import Service
from flashferry.service.settings import RunSettings, ServiceSettings
from flashferry.store.service.audit import entries
from flashferry.store.service.database import ServiceDatabase, moment
from flashferry.store.service.jobs import (
    Outcome,
    ScheduleKind,
    ScheduleState,
    latest_jobs,
    occasions_of,
    schedule_of,
    set_schedule,
)
from flashferry.store.service.people import GivenGrant, Person, insert_grant, insert_person
from tests.browsing import Serving
from tests.patience import until

ROUNDS = 4
MAKER = Actor(name="maker", via=Via.SESSION, grants=frozenset({Grant(role=Role.OPERATOR)}))


@pytest.fixture
def service(tmp_path):
    """Return a service whose nights end at once: there is no lab in their description."""
    nights, state = tmp_path / "nights", tmp_path / "state"
    nights.mkdir()
    (nights / "night.yaml").write_text("{}")
    database = ServiceDatabase(state)
    (state / "service.toml").write_text(f'[runs]\nnights = "{nights}"\n')
    (state / "service.toml").chmod(0o600)
    with database.writing() as open_:
        insert_person(open_, Person(name="maker", source="local", created_at="2026"), password=None)
        insert_grant(open_, "maker", GivenGrant(role="operator", site="*", given_by="system", given_at="2026"))
    return Service(state=state, settings=ServiceSettings(runs=RunSettings(nights=nights)), database=database)


@pytest.mark.soak
def test_a_service_that_is_killed_around_a_due_time(service):
    """Before it, at it, behind it, again and again: one row, at most one job, and its line in the audit, each time."""
    wish = ScheduleSpec(
        title="n",
        kind=ScheduleKind.NIGHTLY,
        subject="night.yaml",
        calendar="daily 03:00",
        time_zone="UTC",
        window_s=3600,
    )
    made, chance = make_schedule(service, MAKER, wish), random.Random(20)
    serving = Serving(state=service.state, port=free_port())
    dues = []
    try:
        for _ in range(ROUNDS):
            serving.start()
            due = datetime.now(UTC) + timedelta(seconds=1)
            dues.append(moment(due))
            with service.database.writing() as database:
                set_schedule(
                    *(database, made.schedule_id),
                    state=ScheduleState.ACTIVE,
                    owner="maker",
                    next_at=moment(due),
                    sentence="",
                )
            killed_at = due + timedelta(seconds=chance.uniform(-0.3, 2.3))
            time.sleep(max(0.0, (killed_at - datetime.now(UTC)).total_seconds()))
            serving.kill()
            serving.start()
            assert _is_taken(service, made.schedule_id, due)
            serving.kill()
    finally:
        serving.kill()
    with service.database.reading() as database:
        found = occasions_of(database, made.schedule_id)
        jobs = latest_jobs(database, 100)
        told = [one.entry for one in entries(database) if one.entry.action == "schedule.started"]
    assert sorted(one.due_at for one in found) == sorted(dues)
    assert {one.outcome for one in found} == {Outcome.STARTED}
    assert sorted(one.job_id or "" for one in found) == sorted(job.job_id for job in jobs)
    assert len(told) == ROUNDS


def _is_taken(service, schedule_id, due):
    def is_moved() -> bool:
        with service.database.reading() as database:
            now = schedule_of(database, schedule_id)
        return now.next_at is not None and now.next_at > moment(due)

    return until(is_moved, "the next time of the schedule")
