"""A plan is begun, or rehearsed: its images are hashed, then all else is looked at in the transaction of the job.

Both make a job of the service, a process of its own. What a rehearsal finds is the job's result; it changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from flashferry.service.errors import Conflict, InvalidRequest, ServiceError
from flashferry.model.plan_window import PlanWindow
from flashferry.reports import words
from flashferry.service.auditing import note_refusal
from flashferry.service.jobs.create import action_of
from flashferry.service.jobs.job_spec import JobWish
from flashferry.service.jobs.submit import ask, asked_before
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import found, why_not_images
from flashferry.service.plans.telling import object_of
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service.answers import Once
from flashferry.store.service.jobs import Job, JobKind
from flashferry.store.service.plans import window_of


def begin(
    service: Service,
    actor: Actor,
    digest: str,
    *,
    reason: str = "",
    not_before: datetime | None = None,
    until: datetime | None = None,
    chosen: Mapping[str, object] | None = None,
    rehearse: bool = False,
    once: Once | None = None,
) -> Job:
    """Ask for the run of a plan, or for its rehearsal.

    Args:
        service: The service.
        actor: Who asks: an operator at each of its sites.
        digest: Of the plan; for a run, one that is startable.
        reason: Why, for the audit.
        not_before: A run waits until then, and is begun only where its plan may be begun then; None: it waits for
            nothing but its plan's window and its turn.
        until: By when a run is to have ended, where that comes before the plan's end; None: by the plan's end.
        chosen: Settings that its run has besides what the plan says.
        rehearse: Whether only what a run would do is to be told; any plan may be rehearsed.
        once: Under which key of who asks, if under any.

    Raises:
        ServiceError: 404 where he may not see it, 403 where he may not, 409 where its state or an image forbids it, or a run
            of it is under way, 422 where its times leave it none.
    """
    kind = JobKind.DRY_RUN if rehearse else JobKind.STAGE
    with service.database.reading() as database:
        plan = found(database, digest, actor)
        window = window_of(database, plan)
        if (before := asked_before(database, actor, once)) is not None:
            return before
    try:
        if not rehearse and (why := why_not_images(service, digest)):
            raise Conflict(
                f"plan {digest[:12]}… cannot be carried out: {why}",
                hint="Put the image back, or make the plan anew and have that approved",
            )
        not_before, until = _checked_times(window, service.now(), not_before, until)
        wish = JobWish(
            kind=kind,
            digest=digest,
            chosen=chosen or {},
            reason=checked_comment(reason),
            not_before=not_before,
            until=until,
        )
    except ServiceError as problem:
        note_refusal(service, actor, action_of(kind), object_of(digest), problem.sentence)
        raise
    return ask(service, actor, wish, once, about=object_of(digest))


def _checked_times(
    window: PlanWindow, now: datetime, not_before: datetime | None, until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return when a run begins at the earliest and ends at the latest, no later than its plan's end."""
    begins, ends = _in_utc("not_before", not_before), _in_utc("until", until)
    plan_ends = None if window.ends_at is None else window.ends_at.astimezone(UTC)
    if begins is not None and plan_ends is not None and begins >= plan_ends:
        raise _no_time("not_before", f"before the plan's end, {_told(plan_ends)}", begins)
    if ends is not None and ends <= (earliest := max(now, begins or now, window.opens_at or now)):
        raise _no_time("until", f"after {_told(earliest)}", ends)
    return begins, ends if ends is None or plan_ends is None else min(ends, plan_ends)


def _in_utc(name: str, at: datetime | None) -> datetime | None:
    if at is None:
        return None
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise _no_time(name, "of this millennium", at) from None


def _no_time(name: str, expected: str, at: datetime) -> ServiceError:
    return InvalidRequest(
        f"{name}: expected a time {expected}, found {_told(at) if at.tzinfo is UTC else at.isoformat()}",
        hint="Give times as ISO 8601 with their offset from UTC: 2026-11-30T22:00:00+01:00",
    )


def _told(at: datetime) -> str:
    return words.moment(at.isoformat())
