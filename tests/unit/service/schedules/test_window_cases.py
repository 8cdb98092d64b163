"""A start at eight moments around a plan's window, on three surfaces: none is a spent run, none is silent.

docs/plan.md has the table; it is held against what happens here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flashferry.api.staging import wait_for_window
from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import replace
from flashferry.model.fleet_plan import FleetPlan, PlanWindow, spoken
from flashferry.reports import words
from flashferry.service.errors import ServiceError
from flashferry.service.jobs.create import waiting
from flashferry.service.plans.deciding import approve
from flashferry.service.plans.planning import begin
from flashferry.service.schedules.scheduler import ScheduleSpec, make_schedule, run_once
from flashferry.service.service import Service
from flashferry.store.service.database import moment
from flashferry.store.service.jobs import Outcome, ScheduleKind, jobs_of_plan, occasions_of

DOCS = Path(__file__).parents[4] / "docs" / "plan.md"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A plan's window, and when it is started."""

    name: str
    opens: str
    ends: str
    now: str

    @property
    def window(self) -> PlanWindow:
        return PlanWindow(opens_at=datetime.fromisoformat(self.opens), ends_at=datetime.fromisoformat(self.ends))

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.now)


NIGHT = {"opens": "2026-11-30T22:00+01:00", "ends": "2026-12-01T05:00+01:00"}
CASES = (
    Case(name="six hours before", **NIGHT, now="2026-11-30T16:00+01:00"),
    Case(name="two days before", **NIGHT, now="2026-11-28T22:00+01:00"),
    Case(name="inside", **NIGHT, now="2026-11-30T22:30+01:00"),
    Case(name="over midnight", **NIGHT, now="2026-12-01T00:30+01:00"),
    Case(name="after", **NIGHT, now="2026-12-01T05:00+01:00"),
    Case(
        name="the clock goes forward between",
        opens="2027-03-28T03:00+02:00",
        ends="2027-03-28T07:00+02:00",
        now="2027-03-28T01:59+01:00",
    ),
    Case(
        name="the clock goes back within",
        opens="2027-10-30T22:00+02:00",
        ends="2027-10-31T03:30+01:00",
        now="2027-10-31T02:30+01:00",
    ),
    Case(
        name="another zone",
        opens="2026-12-01T06:30+09:00",
        ends="2026-12-01T10:00+09:00",
        now="2026-11-30T22:00+01:00",
    ),
)


def on_the_command_line(case: Case) -> str:
    """Start the plan there; time passes as it waits, and what it prints comes back."""
    clock, lines = [case.at], []

    def sleep(seconds: float) -> None:
        # As if nothing happened meanwhile: seconds of waiting are minutes here.
        clock[0] = min(clock[0] + timedelta(seconds=60 * seconds), max(case.window.opens_at, clock[0]))

    try:
        wait_for_window(case.window, emit=lambda event: lines.append(event.text), now=lambda: clock[0], sleep=sleep)
    except ConfigInvalid as error:
        has_time = any(spoken(one) in error.message for one in (case.window.opens_at, case.window.ends_at))
        return "refused, no run is made" if has_time and clock == [case.at] else f"wrong: {error.message}"
    assert case.window.opens_at <= clock[0] < case.window.ends_at
    if not lines:
        return "starts"
    assert spoken(case.window.opens_at) in lines[0]
    return f"waits {lines[0].split(', in ')[1].split(';')[0]}, then starts"


def by_the_service(case: Case, service: Service, digest: str, actor: object) -> str:
    """Ask for a run there, and look at its job."""
    try:
        job = begin(service, actor, digest)
    except ServiceError as problem:
        has_time = "its window has passed: it was to end by 2026-12-01 04:00 UTC" in problem.sentence
        return "refused, no job is made" if has_time else f"wrong: {problem.sentence}"
    ((_, why),) = waiting([job], [], has_depot=False, now=moment(service.now()))
    if not why:
        assert job.not_before is None
        return "starts"
    assert job.not_before == moment(case.window.opens_at.astimezone(UTC))
    assert why == f"waits until {words.moment(job.not_before)}"
    return f"the job waits until {words.moment(job.not_before)[:16]} UTC"


def by_a_schedule(case: Case, service: Service, digest: str, actor: object, clock: list[datetime]) -> str:
    """Have a schedule made that is due then, and let it be due."""
    clock[0] = case.at - timedelta(hours=1)
    wish = ScheduleSpec(
        title="",
        kind=ScheduleKind.PLAN,
        subject=digest,
        calendar=f"once {case.at.astimezone(UTC):%Y-%m-%d %H:%M}",
        time_zone="UTC",
        window_s=3600,
    )
    try:
        made = make_schedule(service, actor, wish)
    except ServiceError as problem:
        has_time = spoken(case.at.astimezone(UTC)) in problem.sentence
        return "refused when it is made" if has_time else f"wrong: {problem.sentence}"
    clock[0] = case.at
    run_once(service)
    with service.database.reading() as database:
        (occasion,) = occasions_of(database, made.schedule_id)
        (job,) = jobs_of_plan(database, digest)
    assert (occasion.outcome, occasion.sentence, job.not_before) == (Outcome.STARTED, "started on time", None)
    return "starts when due"


@pytest.fixture
def row(
    service: Service, plan: FleetPlan, offered: Callable[..., str], who: Callable[[str], object], clock: list[datetime]
) -> Callable[[Case], str]:
    """Return what makes a case's row of the table."""

    def row(case: Case) -> str:
        clock[0] = case.at - timedelta(days=2)
        digests = []
        for title in ("a", "b"):
            of_case = replace(plan, starts_at=case.opens, ends_at=case.ends, duration_s=1800.0 + len(digests))
            digests.append(offered(of_case, title=title))
            approve(service, who("ann"), digests[-1])
        scheduled = by_a_schedule(case, service, digests[1], who("maker"), clock)
        clock[0] = case.at
        there = by_the_service(case, service, digests[0], who("maker"))
        cells = (case.name, on_the_command_line(case), there, scheduled)
        return f"| {' | '.join(cells)} |"

    return row


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_start_waits_is_refused_or_starts_and_the_documents_say_which(row: Callable[[Case], str], case: Case) -> None:
    """Each case's row, as it happens, stands in docs/plan.md."""
    made = row(case)
    assert made in DOCS.read_text().splitlines(), made


def test_a_schedule_that_is_due_before_the_window_has_its_job_wait(
    service: Service, plan: FleetPlan, offered: Callable[..., str], who: Callable[[str], object], clock: list[datetime]
) -> None:
    """The clock was put back after it was made: its job waits and the schedule says so; it is not 'on time'."""
    case = CASES[0]
    clock[0] = case.at - timedelta(days=1)
    digest = offered(replace(plan, starts_at=case.opens, ends_at=case.ends))
    approve(service, who("ann"), digest)
    wish = ScheduleSpec(
        title="",
        kind=ScheduleKind.PLAN,
        subject=digest,
        calendar="once 2026-11-30 22:00",
        time_zone="Europe/Amsterdam",
        window_s=8 * 3600,
    )
    early, short = (make_schedule(service, who("maker"), replace(wish, window_s=s)) for s in (8 * 3600, 3600))
    with service.database.writing() as database:
        database.execute("UPDATE schedules SET next_at = ?", (moment(case.at.astimezone(UTC)),))
    clock[0] = case.at
    run_once(service)
    with service.database.reading() as database:
        (waits,), (refused,) = (occasions_of(database, one.schedule_id) for one in (early, short))
        (job,) = jobs_of_plan(database, digest)
    assert (waits.outcome, waits.sentence) == (
        Outcome.STARTED,
        "its job waits: its window opens 2026-11-30 22:00 UTC+01:00, in 6 h 00 min",
    )
    assert job.not_before == "2026-11-30T21:00:00.000Z"
    assert refused.outcome is Outcome.REFUSED
    assert "its window opens 2026-11-30 22:00 UTC+01:00" in refused.sentence
