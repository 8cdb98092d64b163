"""Approving, denying and withdrawing a plan: one statement each, in the audit with the same transaction.

The maker does not decide. Of forty concurrent approvals one succeeds, and the others name its approver.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Literal

from flashferry.reports import words
from flashferry.service.auditing import deciding, note
from flashferry.service.errors import Conflict, Forbidden, InvalidRequest, NotFound, ServiceError
from flashferry.service.plans.eligibility import approval_obstacle, found, image_obstacle
from flashferry.service.plans.offering import sites_text
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
    """Approve a draft: by an approver at each of its sites, not its maker, and only if it could start.

    Raises:
        Forbidden, NotFound: The caller may not approve or see it.
        Conflict: Its state or an image does not allow it.
    """
    # Hashed before the transaction, which keeps all others from writing; what runs is hashed again when it begins.
    with service.database.reading() as database:
        found(database, digest, actor)
    why = image_obstacle(service, digest)
    return _decide(service, actor, "approve", digest, comment, why)


def deny(service: Service, actor: Actor, digest: str, comment: str) -> StoredPlan:
    """Deny a draft for good, with a reason. Raises as `approve`; `InvalidRequest` without a reason."""
    return _decide(service, actor, "deny", digest, _details(comment))


def withdraw(service: Service, actor: Actor, digest: str, reason: str) -> StoredPlan:
    """Withdraw a plan for good, with a reason: its maker, or an operator or approver at each of its sites.

    A run continues. Raises as `deny`.
    """
    return _decide(service, actor, "withdraw", digest, _details(reason))


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
    """Return who may decide about a plan, if the caller may not; empty if the caller may."""
    if verb == "withdraw":
        if actor.name != plan.made_by and not actor.may({Role.OPERATOR, Role.APPROVER}, plan.sites):
            return f"an operator or approver at {sites_text(plan.sites)}"
    elif actor.name == plan.made_by:
        return f"someone else than {plan.made_by}, who made it"
    elif not actor.may({Role.APPROVER}, plan.sites):
        return f"an approver at {sites_text(plan.sites)}"
    return ""


def may_be_decided(verb: Verb, plan: StoredPlan) -> bool:
    """Return whether the state of a plan allows a decision."""
    return plan.state is PlanState.DRAFT or (verb == "withdraw" and plan.state is PlanState.APPROVED)


def _check(
    service: Service, database: sqlite3.Connection, actor: Actor, verb: Verb, plan: StoredPlan, why: str
) -> None:
    if expected := who_may(actor, verb, plan):
        raise _forbidden(verb, expected)
    if not may_be_decided(verb, plan):
        raise _conflict(verb, _state(plan))
    if verb == "approve" and (fallen := approval_obstacle(database, plan, service.now()) or why):
        raise _conflict(verb, fallen)


def _state(plan: StoredPlan) -> str:
    if plan.state is PlanState.WITHDRAWN:
        return f"it was withdrawn by {plan.withdrawn_by} at {words.moment(plan.withdrawn_at)}"
    return f"it was {plan.state} by {plan.decided_by} at {words.moment(plan.decided_at)}"


def _forbidden(verb: str, who: str) -> ServiceError:
    hint = "Ask a colleague with that role, or withdraw the plan"
    comma = "," if ", " in who else ""
    return Forbidden(f"plan: expected {who}{comma} to {verb} it", hint=hint)


def _conflict(verb: str, why: str) -> ServiceError:
    return Conflict(
        f"plan: it cannot be {_PAST[verb]}: {why}",
        hint="Read the plan again; a new plan can be decided",
    )


_PAST = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"}


def _details(comment: str) -> str:
    if not comment.strip():
        raise InvalidRequest(
            "comment: expected a reason, found none",
            hint="Give a reason in a sentence; it is in the audit and shown with the plan",
        )
    return comment


def checked_comment(comment: str) -> str:
    """Return a comment as it is stored. Raises `InvalidRequest` above two thousand characters."""
    comment = comment.strip()
    if len(comment) > LONGEST_COMMENT:
        raise InvalidRequest(
            f"comment: expected at most {LONGEST_COMMENT:,} characters, found {len(comment):,}",
            hint="Shorten it",
        )
    return comment
