"""Which jobs can start beside the running ones, and in which order. Pure.

Without a depot each run brings a file server of its own, which knows nothing of another one's share of a link: so one
job serves at a time. A recovery serves nothing and waits for another recovery alone.

Order: runs of an approved plan precede speed tests and checks that serve; within that, jobs take turns. A job's turn is
the number of jobs of its user, or of its busiest site if that is more, that run or precede it; of equal turns the older
one is first. So a user with 400 jobs, or a site with 400 jobs, delays others by one job each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from flashferry.reports import words
from flashferry.store.service.jobs import Job, JobKind

MOST_SERVING = 8
"""Serving jobs at once with a depot."""

MOST_TESTING = 4
"""Of those, speed tests and checks; the other slots are kept for runs."""

MOST_CHECKING = 4
"""Jobs at once that do not serve."""

MOST_OF_A_PERSON = 20
"""Queued jobs of one user that need no approval."""

_NEEDS_NO_APPROVAL = frozenset({JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.PLAN})
_TESTS = frozenset({JobKind.PROBE, JobKind.CHECK})
_SERVES = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE, JobKind.NIGHTLY})
_REACH = "--reach"


def serves(job: Job) -> bool:
    """Return whether devices fetch from a job's process."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def why_not_queued(kind: JobKind, queued: Sequence[Job], person: str) -> str:
    """Return why a user cannot queue another job of a kind; empty if they can.

    Runs of an approved plan are limited by their plans, and recoveries are never refused.
    """
    if kind not in _NEEDS_NO_APPROVAL:
        return ""
    theirs = sum(job.requested_by == person and job.kind in _NEEDS_NO_APPROVAL for job in queued)
    if theirs < MOST_OF_A_PERSON:
        return ""
    return f"{kind}: expected fewer than {MOST_OF_A_PERSON} queued jobs of {person}, found {theirs}"


def waiting(queued: Sequence[Job], under_way: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield each queued job in starting order, with what it waits for; empty if it can start now.

    Args:
        queued: The oldest first.
        under_way: Running jobs.
        has_depot: Whether a depot serves all of them.
        now: The time, as the tables store it.
    """
    ready: list[Job] = []
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # It holds no place until then.
            yield job, f"waits until {words.moment(job.not_before)}"
        else:
            ready.append(job)
    started = list(under_way)
    for job in _in_turn(ready, under_way):
        why = _why(job, started, has_depot=has_depot)
        yield job, why
        # One that waits keeps its place: none of its kind passes it.
        started.append(job)


def _in_turn(ready: Sequence[Job], under_way: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in starting order. Jobs for the same slots, of the same rank, user and sites differ only in age."""
    equals: dict[tuple[object, ...], deque[tuple[int, Job]]] = {}
    for number, job in enumerate(ready):
        equals.setdefault(_key(job), deque()).append((number, job))
    turns = Counter(share for job in under_way for share in _shares(job))

    def rank(key: tuple[object, ...]) -> tuple[bool, int, int]:
        number, job = equals[key][0]
        return _is_test(job), max(turns[share] for share in _shares(job)), number

    while equals:
        key = min(equals, key=rank)
        _, job = equals[key].popleft()
        if not equals[key]:
            del equals[key]
        turns.update(_shares(job))
        yield job


def _key(job: Job) -> tuple[object, ...]:
    return _places(job), _is_test(job), job.requested_by, job.sites


def _shares(job: Job) -> Iterable[tuple[str, str, str]]:
    """Return what a job takes a turn of: its user's and each of its sites' slots."""
    places = _places(job)
    return {(places, "person", job.requested_by), *((places, "site", site) for site in job.sites)}


def _places(job: Job) -> str:
    if job.kind is JobKind.RECOVER:
        return "recovering"
    return "serving" if serves(job) else "looking"


def _is_test(job: Job) -> bool:
    """Return whether it serves without an approved plan or a schedule."""
    return job.kind in _TESTS and serves(job)


def _why(job: Job, others: Sequence[Job], *, has_depot: bool) -> str:
    rivals = [one for one in others if _places(one) == _places(job)]
    if job.kind is JobKind.RECOVER:
        most, what = 1, "one recovery runs at a time"
    elif not serves(job):
        most, what = MOST_CHECKING, f"at most {MOST_CHECKING} jobs look at once"
    elif not has_depot:
        most, what = 1, "without a depot one job serves at a time"
    else:
        tests = [one for one in rivals if _is_test(one)]
        if _is_test(job) and len(tests) >= MOST_TESTING:
            rivals, most, what = tests, MOST_TESTING, f"at most {MOST_TESTING} speed tests serve at once"
        else:
            most, what = MOST_SERVING, f"at most {MOST_SERVING} jobs serve at once"
    if len(rivals) < most:
        return ""
    return f"waits for {rivals[0].job_id} ({rivals[0].kind}): {what}"
