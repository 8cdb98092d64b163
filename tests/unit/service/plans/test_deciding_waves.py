"""A wave is approved by somebody else than the plan's maker, for the plan that the run carries out, once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from flashferry.model.lease import JournalUnusable
from flashferry.service.api.plans import waves
from flashferry.service.api.problems import status_of
from flashferry.service.errors import ServiceError
from flashferry.service.plans.deciding import approve, approve_wave, run_once, withdraw
from flashferry.store.control import control_request
from flashferry.store.journal import Journal
from flashferry.store.service.audit import entries
from flashferry.store.stored_run import read_run
from tests.unit.service.plans.calling import client


@pytest.fixture
def digest(service, who, plan, offered):
    made = offered(plan)
    approve(service, who("ann"), made)
    return made


@pytest.fixture
def run(service, digest):
    """Return a run of the plan that is under way, with three waves of which the first waits."""
    with Journal(service.state) as journal:
        run_id = journal.begin_run("stage", {"plan": {"digest": digest}})
        for wave, site in enumerate(("AMS", "LIM", "AMS")):
            journal.add_device(
                run_id, host=f"r{wave}", address="x", port=22, platform="ios", wave=wave, image="x.bin", site=site
            )
        journal.set_waiting_wave(run_id, 0)
        yield run_id


def audit(service, outcome):
    with service.database.reading() as database:
        found = [one.entry for one in entries(database) if one.entry.action == "wave.approve"]
    return [(one.actor, one.object) for one in found if one.outcome == outcome]


def refused(*args, **kwargs):
    with pytest.raises(ServiceError) as found:
        approve_wave(*args, **kwargs)
    assert found.value.hint
    return found.value


def test_a_run_is_told_and_remembers_who_said_yes(service, who, run, digest):
    """Up to that wave, with the comment, in the journal as in the audit."""
    approve_wave(service, who("ann"), run, 1, digest=digest, comment="looks good")
    assert control_request(service.state, run).approved_wave == 1
    (wish,) = read_run(service.state, run).steer_requests
    assert (wish.what, wish.wave, wish.actor, wish.via, wish.reason) == ("approve", 1, "ann", "session", "looks good")
    assert audit(service, "done") == [("ann", f"run:{run}")]


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("maker", 403, "expected an approver at AMS, LIM"),
        ("bob", 403, "expected an approver at AMS, LIM"),
        ("eve", 403, "expected an approver at AMS, LIM"),
        ("viv", 403, "expected an approver at AMS, LIM"),
        ("nil", 404, "expected one that you may see"),
    ],
)
def test_who_may_not_is_refused(service, who, run, digest, name, status, told):
    """The role at each site of the run, also of who sees some of it; who sees none of it learns nothing."""
    found = refused(service, who(name), run, 0, digest=digest)
    assert (status_of(found), told in found.sentence) == (status, True), found.sentence
    assert control_request(service.state, run).approved_wave == -1
    assert audit(service, "refused") == ([(name, f"run:{run}")] if status == 403 else [])


def test_the_plans_maker_approves_no_wave_of_it_with_whatever_role(service, who, run, digest):
    """Four eyes hold for the run as for its plan."""
    from flashferry.core.values import replace

    both = replace(who("ann"), name="maker")
    assert refused(service, both, run, 0, digest=digest).sentence.startswith("run: expected someone else than maker")


@pytest.mark.parametrize("given", ["", "0" * 64])
def test_a_yes_is_for_the_plan_that_was_read(service, who, run, digest, given):
    """None, or another one, is no yes to this run."""
    found = refused(service, who("ann"), run, 0, digest=given)
    assert status_of(found) == 409
    assert f"it carries out plan {digest[:12]}…" in found.sentence


def test_a_plan_that_was_withdrawn_has_no_further_waves(service, who, run, digest):
    """What is under way goes on; nothing new is approved."""
    withdraw(service, who("maker"), digest, "wrong image")
    assert "withdrawn by maker: wrong image" in refused(service, who("ann"), run, 0, digest=digest).sentence


def test_nor_has_one_that_is_past_its_end(service, who, run, digest, clock):
    """The window was part of what was approved."""
    clock[0] = clock[0].replace(day=22, hour=6)
    assert "its window has passed" in refused(service, who("ann"), run, 0, digest=digest).sentence


def test_of_twenty_who_say_yes_one_counts(service, who, run, digest):
    """The others are told who it was, or that it was done."""
    ready = threading.Barrier(20)

    def one(_):
        ready.wait()
        try:
            approve_wave(service, who("ann"), run, 0, digest=digest)
        except ServiceError as problem:
            return status_of(problem)
        return 200

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(one, range(20)))
    assert control_request(service.state, run).approved_wave == 0
    with service.database.reading() as database:
        assert database.execute("SELECT count(*) FROM wave_approvals").fetchone()[0] == 1
    assert (
        "was approved by ann at 2026-11-21 20:00:00 UTC" in refused(service, who("ann"), run, 0, digest=digest).sentence
    )


def test_a_yes_that_the_run_was_not_told_is_told_by_the_next(service, who, run, digest, monkeypatch):
    """The service died between its own row and the journal."""
    with monkeypatch.context() as patch:
        patch.setattr("flashferry.service.plans.deciding.api.approve", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            approve_wave(service, who("ann"), run, 0, digest=digest)
    assert control_request(service.state, run).approved_wave == -1
    approve_wave(service, who("ann"), run, 0, digest=digest)
    assert control_request(service.state, run).approved_wave == 0


def test_a_yes_that_the_journal_could_not_take_stays_and_failed(service, who, run, digest, monkeypatch):
    """It is entered, the run was not told, and both stand in the audit; whoever says yes again has it told."""

    def full(*_, **__):
        raise JournalUnusable("the journal cannot be written: database or disk is full", hint="Make room")

    with monkeypatch.context() as patch:
        patch.setattr("flashferry.service.plans.deciding.api.approve", full)
        assert status_of(refused(service, who("ann"), run, 0, digest=digest)) == 507
    assert (audit(service, "done"), audit(service, "failed")) == ([("ann", f"run:{run}")],) * 2
    approve_wave(service, who("ann"), run, 0, digest=digest)
    assert control_request(service.state, run).approved_wave == 0


def test_a_wave_that_is_not_there_is_not_approved(service, who, run, digest):
    """422, with those that are."""
    found = refused(service, who("ann"), run, 7, digest=digest)
    assert (status_of(found), "waves 0 to 2" in found.sentence) == (422, True)


def test_a_run_that_is_over_has_nothing_to_approve(service, who, digest):
    """Its process is gone."""
    with Journal(service.state) as journal:
        run_id = journal.begin_run("stage", {"plan": {"digest": digest}})
        journal.add_device(run_id, host="r0", address="x", port=22, platform="ios", wave=0, image="x.bin", site="AMS")
        journal.finish_run(run_id)
    assert "it is not running" in refused(service, who("ann"), run_id, 0, digest=digest).sentence


@pytest.mark.parametrize("given", ["latest", "20"])
def test_a_run_is_named_whole(service, who, run, digest, given):
    """What is convenient at a terminal is not what somebody approved."""
    assert status_of(refused(service, who("ann"), given, 0, digest=digest)) == 404


def test_a_wave_that_waits_is_announced_once(service, run):
    """However often one looks."""
    with service.database.writing() as database:
        database.execute(
            "INSERT INTO hooks (hook_id, name, form, target, kinds) "
            """VALUES ('h', 'h', 'webhook', 'https://hook.example/', '["approval.wanted"]')"""
        )
    for _ in range(3):
        run_once(service)
    with service.database.reading() as database:
        (body,) = (row["body"] for row in database.execute("SELECT body FROM outbox"))
    assert f"run {run}: wave 0 waits for approval" in body


def test_the_api_takes_a_yes(service, who, run, digest):
    """With what was entered."""
    path = f"/api/v1/runs/{run}/waves/0/approve"
    answer = client(service, who("ann"), waves).post(path, json={"digest": digest, "comment": "ok"})
    assert (answer.status_code, answer.json()["by"], answer.json()["comment"]) == (200, "ann", "ok")
    assert client(service, who("ann"), waves).post(path, json={"digest": digest}).status_code == 409
