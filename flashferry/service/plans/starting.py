"""A plan started, or rehearsed by a job that changes nothing. Images are hashed before the job's transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from flashferry.model.plan_window import PlanWindow
from flashferry.reports import words
from flashferry.service.auditing import note_refusal
from flashferry.service.errors import Conflict, InvalidRequest, ServiceError
from flashferry.service.jobs.create import action_of
from flashferry.service.jobs.job_spec import JobSpec
from flashferry.service.jobs.submit import ask, asked_before
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.eligibility import found, image_obstacle
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
    """Request the run of a plan, or its rehearsal.

    Args:
        service: The service.
        actor: An operator at each of its sites.
        digest: The plan; for a run, a startable one.
        reason: For the audit.
        not_before: Earliest start, besides the plan's window and the queue.
        until: Latest end, if earlier than the plan's.
        chosen: Settings of the run besides the plan's.
        rehearse: Only show what a run would do; for any plan.
        once: Idempotency key.

    Raises:
        NotFound, Forbidden: The caller may not see or start it.
        Conflict: Its state, an image or another run does not allow it.
        InvalidRequest: The times leave no time.
    """
    kind = JobKind.DRY_RUN if rehearse else JobKind.STAGE
    with service.database.reading() as database:
        plan = found(database, digest, actor)
        window = window_of(database, plan)
        if (before := asked_before(database, actor, once)) is not None:
            return before
    try:
        if not rehearse and (why := image_obstacle(service, digest)):
            raise Conflict(
                f"plan {digest[:12]}… cannot start: {why}",
                hint="Restore the image, or create a new plan and have it approved",
            )
        not_before, until = _checked_times(window, service.now(), not_before, until)
        spec = JobSpec(
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
    return ask(service, actor, spec, once, about=object_of(digest))


def _checked_times(
    window: PlanWindow, now: datetime, not_before: datetime | None, until: datetime | None
) -> tuple[datetime | None, datetime | None]:
    """Return earliest start and latest end of a run, within its plan."""
    begins, ends = _in_utc("not_before", not_before), _in_utc("until", until)
    plan_ends = None if window.ends_at is None else window.ends_at.astimezone(UTC)
    if begins is not None and plan_ends is not None and begins >= plan_ends:
        raise _no_time("not_before", f"before the plan's end, {_in_words(plan_ends)}", begins)
    if ends is not None and ends <= (earliest := max(now, begins or now, window.opens_at or now)):
        raise _no_time("until", f"after {_in_words(earliest)}", ends)
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
        f"{name}: expected a time {expected}, found {_in_words(at) if at.tzinfo is UTC else at.isoformat()}",
        hint="Give times as ISO 8601 with their offset from UTC: 2026-11-30T22:00:00+01:00",
    )


def _in_words(at: datetime) -> str:
    return words.moment(at.isoformat())
