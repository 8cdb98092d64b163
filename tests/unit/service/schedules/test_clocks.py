"""Whatever the clock does, and whoever looks when: nothing is begun twice, early or late, and nothing is forgotten."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.service.schedules.scheduler import GRACE_S, ScheduleSpec, make_schedule, run_once
from flashferry.store.service.database import moment_of
from flashferry.store.service.jobs import Outcome, ScheduleKind, latest_jobs, occasions_of
from tests.unit.service.schedules.conftest import at

BEGIN = at("21T20:00")
DAY_S = 86400

steps = st.lists(
    # Looks seconds to days apart; a clock that is put back, by minutes or by days; and right at due times.
    st.integers(1, 600) | st.integers(-3 * DAY_S, 3 * DAY_S) | st.sampled_from([3600, DAY_S, -DAY_S, 0, -1]),
    min_size=1,
    max_size=12,
)


@pytest.fixture
def night(service, who):
    """Return what makes a schedule of a night that is due each day at 21:00 UTC: such jobs do not refuse each other."""

    def night():
        wish = ScheduleSpec(
            title="n",
            kind=ScheduleKind.NIGHTLY,
            subject="labs/small.yaml",
            calendar="daily 21:00",
            time_zone="UTC",
            window_s=3600,
        )
        return make_schedule(service, who("maker"), wish).schedule_id

    return night


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps)
def test_a_clock_that_does_what_it_likes(service, clock, night, jumps):
    """Each due time has one row at most, begun within the grace by the clock of that moment, else told as missed."""
    clock[0] = BEGIN
    schedule_id, latest = night(), BEGIN
    for jump in jumps:
        clock[0] += timedelta(seconds=jump)
        run_once(service)
        latest = max(latest, clock[0])
    with service.database.reading() as database:
        found = occasions_of(database, schedule_id, most=1000)
        jobs = [job for job in latest_jobs(database, 1000) if schedule_id in job.reason]
    dues = [moment_of(one.due_at) for one in found]
    # Every due time up to the latest moment that any look saw is accounted for, and none that no clock has shown.
    assert sorted(dues) == list(_dues(latest))
    for one in found:
        late_s = (moment_of(one.claimed_at) - moment_of(one.due_at)).total_seconds()
        assert late_s >= 0
        assert (one.outcome is Outcome.STARTED) is (late_s <= GRACE_S)
    assert sorted(job.job_id for job in jobs) == sorted(one.job_id for one in found if one.job_id)


def _dues(until: datetime):
    due = BEGIN + timedelta(hours=1)
    while due <= until:
        yield due
        due += timedelta(days=1)
