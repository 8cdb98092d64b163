"""Notices: what people want to hear of, put into the outbox in the transaction of what they tell of.

A notice is announced once; each hook that is sent its kind has a row of it in the outbox, from where a keeper sends it
(`flashferry.service.hooks`). So nothing is told that was undone, and nothing is lost where a receiver is away.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from flashferry.core.outside import told
from flashferry.service.service import Service
from flashferry.store.service.database import moment, moment_of
from flashferry.store.service.hooks import OutboxRow, hooks, put_out, reminders, set_reminder

SCHEMA = "flashferry.notice/1"

AGAIN_AFTER = timedelta(hours=1)
"""What lasts is told again after so long."""


def key_of_unrestored(run_id: str) -> str:
    """Return under which key it is kept that people were told of the devices that a run left changed."""
    return f"unrestored {run_id}"


class NoticeKind(StrEnum):
    """What a notice tells of; hooks choose by it. No value is ever changed."""

    RUN_BEGAN = "run.began"
    RUN_ENDED = "run.ended"
    APPROVAL_WANTED = "approval.wanted"
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
        """Return what it tells of, in words."""
        return _MEANINGS[self]


_MEANINGS = {
    NoticeKind.RUN_BEGAN: "a run began",
    NoticeKind.RUN_ENDED: "a run ended, and how",
    NoticeKind.APPROVAL_WANTED: "a plan or a wave waits for somebody's approval",
    NoticeKind.NOT_RESTORED: "a device is changed and not restored; told again while it is so",
    NoticeKind.RUN_DEAD: "a run's process died before its end",
    NoticeKind.OUTSIDE_WINDOW: "a run will end outside its window, or did",
    NoticeKind.SCHEDULE_MISSED: "a schedule's time passed while nobody could start it",
    NoticeKind.SCHEDULE_REFUSED: "a schedule was due and not allowed: owner gone, approval lapsed",
    NoticeKind.EMERGENCY_LOGIN: "a local administrator signed in though people sign in elsewhere",
    NoticeKind.AUDIT_ENTRY: "each entry of the audit, in order, none left out",
    NoticeKind.AUDIT_HEAD: "once a day, number and hash of the audit's last entry",
    NoticeKind.TEST: "an administrator tries a hook; every hook is sent its own",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What is told.

    Attributes:
        notice_id: Its identifier, the same for all hooks.
        kind: What it tells of.
        at: When, as the tables keep times.
        about: Of which object, such as `run:20261122T020000-1a2b`.
        sentence: In one sentence, for people.
        facts: What programs want of it, of JSON's types.
        link: Where people find more; empty: nowhere.
    """

    notice_id: str
    kind: NoticeKind
    at: str
    about: str
    sentence: str
    facts: Mapping[str, object]
    link: str = ""

    def to_json(self) -> str:
        """Return it as a document, `flashferry.notice/1`, without any secret that is known here."""
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
        return json.dumps(told(document), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Notice:
        """Return the notice of such a document."""
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
    """Put a notice into the outbox for every hook that is sent its kind, within the caller's transaction.

    Args:
        service: The service.
        database: The connection that what is told of is written with.
        kind: What it tells of.
        object_: Of which object, as the audit names it.
        sentence: In one sentence, for people.
        facts: What programs want of it, of JSON's types; no secrets.
        path: The page that tells more, `/runs/20261122T020000-1a2b`; empty: none.
        sites: The sites that the object touches: a hook that is limited to others is not sent it. Empty: nobody knows
            which, so perhaps any, and every hook is sent it.

    Returns:
        How many hooks are sent it.
    """
    touched = frozenset(sites)
    notice = Notice(
        notice_id=uuid.uuid4().hex,
        kind=kind,
        at=moment(service.now()),
        about=object_,
        sentence=sentence,
        facts=facts or {},
        link=f"{service.settings.base_url}{path}" if path else "",
    )
    wanted = [
        hook
        for hook in hooks(database)
        if kind in hook.kinds
        and not hook.is_paused
        and (not hook.sites or not touched or not touched.isdisjoint(hook.sites))
    ]
    for hook in wanted:
        put_out(database, to_send(notice, hook.hook_id))
    return len(wanted)


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
    """Announce what lasts once, whoever sees it first, and again after a while; return whether it was announced now.

    Arguments are those of `announce`, and:

    Args:
        service: The service.
        database: As for `announce`; nobody else writes meanwhile, so that of two who see it one tells of it.
        key: What lasts, in the table of reminders.
        kind: What it tells of.
        object_: Of which object.
        sentence: In one sentence.
        facts: What programs want of it.
        path: The page that tells more.
        sites: The sites that it touches.
        again_after: It is told again after so long, and where it was told in a time that is yet to come; None: never.
    """
    told_at = reminders(database).get(key)
    if told_at is not None:
        since = service.now() - moment_of(told_at)
        if again_after is None or timedelta(0) <= since < again_after:
            return False
    set_reminder(database, key, moment(service.now()))
    announce(service, database, kind, object_, sentence, facts, path=path, sites=sites)
    return True


def to_send(notice: Notice, hook_id: str) -> OutboxRow:
    """Return a notice's row for a hook, due at once."""
    return OutboxRow(
        notice_id=uuid.uuid4().hex,
        hook_id=hook_id,
        kind=notice.kind.value,
        body=notice.to_json(),
        at=notice.at,
        next_at=notice.at,
    )
