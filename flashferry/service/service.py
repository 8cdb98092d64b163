"""The object that routes, pages and background tasks share, with the audit entries that it writes."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flashferry.core.errors import FlashferryError
from flashferry.core.redaction import masked
from flashferry.service.errors import ServiceError
from flashferry.service.images.upload_sessions import UploadSessions
from flashferry.service.outbound import OwnThreads
from flashferry.service.principal import Actor
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.audit import AuditEntry, ChainedEntry, append
from flashferry.store.service.database import ServiceDatabase, moment

_LOG = logging.getLogger("flashferry.service.audit")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Settings, database and state of a service.

    Attributes:
        now: Returns the time, with a zone.
        stopping: Set when the service ends, so that streams and background tasks end.
    """

    state: Path
    settings: ServiceSettings
    database: ServiceDatabase
    now: Callable[[], datetime] = field(default=_now)
    stopping: threading.Event = field(default_factory=threading.Event)
    uploads: UploadSessions = field(default_factory=UploadSessions)
    outbound: OwnThreads = field(default_factory=OwnThreads)

    @property
    def images(self) -> Path:
        """Return the image folder, the only one that plans may use."""
        return self.settings.runs.images or self.state / "images"

    def moment(self, offset: timedelta = timedelta()) -> str:
        """Return the time, or one after it (`offset` < 0: before), in the format of the tables."""
        return moment(self.now() + offset)

    def note(
        self,
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

        `action` is such as `plan.approve`, `object_` such as `plan:7c1e…`; `before` and `after` are states as JSON
        types (None: none). `outcome` is `done`, `refused` or `failed`; or `asked` before an action outside of the
        database, followed by a second entry (`note_outcome`).
        """
        entry = AuditEntry(
            at=self.moment(),
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

    def note_refusal(self, actor: Actor, action: str, object_: str, reason: str) -> None:
        """Append a refusal in a transaction of its own, because the transaction of the change is rolled back."""
        with self.database.writing() as database:
            self.note(database, actor, action, object_, outcome="refused", reason=reason)

    @contextmanager
    def deciding(
        self, actor: Actor, action: str, object_: str, *, unnoted: tuple[type[ServiceError], ...] = ()
    ) -> Iterator[sqlite3.Connection]:
        """Open a transaction; on a `ServiceError`, roll back, record the refusal and raise the error again.

        Errors of the types `unnoted`, such as `NotFound`, are not recorded.
        """
        try:
            with self.database.writing() as database:
                yield database
        except ServiceError as problem:
            if not isinstance(problem, unnoted):
                self.note_refusal(actor, action, object_, problem.sentence)
            raise

    def note_outcome(self, actor: Actor, action: str, object_: str, *, outcome: str, reason: str = "") -> None:
        """Append the outcome of an action whose entry is `asked`. If this fails, write it to the log."""
        try:
            with self.database.writing() as database:
                self.note(database, actor, action, object_, outcome=outcome, reason=reason)
        except (FlashferryError, sqlite3.Error) as error:
            details = (action, object_, actor.name, outcome, masked(reason), error)
            _LOG.error("%s of %s by %s: %s (%s), which the audit could not take: %s", *details)


def _details(value: object) -> str:
    return "" if value is None else masked(json.dumps(value, sort_keys=True, separators=(",", ":")))
