"""Schedules for programs: what each route answers."""

from __future__ import annotations

import pytest

from flashferry.service.api.schedules import router
from flashferry.service.schedules.scheduler import run_once
from tests.unit.service.plans.calling import client as made
from tests.unit.service.schedules.conftest import at

PATH = "/api/v1/schedules"


@pytest.fixture
def client(service, who):
    return lambda name: made(service, who(name), router)


@pytest.fixture
def wanted(digest):
    return {"subject": digest, "calendar": "daily 22:00", "time_zone": "Europe/Amsterdam", "window_s": 7200}


def test_a_schedule_from_its_making_to_its_end(service, client, wanted, clock):
    """Made, begun once, held, let go on, taken over, removed; it stays to be read."""
    answer = client("maker").post(PATH, json=wanted)
    assert answer.status_code == 201
    path = answer.headers["Location"]
    told = client("ann").get(path).json()
    assert [one["local"] for one in told["next"]][:2] == ["Sat 2026-11-21 22:00 CET", "Sun 2026-11-22 22:00 CET"]
    assert told["why_not"] == ""
    clock[0] = at("21T21:00")
    run_once(service)
    (occasion,) = client("ann").get(path).json()["occasions"]
    assert (occasion["outcome"], occasion["due_at"]) == ("started", "2026-11-21T21:00:00.000Z")
    for what, state in (("hold", "held"), ("release", "active"), ("own", "active")):
        assert client("eve").post(f"{path}/{what}", json={"reason": "why"}).json()["state"] == state
    assert client("eve").get(path).json()["owner"] == "eve"
    assert client("eve").delete(path).status_code == 422
    assert client("eve").delete(path, params={"reason": "over"}).json()["state"] == "ended"
    assert client("eve").get(PATH).json()["schedules"] == []
    assert len(client("eve").get(PATH, params={"ended": "true"}).json()["schedules"]) == 1


def test_one_sees_what_one_may(client, wanted):
    """A viewer of one of two sites sees neither the schedule nor that it is there."""
    path = client("maker").post(PATH, json=wanted).headers["Location"]
    assert client("viv").get(PATH).json()["schedules"] == []
    assert client("viv").get(path).status_code == 404
    assert client("viv").post(f"{path}/hold", json={"reason": "x"}).status_code == 404
    assert client("bob").post(f"{path}/hold", json={"reason": "x"}).status_code == 403


def test_a_clock_that_skips_the_time_is_told_beforehand(client, wanted, clock):
    """In March, in the night in which it is set forward."""
    clock[0] = at("21T20:00").replace(year=2027, month=3)
    night = {"kind": "nightly", "subject": "labs/small.yaml", "calendar": "sun 02:30"}
    told = client("maker").post(PATH, json=wanted | night).json()
    assert (told["next"][0]["local"], told["next"][0]["oddity"]) == (
        "Sun 2027-03-28 03:30 CEST",
        "the clock skips 02:30 that day: it is due at 03:30",
    )


def test_why_it_would_be_refused_is_told_before_it_is_due(service, client, wanted):
    """So that somebody takes it over in time."""
    path = client("eve").post(PATH, json=wanted).headers["Location"]
    with service.database.writing() as database:
        database.execute("UPDATE people SET state = 'disabled' WHERE name = 'eve'")
    assert client("ann").get(path).json()["why_not"] == "eve, who owns it, is disabled"
