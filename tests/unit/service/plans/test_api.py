"""Plans for programs: what each route answers, with status and members that programs go by."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.model.plan_file import plan_text
from flashferry.service.api.plans import router
from tests.unit.service.plans.calling import client as made

PLANS = "/api/v1/plans"


@pytest.fixture
def client(service, who):
    return lambda name: made(service, who(name), router)


def test_from_a_file_to_an_approved_plan(client, plan):
    """Offered by one, read by another, approved with a comment; the file comes back as it was sent."""
    text = plan_text(plan)
    answer = client("maker").post(PLANS, params={"title": "core"}, content=text)
    assert (answer.status_code, answer.json()["state"], answer.json()["title"]) == (201, "draft", "core")
    path = answer.headers["Location"]
    assert client("maker").post(PLANS, content=text).status_code == 200
    read = client("ann").get(path).json()
    assert (read["is_startable"], read["why_not"]) == (False, "draft, not approved yet")
    assert read["plan"]["forecast_end"] == "2026-11-21T23:00:00+00:00"
    assert read["plan"]["actions"] == {"refused": 1, "stage": 1}
    assert read["plan"]["lines"] == [
        {"lines": ["ip tcp window-size 250000", "ip tcp selective-ack"], "devices": ["r1"]}
    ]
    approved = client("ann").post(f"{path}/approve", json={"comment": "ok"}).json()
    assert (approved["state"], approved["decided_by"], approved["comment"]) == ("approved", "ann", "ok")
    assert client("ann").get(path).json()["is_startable"] is True
    assert client("ann").get(f"{path}/file").text == text


@pytest.mark.parametrize(("name", "status"), [("maker", 403), ("bob", 403), ("viv", 404), ("ann", 200)])
def test_who_may_approve(client, plan, offered, name, status):
    """403 with what was expected, 404 for who may not even see it."""
    answer = client(name).post(f"{PLANS}/{offered(plan)}/approve", json={})
    assert answer.status_code == status
    if status != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["hint"]


def test_what_a_state_forbids_is_a_conflict(client, plan, offered):
    """Twice approved, denied after it: 409; denied without a word: 422."""
    path = f"{PLANS}/{offered(plan)}"
    assert client("ann").post(f"{path}/deny", json={}).status_code == 422
    assert client("ann").post(f"{path}/approve", json={}).status_code == 200
    assert client("ann").post(f"{path}/approve", json={}).status_code == 409
    assert client("ann").post(f"{path}/deny", json={"comment": "no"}).status_code == 409
    assert client("maker").post(f"{path}/withdraw", json={"comment": "later"}).json()["withdrawn_by"] == "maker"


def test_one_lists_what_one_may_see(client, plan, offered):
    """The newest first; plans that touch other sites are not there, nor found by their digest."""
    both = offered(plan, title="core")
    lim = offered(replace(plan, devices=(replace(plan.devices[0], site="LIM"),)))
    assert [one["digest"] for one in client("ann").get(PLANS).json()["plans"]] == [lim, both]
    assert [one["digest"] for one in client("viv").get(PLANS).json()["plans"]] == [lim]
    assert [one["digest"] for one in client("ann").get(PLANS, params={"title": "core"}).json()["plans"]] == [both]
    for path in ("", "/file", "/diff"):
        assert client("viv").get(f"{PLANS}/{both}{path}").status_code == 404


def test_a_plan_is_compared_with_the_one_before_it_of_its_title(client, plan, offered, clock):
    """Or with the one that is named; where there is none, it is said how to name one."""
    old = offered(plan, title="core")
    clock[0] = clock[0].replace(minute=1)
    offered(replace(plan, duration_s=5.0), title="other")
    new = offered(replace(plan, devices=plan.devices[:1]), title="core")
    found = client("ann").get(f"{PLANS}/{new}/diff").json()
    assert (found["before"], found["after"], found["removed"], found["is_none"]) == (old, new, ["r2"], False)
    assert client("ann").get(f"{PLANS}/{old}/diff", params={"against": new}).json()["added"] == ["r2"]
    none = client("ann").get(f"{PLANS}/{old}/diff")
    assert (none.status_code, none.json()["hint"]) == (404, "Name one: ?against=DIGEST")


def test_an_endless_body_is_cut_off(client, monkeypatch):
    """Nothing larger than a plan is read."""
    monkeypatch.setattr("flashferry.service.api.plans.MOST_BYTES", 10)
    monkeypatch.setattr("flashferry.service.plans.eligibility.MOST_BYTES", 10)
    assert client("maker").post(PLANS, content=b"x" * 11).status_code == 413
