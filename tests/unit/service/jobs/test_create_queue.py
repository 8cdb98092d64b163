"""Which jobs begin beside others: one that serves at a time without a depot, and nobody passes his like."""

from __future__ import annotations

import pytest

from flashferry.service.jobs.create import (
    MOST_CHECKING,
    MOST_OF_A_PERSON,
    MOST_SERVING,
    MOST_TESTING,
    waiting,
    why_not_queued,
)
from flashferry.store.service.jobs import Job, JobKind

AT = "2026-11-23T12:00:00.000Z"


def job(job_id, kind=JobKind.STAGE, words=(), requested_by="a", **more):
    return Job(job_id=job_id, kind=kind, words=words, **more, requested_by=requested_by, via="s", created_at="")


def order(queued, running=()):
    return [one.job_id for one, _ in waiting(queued, running, has_depot=False, now=AT)]


def probes(many, person, site):
    return [job(f"{person}{site}{number}", JobKind.PROBE, requested_by=person, sites=(site,)) for number in range(many)]


def begins(queued, running=(), *, has_depot=False, now=AT):
    return [one.job_id for one, why in waiting(queued, running, has_depot=has_depot, now=now) if not why]


def test_without_a_depot_one_job_serves_at_a_time():
    """The second says what it waits for; looks, plans and recoveries go beside."""
    stage, probe, check = job("s"), job("p", JobKind.PROBE), job("c", JobKind.CHECK)
    found = {one.job_id: why for one, why in waiting([probe, check], [stage], has_depot=False, now=AT)}
    assert found == {"p": "waits for s (stage): without a depot one job serves at a time", "c": ""}
    assert begins([job("r", JobKind.RECOVER)], [stage]) == ["r"]


def test_a_check_that_serves_is_one_that_serves():
    """`--reach` has devices fetch from us."""
    assert begins([job("c", JobKind.CHECK, ("check", "--reach"))], [job("s")]) == []


def test_with_a_depot_runs_go_side_by_side():
    """As many as make sense on one host."""
    assert begins([job("b")], [job("a")], has_depot=True) == ["b"]
    many = [job(str(number)) for number in range(MOST_SERVING)]
    assert begins([job("b")], many, has_depot=True) == []


def test_nobody_passes_his_like():
    """The first in the queue begins first, and counts for those behind it at once."""
    assert begins([job("a"), job("b"), job("c", JobKind.PROBE)]) == ["a"]


def test_looks_and_recoveries_have_bounds_too():
    """A hundred checks would starve the runs; two recoveries would be in each other's way."""
    looks = [job(str(number), JobKind.CHECK) for number in range(MOST_CHECKING + 2)]
    assert len(begins(looks)) == MOST_CHECKING
    assert begins([job("r1", JobKind.RECOVER), job("r2", JobKind.RECOVER)]) == ["r1"]


def test_one_that_waits_for_its_time_holds_no_place():
    """Others of its kind begin meanwhile; then it has the place of when it was asked for."""
    early = job("early", not_before="2026-11-23T22:00:00.000Z")
    found = {one.job_id: why for one, why in waiting([early, job("s")], [], has_depot=False, now=AT)}
    assert found == {"early": "waits until 2026-11-23 22:00:00 UTC", "s": ""}
    assert begins([early, job("s")], now="2026-11-23T22:00:00.000Z") == ["early"]


@pytest.mark.parametrize("has_depot", [False, True])
def test_an_approved_run_precedes_400_probes_of_one_operator(has_depot):
    """Without a depot once the probe that is under way has ended; with one at once, as tests leave places free."""
    flood, run = probes(400, "a", "AMS"), job("run", requested_by="b", sites=("LIM",))
    assert begins([*flood, run], has_depot=has_depot)[0] == "run"
    running = flood[: MOST_TESTING if has_depot else 0]
    assert begins([*flood[len(running) :], run], running, has_depot=has_depot) == ["run"]


def test_speed_tests_leave_places_for_runs():
    """However many are queued, so many serve at once."""
    flood = probes(MOST_SERVING, "a", "AMS")
    assert begins(flood, has_depot=True) == [one.job_id for one in flood[:MOST_TESTING]]
    reach = job("c", JobKind.CHECK, ("check", "--reach"))
    found = {one.job_id: why for one, why in waiting([reach], flood[:MOST_TESTING], has_depot=True, now=AT)}
    assert found == {"c": f"waits for aAMS0 (probe): at most {MOST_TESTING} speed tests serve at once"}


def test_people_take_turns():
    """The one who asked first has the first turn, and what each has under way counts."""
    flood, others = probes(3, "a", "AMS"), probes(2, "b", "LIM")
    assert order([*flood, *others]) == ["aAMS0", "bLIM0", "aAMS1", "bLIM1", "aAMS2"]
    assert order([*flood[1:], *others], flood[:1]) == ["bLIM0", "aAMS1", "bLIM1", "aAMS2"]


def test_sites_take_turns():
    """Many people of one site delay the only one of another site by one job."""
    crowd = [one for person in "abcd" for one in probes(1, person, "AMS")]
    assert order([*crowd, *probes(2, "e", "LIM")]) == ["aAMS0", "eLIM0", "bAMS0", "eLIM1", "cAMS0", "dAMS0"]


def test_turns_are_of_the_places_that_a_job_waits_for():
    """A person's checks do not delay a run of theirs against another's, nor the other way round."""
    checks = [job(f"c{number}", JobKind.CHECK) for number in range(3)]
    assert order([*checks, job("r1"), job("r2", requested_by="b")])[:2] == ["c0", "r1"]


def test_a_person_has_so_many_jobs_queued():
    """What needs no approval is bounded for each person; runs and recoveries are not refused."""
    flood = probes(MOST_OF_A_PERSON, "a", "AMS")
    assert why_not_queued(JobKind.CHECK, flood, "a") == "check: expected fewer than 20 queued jobs of a, found 20"
    assert why_not_queued(JobKind.CHECK, flood[1:], "a") == ""
    assert why_not_queued(JobKind.CHECK, flood, "b") == ""
    assert {why_not_queued(kind, flood, "a") for kind in (JobKind.STAGE, JobKind.RESUME, JobKind.RECOVER)} == {""}
    assert why_not_queued(JobKind.PROBE, [job(str(number)) for number in range(99)], "a") == ""
