"""Notices of events for hooks, stored in the transaction of the event, one row per hook that subscribed to the kind.

A background task sends them (`flashferry.service.hooks`), so that nothing rolled back is reported, and no notice is
lost while a receiver is unreachable.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum

from msgspec import Struct

from flashferry.core.redaction import redact_json
from flashferry.service.service import Service
from flashferry.store.service.database import moment_of
from flashferry.store.service.hooks import OutboxRow, hooks, put_out, reminders, set_reminder

SCHEMA = "flashferry.notice/1"
AGAIN_AFTER = timedelta(hours=1)
"""A lasting state is announced again after so long."""


def key_of_unrestored(run_id: str) -> str:
    """Return the reminder key for the devices that a run left changed."""
    return f"unrestored {run_id}"


class NoticeKind(StrEnum):
    """Kind of event; hooks subscribe by it. Values never change."""

    RUN_BEGAN = "run.began"
    RUN_ENDED = "run.ended"
    APPROVAL_NEEDED = "approval.wanted"
    NOT_RESTORED = "device.not_restored"
    RUN_DEAD = "run.dead"
    OUTSIDE_WINDOW = "outside.window"
    SCHEDULE_MISSED = "schedule.missed"
    SCHEDULE_REFUSED = "schedule.refused"
    EMERGENCY_LOGIN = "login.emergency"
    AUDIT_ENTRY = "audit.entry"
    AUDIT_HEAD = "audit.head"
    TEST = "hook.test"

    @property
    def meaning(self) -> str:
        """Return a description of the event."""
        return _MEANINGS[self]


_MEANINGS = {
    NoticeKind.RUN_BEGAN: "a run started",
    NoticeKind.RUN_ENDED: "a run ended, and how",
    NoticeKind.APPROVAL_NEEDED: "a plan or a wave waits for approval",
    NoticeKind.NOT_RESTORED: "a device is changed and not restored; repeated while it lasts",
    NoticeKind.RUN_DEAD: "a run's process died before its end",
    NoticeKind.OUTSIDE_WINDOW: "a run will end outside its window, or did",
    NoticeKind.SCHEDULE_MISSED: "a schedule's time passed while the service could not start it",
    NoticeKind.SCHEDULE_REFUSED: "a schedule was due and refused: owner disabled, approval lapsed",
    NoticeKind.EMERGENCY_LOGIN: "a local account signed in although users sign in elsewhere",
    NoticeKind.AUDIT_ENTRY: "each entry of the audit, in order, without a gap",
    NoticeKind.AUDIT_HEAD: "once a day, number and hash of the audit's last entry",
    NoticeKind.TEST: "an administrator tests a hook; every hook receives its own",
}


class Notice(Struct, frozen=True, kw_only=True):
    """A notice.

    Attributes:
        at: Time of the event, in the format of the tables.
        about: Object, such as `run:20261122T020000-1a2b`.
    """

    notice_id: str
    kind: NoticeKind
    at: str
    about: str
    sentence: str
    facts: Mapping[str, object]
    link: str = ""

    def to_json(self) -> str:
        """Return a `flashferry.notice/1` document, with known secrets masked."""
        document = {
            "schema": SCHEMA,
            "id": self.notice_id,
            "kind": self.kind.value,
            "at": self.at,
            "object": self.about,
            "sentence": self.sentence,
            "facts": dict(self.facts),
            "link": self.link,
        }
        return json.dumps(redact_json(document), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Notice:
        """Parse a `flashferry.notice/1` document."""
        found = json.loads(text)
        return cls(
            notice_id=found["id"],
            kind=NoticeKind(found["kind"]),
            at=found["at"],
            about=found["object"],
            sentence=found["sentence"],
            facts=found["facts"],
            link=found["link"],
        )


def announce(
    service: Service,
    database: sqlite3.Connection,
    kind: NoticeKind,
    object_: str,
    sentence: str,
    facts: Mapping[str, object] | None = None,
    *,
    path: str = "",
    sites: Iterable[str] = (),
) -> int:
    """Store a notice for each hook that subscribed to its kind; return their number. In the caller's transaction.

    `object_` is named as in the audit; `facts` are JSON types without secrets; `path` is the object's page (empty:
    none). Hooks limited to other sites than `sites` are left out; no sites: unknown, all hooks.
    """
    touched = frozenset(sites)
    notice = Notice(
        notice_id=uuid.uuid4().hex,
        kind=kind,
        at=service.moment(),
        about=object_,
        sentence=sentence,
        facts=facts or {},
        link=f"{service.settings.base_url}{path}" if path else "",
    )
    requested = [
        hook
        for hook in hooks(database)
        if kind in hook.kinds
        and not hook.is_paused
        and (not hook.sites or not touched or not touched.isdisjoint(hook.sites))
    ]
    for hook in requested:
        put_out(database, to_send(notice, hook.hook_id))
    return len(requested)


def announce_lasting(
    service: Service,
    database: sqlite3.Connection,
    key: str,
    kind: NoticeKind,
    object_: str,
    sentence: str,
    facts: Mapping[str, object] | None = None,
    *,
    path: str = "",
    sites: Iterable[str] = (),
    again_after: timedelta | None = AGAIN_AFTER,
) -> bool:
    """Store a notice of a lasting state once, then again every `again_after` (None: never); return whether it was due.

    `key` identifies the state in the table of reminders. Runs in the caller's transaction, which excludes others. The
    other arguments are those of `announce`.
    """
    announced_at = reminders(database).get(key)
    if announced_at is not None:
        since = service.now() - moment_of(announced_at)
        if again_after is None or timedelta(0) <= since < again_after:
            return False
    set_reminder(database, key, service.moment())
    announce(service, database, kind, object_, sentence, facts, path=path, sites=sites)
    return True


def to_send(notice: Notice, hook_id: str) -> OutboxRow:
    """Return the outbox row of a notice for a hook, due at once."""
    return OutboxRow(
        notice_id=uuid.uuid4().hex,
        hook_id=hook_id,
        kind=notice.kind.value,
        body=notice.to_json(),
        at=notice.at,
        next_at=notice.at,
    )
