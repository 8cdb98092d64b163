"""What is due is begun once, on time, for somebody who may; all else is told and never begun late."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from flashferry.service.principal import SYSTEM
from flashferry.service.schedules.scheduler import GRACE_S, Step, run_once, step
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import JobKind, Outcome, ScheduleKind, ScheduleState, jobs_of_plan, latest_jobs
from tests.unit.service.schedules.conftest import at

DUE = at("21T21:00")


def jobs(service):
    with service.database.reading() as database:
        return latest_jobs(database, 100)


def audit(service):
    with service.database.reading() as database:
        return [(one.entry.actor, one.entry.action, one.entry.outcome) for one in entries(database)]


def change(service, statement, *values):
    with service.database.writing() as database:
        database.execute(statement, values)


@pytest.fixture
def hooked(service):
    """Return what reads the notices that a hook is to be sent."""
    change(
        service,
        "INSERT INTO hooks (hook_id, name, form, target, kinds) "
        """VALUES ('h', 'h', 'webhook', 'https://hook.example/', '["schedule.missed", "schedule.refused"]')""",
    )

    def read():
        with service.database.reading() as database:
            return [tuple(row) for row in database.execute("SELECT kind, body FROM outbox ORDER BY rowid")]

    return read


def test_nothing_is_begun_before_its_time(service, schedule, now, clock):
    """Not a millisecond."""
    made = schedule()
    clock[0] = DUE - timedelta(milliseconds=1)
    run_once(service)
    assert now(made)[1] == []
    assert jobs(service) == []


def test_what_is_due_is_begun_for_its_owner_until_its_window_ends(service, schedule, now, clock, digest):
    """A job for the plan, with the end of the window; the audit has it as the system's doing."""
    made = schedule()
    clock[0] = DUE
    run_once(service)
    (job,) = jobs(service)
    assert (job.kind, job.digest, job.requested_by, job.via) == (JobKind.STAGE, digest, "maker", "system")
    assert job.words[-2:] == ("--until", "2026-11-21T23:00:00+00:00")
    schedule_now, (occasion,) = now(made)
    assert (occasion.outcome, occasion.job_id, occasion.sentence) == (Outcome.STARTED, job.job_id, "started on time")
    assert schedule_now.next_at == "2026-11-22T21:00:00.000Z"
    assert ("system", "schedule.started", "done") in audit(service)


def test_a_plan_ends_no_later_than_it_says_itself(service, schedule, clock):
    """Where the window is longer."""
    schedule(calendar="once 2026-12-21 05:00", window_s=86400)
    clock[0] = at("21T04:00").replace(month=12)
    run_once(service)
    assert jobs(service)[0].words[-1] == "2026-12-21T05:00:00+00:00"


def test_however_many_look_it_is_begun_once(service, schedule, now, clock):
    """Twenty schedulers at the same moment."""
    made, ready = schedule(), threading.Barrier(20)
    clock[0] = DUE

    def one(_):
        ready.wait()
        run_once(service)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, range(20)))
    assert len(jobs(service)) == 1
    assert len(now(made)[1]) == 1


def test_a_clock_that_goes_back_begins_nothing_twice(service, schedule, now, clock, who):
    """Not by itself, and not where somebody holds it and lets it go on meanwhile."""
    made = schedule()
    clock[0] = DUE
    run_once(service)
    clock[0] = DUE - timedelta(hours=1)
    run_once(service)
    for what in (Step.HOLD, Step.RELEASE):
        step(service, who("maker"), made.schedule_id, what, "why")
    assert now(made)[0].next_at == "2026-11-21T21:00:00.000Z"
    clock[0] = DUE
    run_once(service)
    found, occasions = now(made)
    assert len(jobs(service)) == len(occasions) == 1
    assert found.next_at == "2026-11-22T21:00:00.000Z"


@pytest.mark.parametrize(("late_s", "outcome"), [(GRACE_S, Outcome.STARTED), (GRACE_S + 1, Outcome.MISSED)])
def test_it_is_begun_a_restart_late_and_no_more(service, schedule, now, clock, hooked, late_s, outcome):
    """Five minutes; behind that it is missed, which is told."""
    made = schedule()
    clock[0] = DUE + timedelta(seconds=late_s)
    run_once(service)
    (occasion,) = now(made)[1]
    assert occasion.outcome is outcome
    if outcome is Outcome.STARTED:
        assert occasion.sentence == "started 300 seconds late"
        assert hooked() == []
        return
    assert jobs(service) == []
    ((kind, body),) = hooked()
    assert kind == "schedule.missed"
    assert "the service did not run at 2026-11-21 21:00:00 UTC" in body
    assert ("system", "schedule.missed", "refused") in audit(service)


def test_what_does_not_fit_the_rest_of_its_window_is_missed(service, schedule, now, clock):
    """A plan of an hour, a window of an hour, a minute late."""
    made = schedule(window_s=3600)
    clock[0] = DUE + timedelta(minutes=1)
    run_once(service)
    assert now(made)[1][0].sentence == "59 min 00 s of its window were left, and it needs 1 h 00 min"
    assert jobs(service) == []


def test_each_night_that_nobody_was_there_is_told(service, schedule, now, clock, hooked):
    """A service that was down for three nights tells of three, and begins tonight's on time."""
    made = schedule()
    clock[0] = DUE + timedelta(days=3)
    run_once(service)
    assert [one.outcome for one in now(made)[1]] == [Outcome.MISSED] * 3 + [Outcome.STARTED]
    assert [kind for kind, _ in hooked()] == ["schedule.missed"] * 3


@pytest.mark.parametrize(
    ("statement", "why", "is_over"),
    [
        ("UPDATE people SET state = 'disabled' WHERE name = 'eve'", "eve, who owns it, is disabled", False),
        ("DELETE FROM grants WHERE person = 'eve'", "is no longer operator at AMS, LIM", False),
        ("UPDATE people SET state = 'disabled' WHERE name = 'ann'", "ann, who approved it, is disabled", False),
        ("UPDATE plans SET state = 'draft', decided_by = NULL", "draft, not approved yet", False),
        (
            "UPDATE plans SET state = 'withdrawn', withdrawn_by = 'ann', withdrawn_because = 'no'",
            "withdrawn by ann: no",
            True,
        ),
    ],
)
def test_what_may_not_be_begun_is_refused_and_told(
    service, schedule, now, clock, hooked, statement, why, is_over, digest
):
    """Owner gone, approval lapsed: the schedule stays for another owner, but ends with its plan."""
    made = schedule(by="eve")
    change(service, statement)
    clock[0] = DUE
    run_once(service)
    found, (occasion,) = now(made)
    assert occasion.outcome is Outcome.REFUSED
    assert why in occasion.sentence
    assert jobs(service) == []
    assert [kind for kind, _ in hooked()] == ["schedule.refused"]
    assert ("system", "schedule.refused", "refused") in audit(service)
    assert (found.state, found.next_at is None) == (ScheduleState.ENDED if is_over else ScheduleState.ACTIVE, is_over)


def test_another_image_on_disk_is_refused(service, schedule, now, clock, images):
    """The approval was for the one that was there."""
    made = schedule()
    (images / "new.bin").write_bytes(b"imagf")
    clock[0] = DUE
    run_once(service)
    assert "image new.bin on disk is not the one" in now(made)[1][0].sentence
    assert jobs(service) == []


def test_a_plan_that_is_under_way_is_not_begun_again(service, schedule, now, clock, digest):
    """Last night's run is not over yet."""
    made = schedule()
    for day in range(2):
        clock[0] = DUE + timedelta(days=day)
        run_once(service)
    assert [one.outcome for one in now(made)[1]] == [Outcome.STARTED, Outcome.REFUSED]
    with service.database.reading() as database:
        assert len(jobs_of_plan(database, digest)) == 1


def test_once_is_over_when_it_was(service, schedule, now, clock):
    """Begun or missed."""
    made = schedule(calendar="once 2026-11-21 22:00")
    clock[0] = DUE + timedelta(days=1)
    run_once(service)
    found, (occasion,) = now(made)
    assert (found.state, found.next_at, occasion.outcome) == (ScheduleState.ENDED, None, Outcome.MISSED)


@pytest.mark.parametrize("what", [Step.HOLD, Step.REMOVE])
def test_what_is_held_or_removed_begins_nothing(service, schedule, now, clock, who, what):
    """Nor is what passed meanwhile told as missed: somebody wanted it so."""
    made = schedule()
    step(service, who("maker"), made.schedule_id, what, "why")
    clock[0] = DUE + timedelta(days=2)
    run_once(service)
    if what is Step.HOLD:
        step(service, who("maker"), made.schedule_id, Step.RELEASE, "go")
        run_once(service)
        assert now(made)[0].next_at == "2026-11-24T21:00:00.000Z"
    assert now(made)[1] == []


def test_a_night_in_a_lab_is_begun_by_its_file(service, schedule, now, clock):
    """And refused where the file is gone by then."""
    made = schedule(kind=ScheduleKind.NIGHTLY, subject="labs/small.yaml")
    clock[0] = DUE
    run_once(service)
    (job,) = jobs(service)
    assert job.kind is JobKind.NIGHTLY
    assert job.words[-1].endswith("/nights/labs/small.yaml")
    (service.settings.runs.nights / "labs" / "small.yaml").unlink()
    clock[0] = DUE + timedelta(days=1)
    run_once(service)
    assert now(made)[1][1].sentence.startswith("night: expected the path of a description")


def test_a_look_that_is_undone_leaves_the_due_time_to_the_next(service, schedule, now, clock, monkeypatch):
    """Claim, job, audit and notice are one transaction: killed in between is as if nobody had looked."""
    made = schedule()
    clock[0] = DUE
    with monkeypatch.context() as patch:
        patch.setattr("flashferry.service.schedules.scheduler.set_schedule", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run_once(service)
    assert (now(made)[1], jobs(service)) == ([], [])
    run_once(service)
    assert len(jobs(service)) == 1


def test_the_service_ends_in_the_midst_of_a_long_list(service, schedule, now, clock):
    """What it did not get to is told the next time."""
    made = schedule()
    clock[0] = DUE + timedelta(days=3)
    service.stopping.set()
    run_once(service)
    assert now(made)[1] == []


def test_the_systems_name_is_in_the_audit_and_the_owners_on_the_job(service, schedule, clock):
    """Nobody is told to have sat there at night."""
    schedule(by="eve")
    clock[0] = DUE
    run_once(service)
    assert jobs(service)[0].requested_by == "eve"
    assert (SYSTEM.name, "schedule.started", "done") in audit(service)


def test_schedules_do_not_wait_for_each_other(service, schedule, now, clock, who):
    """One that is refused keeps no other one back."""
    first = schedule(by="eve", calendar="daily 21:59", kind=ScheduleKind.PLAN)
    other = schedule(kind=ScheduleKind.NIGHTLY, subject="labs/small.yaml")
    change(service, "UPDATE people SET state = 'disabled' WHERE name = 'eve'")
    clock[0] = DUE
    run_once(service)
    assert [now(one)[1][0].outcome for one in (first, other)] == [Outcome.REFUSED, Outcome.STARTED]


def test_a_clock_put_back_begins_nothing_twice(service, schedule, now, clock):
    """What was begun at its time is not begun when that time comes again; the next one is, on its day."""
    made = schedule()
    for time in (DUE, DUE - timedelta(minutes=30), DUE, DUE + timedelta(seconds=GRACE_S / 2)):
        clock[0] = time
        run_once(service)
    assert len(jobs(service)) == 1
    assert len(now(made)[1]) == 1
    clock[0] = DUE + timedelta(days=1)
    run_once(service)
    assert [occasion.due_at for occasion in now(made)[1]] == ["2026-11-21T21:00:00.000Z", "2026-11-22T21:00:00.000Z"]
