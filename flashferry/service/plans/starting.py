"""A plan is begun, or rehearsed: its images are hashed, then all else is looked at in the transaction of the job.

Both make a job of the service, a process of its own. What a rehearsal finds is the job's result; it changes nothing.
"""

from __future__ import annotations

from http import HTTPStatus

from flashferry.service.actor import Actor
from flashferry.service.auditing import note_refusal
from flashferry.service.jobs.asking import ask, asked_before
from flashferry.service.jobs.requesting import action_of
from flashferry.service.jobs.wishes import JobWish
from flashferry.service.plans.deciding import checked_comment
from flashferry.service.plans.standing import found, why_not_images
from flashferry.service.plans.telling import object_of
from flashferry.service.problems import Problem
from flashferry.service.service import Service
from flashferry.store.service.answers import Once
from flashferry.store.service.jobs import Job, JobKind


def begin(
    service: Service,
    actor: Actor,
    digest: str,
    *,
    reason: str = "",
    words: tuple[str, ...] = (),
    rehearse: bool = False,
    once: Once | None = None,
) -> Job:
    """Ask for the run of a plan, or for its rehearsal.

    Args:
        service: The service.
        actor: Who asks: an operator at each of its sites.
        digest: Of the plan; for a run, one that is startable.
        reason: Why, for the audit.
        words: More words behind the verb, made of values that the caller has checked.
        rehearse: Whether only what a run would do is to be told; any plan may be rehearsed.
        once: Under which key of who asks, if under any.

    Raises:
        Problem: 404 where he may not see it, 403 where he may not, 409 where its state or an image forbids it, or a run
            of it is under way.
    """
    kind = JobKind.DRY_RUN if rehearse else JobKind.STAGE
    with service.database.reading() as database:
        found(database, digest, actor)
        if (before := asked_before(database, actor, once)) is not None:
            return before
    try:
        if not rehearse and (why := why_not_images(service, digest)):
            raise Problem(
                HTTPStatus.CONFLICT,
                f"plan {digest[:12]}… cannot be carried out: {why}",
                hint="Put the image back, or make the plan anew and have that approved",
            )
        wish = JobWish(kind=kind, digest=digest, reason=checked_comment(reason), words=words)
    except Problem as problem:
        note_refusal(service, actor, action_of(kind), object_of(digest), problem.sentence)
        raise
    return ask(service, actor, wish, once, about=object_of(digest))
