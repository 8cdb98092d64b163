"""Approving, denying and taking back a plan: one statement each, told in the audit with the same transaction.

Nobody decides about his own. Of forty who approve at once one does, and the others are told who it was.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Literal

from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError
from flashferry.reports import words
from flashferry.service.auditing import deciding, note
from flashferry.service.plans.eligibility import found, why_fallen, why_not_images
from flashferry.service.plans.offering import told_sites
from flashferry.service.plans.telling import object_of
from flashferry.service.principal import Actor, Role
from flashferry.service.service import Service
from flashferry.store.service import plans as store
from flashferry.store.service.database import moment
from flashferry.store.service.plans import Decision, PlanState, StoredPlan

Verb = Literal["approve", "deny", "withdraw"]

LONGEST_COMMENT = 2000

_STATEMENTS: dict[Verb, Callable[[sqlite3.Connection, Decision], bool]] = {
    "approve": store.approve,
    "deny": store.deny,
    "withdraw": store.withdraw,
}


def approve(service: Service, actor: Actor, digest: str, comment: str = "") -> StoredPlan:
    """Approve a draft: not one's own, as an approver at each of its sites, and only one that could be begun.

    Raises:
        ServiceError: 403 for who may not, 404 for who may not see it, 409 where its state or an image forbids it.
    """
    # Hashed before the transaction, which keeps all others from writing; what runs is hashed again when it begins.
    with service.database.reading() as database:
        found(database, digest, actor)
    why = why_not_images(service, digest)
    return _decide(service, actor, "approve", digest, comment, why)


def deny(service: Service, actor: Actor, digest: str, comment: str) -> StoredPlan:
    """Deny a draft, for good, and say why: not one's own, as an approver at each of its sites.

    Raises:
        ServiceError: As for `approve`, and 422 where nothing is said.
    """
    return _decide(service, actor, "deny", digest, _told(comment))


def withdraw(service: Service, actor: Actor, digest: str, reason: str) -> StoredPlan:
    """Take a plan back, for good: its maker, or an operator or approver at each of its sites. A run goes on.

    Raises:
        ServiceError: As for `deny`.
    """
    return _decide(service, actor, "withdraw", digest, _told(reason))


def _decide(service: Service, actor: Actor, verb: Verb, digest: str, comment: str, why: str = "") -> StoredPlan:
    comment = checked_comment(comment)
    with deciding(service, actor, f"plan.{verb}", object_of(digest), unnoted=(NotFound,)) as database:
        before = found(database, digest, actor)
        _check(service, database, actor, verb, before, why)
        decision = Decision(digest=digest, by=actor.name, at=moment(service.now()), comment=comment)
        if not _STATEMENTS[verb](database, decision):
            raise _conflict(verb, f"it is {before.state}")
        after = found(database, digest)
        note(
            *(service, database, actor, f"plan.{verb}", object_of(digest)),
            reason=comment,
            before={"state": before.state.value},
            after={"state": after.state.value},
        )
    return after


def who_may(actor: Actor, verb: Verb, plan: StoredPlan) -> str:
    """Return who is expected to decide about a plan, where this one may not; empty where he may."""
    if verb == "withdraw":
        if actor.name != plan.made_by and not actor.may({Role.OPERATOR, Role.APPROVER}, plan.sites):
            return f"an operator or approver at {told_sites(plan.sites)}"
    elif actor.name == plan.made_by:
        return f"somebody else than {plan.made_by}, who made it"
    elif not actor.may({Role.APPROVER}, plan.sites):
        return f"an approver at {told_sites(plan.sites)}"
    return ""


def may_be_decided(verb: Verb, plan: StoredPlan) -> bool:
    """Return whether the state of a plan leaves room for a decision."""
    return plan.state is PlanState.DRAFT or (verb == "withdraw" and plan.state is PlanState.APPROVED)


def _check(
    service: Service, database: sqlite3.Connection, actor: Actor, verb: Verb, plan: StoredPlan, why: str
) -> None:
    if expected := who_may(actor, verb, plan):
        raise _forbidden(verb, expected)
    if not may_be_decided(verb, plan):
        raise _conflict(verb, _state(plan))
    if verb == "approve" and (fallen := why_fallen(database, plan, service.now()) or why):
        raise _conflict(verb, fallen)


def _state(plan: StoredPlan) -> str:
    if plan.state is PlanState.WITHDRAWN:
        return f"it was withdrawn by {plan.withdrawn_by} at {words.moment(plan.withdrawn_at)}"
    return f"it was {plan.state} by {plan.decided_by} at {words.moment(plan.decided_at)}"


def _forbidden(verb: str, who: str) -> ServiceError:
    hint = "Withdraw it, if it is to go; else ask a colleague with that role"
    comma = "," if ", " in who else ""
    return Forbidden(f"plan: expected {who}{comma} to {verb} it", hint=hint)


def _conflict(verb: str, why: str) -> ServiceError:
    return Conflict(
        f"plan: it cannot be {_PAST[verb]}: {why}",
        hint="Read it again: GET /api/v1/plans/DIGEST says how it stands; a plan made anew can be decided about",
    )


_PAST = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}


def _told(comment: str) -> str:
    if not comment.strip():
        raise InvalidRequest(
            "comment: expected why, found nothing",
            hint="Say it in a sentence: it stands in the audit and is shown with the plan",
        )
    return comment


def checked_comment(comment: str) -> str:
    """Return a comment as it is kept.

    Raises:
        ServiceError: It is longer than two thousand characters.
    """
    comment = comment.strip()
    if len(comment) > LONGEST_COMMENT:
        raise InvalidRequest(
            f"comment: expected at most {LONGEST_COMMENT:,} characters, found {len(comment):,}",
            hint="Say it shorter, or give the address of what you mean",
        )
    return comment
