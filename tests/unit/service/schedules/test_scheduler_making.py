"""Who makes and steers schedules, of what, and what is refused: each with its line in the audit."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from flashferry.core.values import replace
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.plans.deciding import deny
from flashferry.service.schedules.scheduler import Step, step
from flashferry.store.service.audit import entries
from flashferry.store.service.jobs import ScheduleKind, ScheduleState


def audit(service, outcome="done"):
    with service.database.reading() as database:
        found = [one.entry for one in entries(database) if one.entry.outcome == outcome]
    return [(one.actor, one.action, one.reason) for one in found if one.action.startswith("schedule.")]


def refused(call, *args, **kwargs):
    with pytest.raises(ServiceError) as found:
        call(*args, **kwargs)
    assert found.value.hint
    return found.value


def test_a_schedule_is_its_makers_and_due_by_its_own_clock(service, schedule):
    """22:00 in Amsterdam is 21:00 UTC in November; its title is its plan's where it has none."""
    made = schedule()
    assert (made.owner, made.made_by, made.title, made.sites) == ("maker", "maker", "t", ("AMS", "LIM"))
    assert made.next_at == "2026-11-21T21:00:00.000Z"
    assert audit(service) == [("maker", "schedule.made", "")]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"calendar": "every night"}, "calendar: expected a time"),
        ({"calendar": "once 2026-11-21 20:59"}, "expected a time to come"),
        (
            {"calendar": "once 2026-12-21 06:00"},
            "expected a time before the plan's end, 2026-12-21 05:00 UTC, found 2026-12-21 06:00 UTC+01:00",
        ),
        ({"calendar": "once 2026-12-21 05:01"}, "expected a time at least 1 h 00 min before the plan's end"),
        ({"time_zone": "Mars/Olympus"}, "time zone: expected"),
        ({"window_s": 3599}, "expected at least the 3,600 s that the plan takes"),
        ({"window_s": 59}, "window: expected 60 seconds to 604,800"),
        ({"window_s": 604801}, "window: expected 60 seconds to 604,800"),
        ({"title": "a\x00b"}, "title: expected one line"),
    ],
)
def test_what_could_never_be_begun_is_refused(schedule, changes, why):
    """At once, and not in the night."""
    found = refused(schedule, **changes)
    assert (status_of(found), why in found.sentence) == (HTTPStatus.UNPROCESSABLE_ENTITY, True), found.sentence


def test_a_schedule_that_is_due_before_its_plans_window_is_refused(schedule, offered, plan):
    """It would start nothing, or nothing at its time; both times have their zone."""
    late = offered(replace(plan, starts_at="2026-11-21T23:00:00+01:00"))
    found = refused(schedule, subject=late, calendar="once 2026-11-21 22:59")
    assert found.sentence == (
        "calendar: expected a time from the opening of the plan's window on, 2026-11-21 23:00 UTC+01:00, found "
        "2026-11-21 22:59 UTC+01:00"
    )
    assert schedule(subject=late, calendar="once 2026-11-21 23:00").next_at == "2026-11-21T22:00:00.000Z"


def test_an_unknown_plan_is_not_scheduled(schedule):
    """404, as for one that he may not see."""
    assert status_of(refused(schedule, subject="0" * 64)) is HTTPStatus.NOT_FOUND


def test_a_plan_that_was_denied_is_not_scheduled(service, schedule, offered, plan, who):
    """A draft may be: there is time to approve it."""
    draft = offered(replace(plan, starts_at="2026-11-21T21:00:00+00:00", ends_at=None))
    assert schedule(subject=draft).state is ScheduleState.ACTIVE
    deny(service, who("ann"), draft, "no")
    assert status_of(refused(schedule, subject=draft)) is HTTPStatus.CONFLICT


@pytest.mark.parametrize(("name", "kind"), [("ann", "plan"), ("bob", "plan"), ("bob", "nightly")])
def test_only_an_operator_at_all_its_sites_schedules(service, schedule, name, kind):
    """A night touches nobody knows what: it takes the role everywhere."""
    changes = {"kind": ScheduleKind.NIGHTLY, "subject": "labs/small.yaml"} if kind == "nightly" else {}
    found = refused(schedule, by=name, **changes)
    assert status_of(found) is HTTPStatus.FORBIDDEN
    assert audit(service, "refused") == [(name, "schedule.made", found.sentence)]


@pytest.mark.parametrize(
    "subject",
    [
        "../secret.yaml",
        "labs/../../secret.yaml",
        "out.yaml",
        "/etc/passwd",
        "",
        ".",
        "labs",
        "no.yaml",
        "a\x00b",
        "a" * 5000,
    ],
)
def test_a_night_is_a_file_below_its_folder_and_nothing_else(schedule, subject):
    """No way up, no link out, no folder, nothing that is not there."""
    found = refused(schedule, kind=ScheduleKind.NIGHTLY, subject=subject)
    assert "night: expected the path of a description" in found.sentence


def test_another_operator_takes_a_schedule_over(service, schedule, who, now):
    """Where its owner is gone, say; who made it stays told."""
    made = schedule()
    step(service, who("eve"), made.schedule_id, Step.OWN, "maker left")
    found, _ = now(made)
    assert (found.owner, found.made_by, found.sentence) == ("eve", "maker", "taken over by eve: maker left")
    assert audit(service)[-1] == ("eve", "schedule.own", "maker left")


@pytest.mark.parametrize("what", Step)
def test_nobody_steers_without_role_or_reason(service, schedule, who, what, now):
    """And each refusal is told."""
    made = schedule()
    step(service, who("maker"), made.schedule_id, Step.HOLD, "x") if what is Step.RELEASE else None
    before = now(made)
    assert status_of(refused(step, service, who("bob"), made.schedule_id, what, "why")) is HTTPStatus.FORBIDDEN
    assert status_of(refused(step, service, who("viv"), made.schedule_id, what, "why")) is HTTPStatus.NOT_FOUND
    assert "expected a reason" in refused(step, service, who("maker"), made.schedule_id, what, " ").sentence
    assert now(made) == before
    assert [(name, action) for name, action, _ in audit(service, "refused")] == [
        ("bob", f"schedule.{what}"),
        ("maker", f"schedule.{what}"),
    ]


@pytest.mark.parametrize(
    ("steps", "what"),
    [
        ((), Step.RELEASE),
        ((Step.HOLD,), Step.HOLD),
        *(((Step.REMOVE,), what) for what in Step),
    ],
)
def test_what_a_state_forbids_is_a_conflict(service, schedule, who, steps, what):
    """What is over is over."""
    made = schedule()
    for one in steps:
        step(service, who("maker"), made.schedule_id, one, "why")
    assert status_of(refused(step, service, who("maker"), made.schedule_id, what, "why")) is HTTPStatus.CONFLICT
