"""Writing of audit entries, in the same transaction as the change they describe."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked
from flashferry.service.errors import ServiceError
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
    """Append an entry to the audit, in the caller's transaction; known secrets are masked.

    `action` is such as `plan.approve`, `object_` such as `plan:7c1e…`; `before` and `after` are states as JSON types
    (None: none). `outcome` is `done`, `refused` or `failed`; or `asked` before an action outside of the database,
    followed by a second entry (`note_outcome`).
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
        before=_details(before),
        after=_details(after),
    )
    return append(database, entry)


def note_refusal(service: Service, actor: Actor, action: str, object_: str, reason: str) -> None:
    """Append a refusal in a transaction of its own, because the transaction of the change is rolled back."""
    with service.database.writing() as database:
        note(service, database, actor, action, object_, outcome="refused", reason=reason)


@contextmanager
def deciding(
    service: Service, actor: Actor, action: str, object_: str, *, unnoted: tuple[type[ServiceError], ...] = ()
) -> Iterator[sqlite3.Connection]:
    """Open a transaction; on a `ServiceError`, roll back, record the refusal and raise the error again.

    Errors of the types `unnoted`, such as `NotFound`, are not recorded.
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
    """Append the outcome of an action whose entry is `asked`. If this fails, write it to the log."""
    try:
        with service.database.writing() as database:
            note(service, database, actor, action, object_, outcome=outcome, reason=reason, after=after)
    except (FlashferryError, sqlite3.Error) as error:
        details = (action, object_, actor.name, outcome, masked(reason), error)
        _LOG.error("%s of %s by %s: %s (%s), which the audit could not take: %s", *details)


def _details(value: object) -> str:
    return "" if value is None else masked(json.dumps(value, sort_keys=True, separators=(",", ":")))
