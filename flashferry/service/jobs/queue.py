"""Which jobs may begin beside those that are under way. Pure.

Where no depot serves all runs of the host, each run brings a file server of its own: a second one would get another
port and know nothing of the first one's share of a link. So one job at a time serves, and the others say what they wait
for. A recovery serves nothing, and waits for another recovery alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flashferry.reports import words
from flashferry.store.service.jobs import Job, JobKind

MOST_SERVING = 8
"""So many jobs that serve are under way at once where a depot does it for them."""

MOST_LOOKING = 4
"""So many jobs that only look."""

_SERVES = frozenset({JobKind.STAGE, JobKind.RESUME, JobKind.PROBE, JobKind.NIGHTLY})
_REACH = "--reach"


def serves(job: Job) -> bool:
    """Return whether devices fetch from a job's process."""
    return job.kind in _SERVES or (job.kind is JobKind.CHECK and _REACH in job.words)


def waiting(queued: Sequence[Job], under_way: Sequence[Job], *, has_depot: bool, now: str) -> Iterator[tuple[Job, str]]:
    """Yield each queued job, the oldest first, with what it waits for; empty where it may begin now.

    Args:
        queued: The jobs that have not begun, the oldest first.
        under_way: Those that have.
        has_depot: Whether a depot serves all of them.
        now: What time it is, as the tables keep times.
    """
    begun = list(under_way)
    for job in queued:
        if job.not_before is not None and job.not_before > now:
            # It holds no place until then.
            yield job, f"waits until {words.moment(job.not_before)}"
            continue
        why = _why(job, begun, has_depot=has_depot)
        yield job, why
        # One that waits keeps its place: none of its kind passes it.
        begun.append(job)


def _why(job: Job, others: Sequence[Job], *, has_depot: bool) -> str:
    if job.kind is JobKind.RECOVER:
        rivals, most, what = [one for one in others if one.kind is JobKind.RECOVER], 1, "one recovery runs at a time"
    elif serves(job):
        rivals, most = [one for one in others if serves(one)], MOST_SERVING if has_depot else 1
        what = f"at most {MOST_SERVING} jobs serve at once" if has_depot else "without a depot one job serves at a time"
    else:
        rivals = [one for one in others if not serves(one) and one.kind is not JobKind.RECOVER]
        most, what = MOST_LOOKING, f"at most {MOST_LOOKING} jobs look at once"
    if len(rivals) < most:
        return ""
    return f"waits for {rivals[0].job_id} ({rivals[0].kind}): {what}"
