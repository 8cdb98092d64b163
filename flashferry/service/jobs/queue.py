"""Which jobs can start beside those that are under way, and in which order. Pure.

Where no depot serves all runs of the host, each run brings a file server of its own: a second one would get another
port and know nothing of the first one's share of a link. So one job at a time serves, and the others say what they wait
for. A recovery serves nothing, and waits for another recovery alone.

Order: runs of an approved plan precede speed tests and checks that serve; within that, jobs take turns. A job's turn is
the number of jobs of its person, or of its busiest site where that is more, that are under way or precede it; of equal
turns the older one is first. So a person with 400 jobs and a site with 400 jobs delay others by one job each.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence

from flashferry.reports import words
from flashferry.store.service.jobs import Job, JobKind

MOST_SERVING = 8
"""So many jobs that serve are under way at once where a depot does it for them."""

MOST_TESTING = 4
"""So many of those are speed tests and checks that serve: the other places are kept for runs."""

MOST_LOOKING = 4
"""So many jobs that only look."""

MOST_OF_A_PERSON = 20
"""So many jobs that need no approval can be queued for one person."""

_NEEDS_NO_APPROVAL = frozenset({JobKind.CHECK, JobKind.PROBE, JobKind.DRY_RUN, JobKind.PLAN})
_TESTS = frozenset({JobKind.PROBE, JobKind.CHECK})
_SERVES = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE, JobKind.NIGHTLY})
_REACH = "--reach"


def serves(job: Job) -> bool:
    """Return whether devices fetch from a job's process."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def why_not_queued(kind: JobKind, queued: Sequence[Job], person: str) -> str:
    """Return why a person cannot have another job of a kind queued; empty where they can.

    Runs of an approved plan are bounded by their plans, and recoveries are never refused.
    """
    if kind not in _NEEDS_NO_APPROVAL:
        return ""
    theirs = sum(job.requested_by == person and job.kind in _NEEDS_NO_APPROVAL for job in queued)
    if theirs < MOST_OF_A_PERSON:
        return ""
    return f"{kind}: expected fewer than {MOST_OF_A_PERSON} queued jobs of {person}, found {theirs}"


def waiting(queued: Sequence[Job], under_way: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield each queued job, in the order in which they start, with what it waits for; empty where it can start now.

    Args:
        queued: The jobs that have not started, the oldest first.
        under_way: Those that have.
        has_depot: Whether a depot serves all of them.
        now: What time it is, as the tables keep times.
    """
    ready: list[Job] = []
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # It holds no place until then.
            yield job, f"waits until {words.moment(job.not_before)}"
        else:
            ready.append(job)
    begun = list(under_way)
    for job in _in_turn(ready, under_way):
        why = _why(job, begun, has_depot=has_depot)
        yield job, why
        # One that waits keeps its place: none of its kind passes it.
        begun.append(job)


def _in_turn(ready: Sequence[Job], under_way: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs in the order in which they start.

    Jobs that wait for the same places, of the same rank, person and sites are equal but for their age.
    """
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
    """Return what a job takes a turn of: its person's, and that of each of its sites, among the places it waits for."""
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
        most, what = MOST_LOOKING, f"at most {MOST_LOOKING} jobs look at once"
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
