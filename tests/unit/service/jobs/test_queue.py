"""Which jobs begin beside others: one that serves at a time without a depot, and nobody passes his like."""

from __future__ import annotations

from flashferry.service.jobs.queue import MOST_LOOKING, MOST_SERVING, waiting
from flashferry.store.service.jobs import Job, JobKind

AT = "2026-11-23T12:00:00.000Z"


def job(job_id, kind=JobKind.STAGE, words=(), **more):
    return Job(job_id=job_id, kind=kind, words=words, **more, requested_by="a", via="s", created_at="")


def begins(queued, under_way=(), *, has_depot=False, now=AT):
    return [one.job_id for one, why in waiting(queued, under_way, has_depot=has_depot, now=now) if not why]


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
    looks = [job(str(number), JobKind.CHECK) for number in range(MOST_LOOKING + 2)]
    assert len(begins(looks)) == MOST_LOOKING
    assert begins([job("r1", JobKind.RECOVER), job("r2", JobKind.RECOVER)]) == ["r1"]


def test_one_that_waits_for_its_time_holds_no_place():
    """Others of its kind begin meanwhile; then it has the place of when it was asked for."""
    early = job("early", not_before="2026-11-23T22:00:00.000Z")
    found = {one.job_id: why for one, why in waiting([early, job("s")], [], has_depot=False, now=AT)}
    assert found == {"early": "waits until 2026-11-23 22:00:00 UTC", "s": ""}
    assert begins([early, job("s")], now="2026-11-23T22:00:00.000Z") == ["early"]
