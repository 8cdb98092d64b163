"""Order in which queued jobs start, and what each of them waits for. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from flashferry.reports import words
from flashferry.service.jobs.job_spec import SELECTS
from flashferry.store.service.jobs import Job, JobKind

MOST_SERVING = 8
"""Serving jobs at once with a depot."""
MOST_TESTING = 4
"""Of those, speed tests and checks; the other slots are kept for runs."""
MOST_CHECKING = 4
"""Jobs at once that do not serve."""
MOST_OF_A_PERSON = 20
"""Queued jobs of one user that need no approval."""
_NEEDS_NO_APPROVAL = SELECTS
_TESTS = frozenset({JobKind.PROBE, JobKind.CHECK})
_SERVES = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE, JobKind.NIGHTLY})
_REACH = "--reach"


def serves(job: Job) -> bool:
    """Return whether a job's process serves files to devices."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def why_not_queued(kind: JobKind, queued: Sequence[Job], person: str) -> str:
    """Return why a user cannot queue another job of a kind; empty if they can.

    Runs of an approved plan are limited by their plans; recoveries are never refused.
    """
    if kind not in _NEEDS_NO_APPROVAL:
        return ""
    theirs = sum(job.requested_by == person and job.kind in _NEEDS_NO_APPROVAL for job in queued)
    if theirs < MOST_OF_A_PERSON:
        return ""
    return f"{kind}: expected fewer than {MOST_OF_A_PERSON} queued jobs of {person}, found {theirs}"


def waiting(queued: Sequence[Job], running: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield queued jobs in starting order, each with what it waits for; empty: it can start now.

    `queued` is oldest first; `has_depot` says that one depot serves all jobs; `now` is in the format of the tables.
    """
    ready: list[Job] = []
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # A job that has to wait for a time blocks no other.
            yield job, f"waits until {words.moment(job.not_before)}"
        else:
            ready.append(job)
    started = list(running)
    for job in _in_turn(ready, running):
        why = _why(job, started, has_depot=has_depot)
        yield job, why
        # A waiting job keeps its place: no later one of its kind overtakes it.
        started.append(job)


def _in_turn(ready: Sequence[Job], running: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in starting order: by rank, then in turns between users and sites, then by age."""
    equals: dict[tuple[object, ...], deque[tuple[int, Job]]] = {}
    for number, job in enumerate(ready):
        equals.setdefault(_key(job), deque()).append((number, job))
    turns = Counter(share for job in running for share in _shares(job))

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
    """Return the users and sites whose slots a job takes."""
    places = _places(job)
    return {(places, "person", job.requested_by), *((places, "site", site) for site in job.sites)}


def _places(job: Job) -> str:
    if job.kind is JobKind.RECOVER:
        return "recovering"
    return "serving" if serves(job) else "looking"


def _is_test(job: Job) -> bool:
    """Return whether a job serves files without an approved plan or a schedule."""
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
