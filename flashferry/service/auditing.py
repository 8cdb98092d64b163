"""Writing the audit from within the service: in the same transaction as what it tells of."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from flashferry.service.errors import ServiceError
from flashferry.core.errors import FlashferryError
from flashferry.core.outside import masked
from flashferry.service.principal import Actor
from flashferry.service.service import Service
from flashferry.store.service.audit import AuditEntry, ChainedEntry, append
from flashferry.store.service.database import moment

_LOG = logging.getLogger("flashferry.service.audit")


def note(
    service: Service,
    database: sqlite3.Connection,
    actor: Actor,
    action: str,
    object_: str,
    *,
    outcome: str = "done",
    reason: str = "",
    before: object = None,
    after: object = None,
) -> ChainedEntry:
    """Append what an actor did to the audit, within the caller's transaction; known secrets are masked.

    Args:
        service: The service.
        database: The connection that the change is written with.
        actor: Who did it.
        action: What, such as `plan.approve`.
        object_: To which object, such as `plan:7c1e…`.
        outcome: `done`, `refused` or `failed`; `asked` of what is done outside of the database behind this entry, and
            has another one of what came of it (`note_outcome`).
        reason: What the actor gave for it, or why it was refused.
        before: What was there, of JSON's types; None where nothing was.
        after: What is there now, likewise.
    """
    entry = AuditEntry(
        at=moment(service.now()),
        actor=actor.name,
        via=actor.via.value,
        address=actor.address,
        action=action,
        object=object_,
        outcome=outcome,
        reason=masked(reason),
        before=_told(before),
        after=_told(after),
    )
    return append(database, entry)


def note_refusal(service: Service, actor: Actor, action: str, object_: str, reason: str) -> None:
    """Append to the audit that something was refused, in a transaction of its own: that of the change is undone."""
    with service.database.writing() as database:
        note(service, database, actor, action, object_, outcome="refused", reason=reason)


@contextmanager
def deciding(
    service: Service, actor: Actor, action: str, object_: str, *, unnoted: tuple[type[ServiceError], ...] = ()
) -> Iterator[sqlite3.Connection]:
    """Yield the database in one transaction; a `ServiceError` undoes it, is in the audit as a refusal, and is raised on.

    Args:
        service: The service.
        actor: Who asks for it.
        action: What, such as `plan.approve`.
        object_: To which object.
        unnoted: Kinds of refusals that the audit says nothing of, such as that there is no such object.
    """
    try:
        with service.database.writing() as database:
            yield database
    except ServiceError as problem:
        if not isinstance(problem, unnoted):
            note_refusal(service, actor, action, object_, problem.sentence)
        raise


def note_outcome(
    service: Service, actor: Actor, action: str, object_: str, *, outcome: str, reason: str = "", after: object = None
) -> None:
    """Append what came of something that stands in the audit as `asked`, in a transaction of its own.

    Where that cannot be kept the log has it, and the audit says no more than is true: that it was asked for.
    """
    try:
        with service.database.writing() as database:
            note(service, database, actor, action, object_, outcome=outcome, reason=reason, after=after)
    except (FlashferryError, sqlite3.Error) as error:
        told = (action, object_, actor.name, outcome, masked(reason), error)
        _LOG.error("%s of %s by %s: %s (%s), which the audit could not take: %s", *told)


def _told(value: object) -> str:
    return "" if value is None else masked(json.dumps(value, sort_keys=True, separators=(",", ":")))
