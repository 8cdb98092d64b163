"""Four eyes: who decides about a plan, once, about this very text; and when an approval is worth nothing."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus

import pytest

from flashferry.core.values import replace
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.plans.deciding import approve, deny, withdraw
from flashferry.service.plans.eligibility import start_obstacle
from flashferry.store.service.audit import entries
from flashferry.store.service.plans import PlanState, plan_of


def audit(service, outcome="done"):
    with service.database.reading() as database:
        return [(one.entry.actor, one.entry.action) for one in entries(database) if one.entry.outcome == outcome]


def stored(service, digest):
    with service.database.reading() as database:
        return plan_of(database, digest)


def change(service, statement, *values):
    with service.database.writing() as database:
        database.execute(statement, values)


def test_an_approved_plan_may_be_begun_and_keeps_what_was_said(service, who, plan, offered):
    """By whom, when, and the comment; the audit has it too."""
    digest = offered(plan)
    assert start_obstacle(service, digest) == "draft, not approved yet"
    approve(service, who("ann"), digest, " looks <b>good</b> ")
    found = stored(service, digest)
    assert (found.state, found.decided_by, found.comment) == (PlanState.APPROVED, "ann", "looks <b>good</b>")
    assert found.decided_at == "2026-11-21T20:00:00.000Z"
    assert start_obstacle(service, digest) == ""
    assert audit(service) == [("maker", "plan.made"), ("ann", "plan.approve")]


@pytest.mark.parametrize("decide", [approve, deny])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("maker", "expected someone else than maker, who made it"),
        ("bob", "expected an approver at AMS, LIM"),
        ("eve", "expected an approver at AMS, LIM"),
        ("viv", "expected the SHA-256 of a plan that you may see"),
    ],
)
def test_who_may_not_decide_is_refused_and_it_is_told(service, who, plan, offered, name, told, decide):
    """Not its maker, not who has the role at one of its sites, no admin as such; who may not see it learns nothing."""
    digest = offered(plan)
    with pytest.raises(ServiceError) as refused:
        decide(service, who(name), digest, "why")
    assert told in refused.value.sentence
    is_hidden = name == "viv"
    assert status_of(refused.value) is (HTTPStatus.NOT_FOUND if is_hidden else HTTPStatus.FORBIDDEN)
    assert stored(service, digest).state is PlanState.DRAFT
    assert audit(service, "refused") == ([] if is_hidden else [(name, f"plan.{decide.__name__}")])


def test_of_forty_who_approve_at_once_one_does(service, who, plan, offered):
    """One statement, whoever comes first; the others are told that it was approved, and by whom."""
    digest, told, ready = offered(plan), [], threading.Barrier(40)

    def try_it(_):
        ready.wait()
        try:
            approve(service, who("ann"), digest)
        except ServiceError as problem:
            told.append(problem)
            return 0
        return 1

    with ThreadPoolExecutor(40) as pool:
        assert sum(pool.map(try_it, range(40))) == 1
    assert {status_of(one) for one in told} == {HTTPStatus.CONFLICT}
    assert {one.sentence for one in told} == {
        "plan: it cannot be approved: it was approved by ann at 2026-11-21 20:00:00 UTC"
    }
    assert audit(service).count(("ann", "plan.approve")) == 1
    assert len(audit(service, "refused")) == 39


def test_the_table_itself_refuses_a_makers_own_approval(service, plan, offered):
    """Whatever code forgets to look: no row is approved by its maker, and none by nobody."""
    offered(plan)
    for by in ("maker", None):
        with pytest.raises(sqlite3.IntegrityError):
            change(service, "UPDATE plans SET state = 'approved', decided_by = ?", by)


def test_what_was_approved_cannot_be_changed_into_something_else(service, plan, offered):
    """Neither the text nor its digest, sites or maker."""
    offered(plan)
    for column in ("text", "digest", "sites", "made_by", "images"):
        with pytest.raises(sqlite3.IntegrityError, match="never changes"):
            change(service, f"UPDATE plans SET {column} = 'ann'")


def test_a_decision_is_made_once(service, who, plan, offered):
    """A denied plan cannot be approved, nor an approved one denied; the comment is demanded of who denies."""
    digest = offered(plan)
    with pytest.raises(ServiceError, match="comment: expected a reason"):
        deny(service, who("ann"), digest, " ")
    deny(service, who("ann"), digest, "wrong image")
    with pytest.raises(ServiceError, match="denied by ann"):
        approve(service, who("ann"), digest)
    assert start_obstacle(service, digest) == "denied by ann: wrong image"


@pytest.mark.parametrize("name", ["maker", "ann", "eve"])
def test_a_plan_is_taken_back_by_its_maker_and_by_who_could_begin_or_approve_it(service, who, plan, offered, name):
    """Approved or not; who had approved it stays in its row."""
    digest = offered(plan)
    approve(service, who("ann"), digest)
    withdraw(service, who(name), digest, "another night")
    found = stored(service, digest)
    assert (found.state, found.decided_by, found.withdrawn_by) == (PlanState.WITHDRAWN, "ann", name)
    assert start_obstacle(service, digest) == f"withdrawn by {name}: another night"
    with pytest.raises(ServiceError, match="withdrawn by"):
        withdraw(service, who(name), digest, "again")


def test_who_has_its_sites_in_part_takes_nothing_back(service, who, plan, offered):
    """Bob is an operator at one of two sites."""
    with pytest.raises(ServiceError, match="an operator or approver at AMS, LIM"):
        withdraw(service, who("bob"), offered(plan), "no")


def test_a_plan_of_ones_own_sites_is_enough(service, who, plan, offered):
    """An approver of AMS approves a plan that touches AMS alone."""
    one = replace(plan, devices=plan.devices[:1])
    digest = offered(one)
    approve(service, who("bob"), digest)
    assert start_obstacle(service, digest) == ""


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("UPDATE people SET state = 'disabled' WHERE name = 'maker'", "maker, who made it, is disabled"),
        ("UPDATE people SET state = 'disabled' WHERE name = 'ann'", "ann, who approved it, is disabled"),
        ("DELETE FROM grants WHERE person = 'ann'", "ann, who approved it, is no longer approver at AMS, LIM"),
        (
            "UPDATE grants SET site = 'AMS' WHERE person = 'maker'",
            "maker, who made it, is no longer operator at LIM",
        ),
        ("UPDATE grants SET role = 'viewer' WHERE person = 'maker'", "is no longer operator at AMS, LIM"),
    ],
)
def test_an_approval_falls_with_the_people_behind_it(service, who, plan, offered, statement, why):
    """Disabled, or without the role at one of the sites before the run begins."""
    digest = offered(plan)
    approve(service, who("ann"), digest)
    change(service, statement)
    assert why in start_obstacle(service, digest)


def test_an_approval_falls_with_the_end_of_the_window(service, who, plan, offered, clock):
    """To the second; a plan past it cannot be approved either."""
    digest, other = offered(plan), offered(replace(plan, duration_s=1.0))
    approve(service, who("ann"), digest)
    clock[0] = clock[0].replace(day=22, hour=5) - timedelta(milliseconds=1)
    assert start_obstacle(service, digest) == ""
    clock[0] += timedelta(milliseconds=1)
    assert start_obstacle(service, digest) == "its window has passed: it was to end by 2026-11-22 05:00 UTC"
    with pytest.raises(ServiceError, match="cannot be approved: its window has passed"):
        approve(service, who("ann"), other)


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (lambda path: path.write_bytes(b"imagf"), "image new.bin on disk is not the one that the plan was made for"),
        (lambda path: path.write_bytes(b"longer one"), "image new.bin on disk is not the one"),
        (lambda path: path.unlink(), "expected a file, found nothing"),
        (lambda path: (path.unlink(), path.symlink_to("/etc/hostname")), "its path leads elsewhere"),
    ],
)
def test_an_approval_falls_with_the_image_on_disk(service, who, plan, offered, images, write, why):
    """Another content, none, or a link out of the folder; and no such plan is approved."""
    digest, other = offered(plan), offered(replace(plan, duration_s=1.0))
    approve(service, who("ann"), digest)
    write(images / "new.bin")
    assert why in start_obstacle(service, digest)
    with pytest.raises(ServiceError, match="cannot be approved: image") as refused:
        approve(service, who("ann"), other)
    assert status_of(refused.value) is HTTPStatus.CONFLICT


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"state": "mismatch", "state_reason": "told"}, "is not what the vendor published (told)"),
        ({"state": "hidden", "state_before_hidden": "published", "hidden_at": "2026"}, "was removed"),
        ({"state": "arriving"}, "is not completely uploaded"),
        ({"state": "unknown"}, "is unknown: no published digest is known"),
        ({"sha512": "0" * 128}, "in the image store is not the one"),
        ({"state": "vouched", "approved_by": "eve"}, ""),
        (None, "is not in the image store"),
    ],
)
def test_an_approval_falls_with_what_the_image_store_says(service, who, plan, offered, values, why):
    """Published or vouched for: nothing else is ever usable."""
    digest = offered(plan)
    approve(service, who("ann"), digest)
    if values is None:
        change(service, "DELETE FROM images")
    for column, value in (values or {}).items():
        if column != "state":
            change(service, f"UPDATE images SET {column} = ?", value)
    if "state" in (values or {}):
        change(service, "UPDATE images SET state = ?", values["state"])
    found = start_obstacle(service, digest)
    assert why in found if why else found == ""
