"""The daily head of the audit: number and hash of its last entry, in the audit and sent to whoever keeps it elsewhere.

Who cuts entries off, or makes the chain anew, cannot change what was sent. A day on which nothing happened has none.
"""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from flashferry.service.actor import SYSTEM
from flashferry.service.auditing import note
from flashferry.service.keepers import Keeper
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.service import Service
from flashferry.store.service.audit import ChainedEntry, last, newest_of
from flashferry.store.service.database import moment
from flashferry.store.service.hooks import forget_delivered

ACTION = "audit.head"
_EVERY_S = 60.0
_DAY = len("2026-11-22")
_OUTBOX_KEPT = timedelta(days=30)


def tell_head(service: Service) -> None:
    """Write the head down and announce it, once a day in UTC, where something happened since the last one."""
    with service.database.reading() as database:
        if _wanted(service, database) is None:
            return
    with service.database.writing() as database:
        newest = _wanted(service, database)
        if newest is None:
            return
        head: dict[str, object] = {"seq": newest.seq, "hash": newest.hash}
        note(service, database, SYSTEM, ACTION, "audit", after=head)
        sentence = f"the audit has {newest.seq} entries; the last one's hash is {newest.hash}"
        announce(service, database, NoticeKind.AUDIT_HEAD, "audit", sentence, head, path="/audit")
        forget_delivered(database, moment(service.now() - _OUTBOX_KEPT))


def _wanted(service: Service, database: sqlite3.Connection) -> ChainedEntry | None:
    """Return the last entry where it is to be told today."""
    newest, told = last(database), newest_of(database, ACTION)
    if newest is None or newest.entry.action == ACTION:
        return None
    is_told_today = told is not None and told.entry.at[:_DAY] == moment(service.now())[:_DAY]
    return None if is_told_today else newest


KEEPER = Keeper(name="audit-head", every_s=_EVERY_S, look=tell_head)
