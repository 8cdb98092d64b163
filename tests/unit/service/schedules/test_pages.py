"""Schedules on pages: what is due, what became of it, and forms that do what they say."""

from __future__ import annotations

from html import unescape

import pytest

from flashferry.service.pages.schedules import router
from flashferry.service.schedules.scheduler import run_once
from flashferry.store.service.jobs import ScheduleKind
from tests.served import view_of
from tests.unit.service.plans.calling import client as made
from tests.unit.service.schedules.conftest import at


@pytest.fixture
def client(service, who):
    return lambda name: made(service, who(name), router)


@pytest.fixture
def form(digest):
    return {"plan": digest, "calendar": "daily 22:00", "time_zone": "Europe/Amsterdam", "hours": "2", "title": "<b>x"}


def test_a_plan_is_scheduled_by_a_form_and_what_became_of_it_is_shown(client, form, clock, service):
    """Text stays text; the times are those of the schedule's zone."""
    answer = client("maker").post("/schedules", data=form)
    assert answer.status_code == 303
    path = answer.headers["Location"]
    assert "Sat 2026-11-21 22:00 CET" in client("ann").get(path).text
    clock[0] = at("21T21:00")
    run_once(service)
    text = client("ann").get(path).text
    assert "started on time" in text
    for where in (path, "/schedules"):
        assert "<b>x" not in client("ann").get(where).text
        assert "&lt;b&gt;x" in client("ann").get(where).text


def test_only_who_may_change_a_schedule_is_offered_to(client, form):
    """And each button says what it does, with a reason."""
    path = client("maker").post("/schedules", data=form).headers["Location"]
    assert "formaction" not in client("ann").get(path).text
    assert f'formaction="{path}/hold">Hold<' in client("maker").get(path).text
    for what, state in (("hold", "held"), ("release", "active"), ("own", "active"), ("remove", "ended")):
        assert client("eve").post(f"{path}/{what}", data={"reason": "why"}).status_code == 303
        assert view_of(lambda: client("eve").get(f"{path}"))["state"] == state
    assert "formaction" not in client("eve").get(path).text


@pytest.mark.parametrize("changes", [{"plan": ""}, {"night": "labs/small.yaml"}, {"hours": "nan"}, {"calendar": "x"}])
def test_a_form_that_makes_no_sense_is_refused(client, form, changes):
    """In a sentence."""
    assert client("maker").post("/schedules", data=form | changes).status_code == 422


def test_a_night_is_scheduled_by_who_operates_all_sites(client, form):
    """The folder of descriptions is set, so the form has a line for it."""
    assert 'name="night"' in client("maker").get("/schedules").text
    assert 'name="night"' not in client("bob").get("/schedules").text
    night = form | {"plan": "", "night": "labs/small.yaml"}
    path = client("maker").post("/schedules", data=night).headers["Location"]
    assert "a night in a lab: labs/small.yaml" in client("ann").get(path).text


def test_what_would_be_refused_is_told_before_it_is_due(client, schedule, service):
    """On the list and on its page."""
    made_one = schedule(by="eve")
    with service.database.writing() as database:
        database.execute("UPDATE people SET state = 'disabled' WHERE name = 'eve'")
    for path in ("/schedules", f"/schedules/{made_one.schedule_id}"):
        assert "eve, who owns it, is disabled" in client("ann").get(path).text


def test_a_plan_that_one_comes_from_is_chosen_already(client, digest):
    """From the plan's page."""
    text = client("maker").get("/schedules", params={"plan": digest}).text
    assert f'<option value="{digest}" selected>' in text
    assert "By the plan" not in unescape(text)


def test_those_that_are_over_are_shown_where_asked_for(client, schedule, who, service, clock):
    """Once was, and is over."""
    schedule(calendar="once 2026-11-21 22:00", kind=ScheduleKind.PLAN)
    clock[0] = at("22T21:00")
    run_once(service)
    assert view_of(lambda: client("ann").get("/schedules"))["schedules"] == []
    assert len(view_of(lambda: client("ann").get("/schedules", params={"ended": "true"}))["schedules"]) == 1
