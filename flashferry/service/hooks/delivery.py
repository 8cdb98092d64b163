"""Background task that delivers notices to hooks, and audit entries to receivers of the audit, in order without gaps.

A failed notice is retried after 10 s, later up to hourly, for a day; then it is given up until an admin sends it again.
Giving up is in the audit. Later notices of the hook wait for it. Each hook has a thread of its own without database
access, so that a slow receiver delays no other.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from flashferry.service.audit.reading import facts_of
from flashferry.service.hooks.sending import WHOLE_S, NotSent, Outgoing, send
from flashferry.service.notices import Notice, NoticeKind
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.service import hooks as rows
from flashferry.store.service.audit import ChainedEntry, entries
from flashferry.store.service.database import moment, moment_of

FIRST_PAUSE_S, LONGEST_PAUSE_S, GIVES_UP_AFTER_S = 10.0, 3600.0, 24 * 3600.0
_MOST = 20
"""Notices of one hook in one pass: results are stored soon, in case the process ends."""
_MOST_DUE = 500
_POLL_S = 0.2


class Batch(Struct, frozen=True, kw_only=True):
    """Notices for one hook in one pass, in order; audit entries (`is_audit`) have no row in the outbox."""

    hook: rows.HookRow
    notices: tuple[Outgoing, ...]
    is_audit: bool = False


class Tried(Struct, frozen=True, kw_only=True):
    """Result of one delivery; `failure` is None if the receiver accepted it."""

    batch: Batch
    outgoing: Outgoing
    failure: NotSent | None


class Delivery:
    """Sends what is due; keeps in memory which audit receivers are unreachable, and when to retry them."""

    def __init__(self) -> None:
        self._waits: dict[str, tuple[int, datetime]] = {}

    def __call__(self, service: Service) -> None:
        """Send all due notices and store the results."""
        now = service.now()
        with service.database.reading() as database:
            known = rows.hooks(database)
            batches = [*_from_outbox(known, _due(database, now))]
            batches += _from_audit(database, [hook for hook in known if self._follows(hook, now)])
        for tried in _sent(service, batches, now):
            self._write(service, tried)

    def _follows(self, hook: rows.HookRow, now: datetime) -> bool:
        waits = self._waits.get(hook.hook_id)
        is_left_alone = waits is not None and now < waits[1] <= now + timedelta(seconds=LONGEST_PAUSE_S)
        return NoticeKind.AUDIT_ENTRY in hook.kinds and not hook.is_paused and not is_left_alone

    def _write(self, service: Service, tried: Tried) -> None:
        hook_id, failure = tried.batch.hook.hook_id, tried.failure
        if not tried.batch.is_audit:
            _write_outbox(service, tried)
        elif failure is None:
            self._waits.pop(hook_id, None)
            seq = tried.outgoing.notice.facts["seq"]
            assert isinstance(seq, int)
            with service.database.writing() as database:
                rows.set_audit_seq(database, hook_id, seq)
        else:
            failures = self._waits.get(hook_id, (0, service.now()))[0] + 1
            self._waits[hook_id] = (failures, service.now() + pause(failures, failure.wait_s))


def pause(attempts: int, wait_s: float | None = None) -> timedelta:
    """Return the time until the next try after `attempts` failures (>= 1); longer if the receiver asks for `wait_s`."""
    grown_s = FIRST_PAUSE_S * 2.0 ** min(attempts - 1, 20)
    return timedelta(seconds=min(max(grown_s, wait_s or 0.0), LONGEST_PAUSE_S))


def _due(database: sqlite3.Connection, now: datetime) -> tuple[rows.OutboxRow, ...]:
    latest = now + timedelta(seconds=LONGEST_PAUSE_S)
    return rows.due(database, moment(now), latest=moment(latest), most=_MOST_DUE)


def _from_outbox(known: Iterable[rows.HookRow], due: Sequence[rows.OutboxRow]) -> Iterator[Batch]:
    for hook in known:
        own = [row for row in due if row.hook_id == hook.hook_id][:_MOST]
        if own:
            notices = (Outgoing(notice_id=row.notice_id, notice=Notice.from_json(row.body)) for row in own)
            yield Batch(hook=hook, notices=tuple(notices))


def _from_audit(database: sqlite3.Connection, following: Iterable[rows.HookRow]) -> Iterator[Batch]:
    for hook in following:
        if found := tuple(entries(database, after_seq=hook.audit_seq, most=_MOST)):
            yield Batch(hook=hook, notices=tuple(map(_of_entry, found)), is_audit=True)


def _of_entry(chained: ChainedEntry) -> Outgoing:
    entry = chained.entry
    notice = Notice(
        notice_id=f"audit-{chained.seq}",
        kind=NoticeKind.AUDIT_ENTRY,
        at=entry.at,
        about=entry.object,
        sentence=f"{entry.actor}: {entry.action} {entry.object}: {entry.outcome}",
        facts=facts_of(chained),
    )
    return Outgoing(notice_id=notice.notice_id, notice=notice)


def _sent(service: Service, batches: Sequence[Batch], now: datetime) -> Iterator[Tried]:
    """Send batches in parallel; yield each result until all are done or the service stops."""
    results: queue.SimpleQueue[Tried | None] = queue.SimpleQueue()
    for batch in batches:
        # A daemon thread: a receiver that hangs must not delay the end of the process.
        threading.Thread(target=_send_batch, args=(service, batch, now, results), name="hook", daemon=True).start()
    left = len(batches)
    while left and not service.stopping.is_set():
        try:
            tried = results.get(timeout=_POLL_S)
        except queue.Empty:
            continue
        if tried is None:
            left -= 1
        else:
            yield tried


def _send_batch(service: Service, batch: Batch, now: datetime, results: queue.SimpleQueue[Tried | None]) -> None:
    """Send a hook's notices in order, until one fails."""
    until_s = time.monotonic() + WHOLE_S
    try:
        for outgoing in batch.notices:
            failure = _try(service, batch.hook, outgoing, now)
            results.put(Tried(batch=batch, outgoing=outgoing, failure=failure))
            # A slow receiver continues in the next pass, along with the others.
            if failure is not None or time.monotonic() > until_s:
                break
    finally:
        results.put(None)


def _try(service: Service, hook: rows.HookRow, outgoing: Outgoing, now: datetime) -> NotSent | None:
    try:
        send(service.settings, hook, outgoing, now)
    except NotSent as failure:
        return failure
    except Exception as error:  # noqa: BLE001 -- one hook's trouble is a failed try, whatever it is
        return NotSent(f"{type(error).__name__}: {error}")
    return None


def _write_outbox(service: Service, tried: Tried) -> None:
    notice_id, failure, now = tried.outgoing.notice_id, tried.failure, service.now()
    with service.database.writing() as database:
        row = rows.notice_of(database, notice_id)
        if row is None or failure is None:
            rows.delivered(database, notice_id, moment(now))
            return
        next_at = _next_at(row, failure, now)
        rows.not_delivered(database, notice_id, next_at=next_at, sentence=failure.sentence)
        if next_at is not None:
            rows.hold_back(database, row.hook_id, next_at)
            return
        service.note(
            database,
            SYSTEM,
            "notice.given_up",
            f"hook:{tried.batch.hook.name}",
            outcome="failed",
            reason=failure.sentence,
            after={"notice": notice_id, "kind": row.kind, "attempts": row.attempts + 1},
        )


def _next_at(row: rows.OutboxRow, failure: NotSent, now: datetime) -> str | None:
    """Return when to retry a notice; None: never."""
    at = now + pause(row.attempts + 1, failure.wait_s)
    is_over = at - moment_of(row.at) > timedelta(seconds=GIVES_UP_AFTER_S)
    return None if failure.is_final or is_over else moment(at)
