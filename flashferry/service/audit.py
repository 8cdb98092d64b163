"""Filter, verify and export audit entries; `Service.note` writes them."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from msgspec import Struct, field

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import sanitize
from flashferry.core.values import field_names
from flashferry.reports.as_csv import safe
from flashferry.service.notices import NoticeKind, announce
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.store.service.audit import (
    CLOCK_BACK,
    FIRST,
    AuditEntry,
    AuditFilter,
    ChainedEntry,
    hash_of,
    last,
    newest_of,
    stored_entries,
    table_faults,
    things_without_an_entry,
)
from flashferry.store.service.database import moment
from flashferry.store.service.hooks import forget_delivered

OUTCOMES = ("asked", "done", "refused", "failed")
COLUMNS = ("seq", *(name for name in field_names(AuditEntry)), "previous", "hash")


class ExportForm(StrEnum):
    """File format of an export."""

    JSONL = "jsonl"
    CSV = "csv"

    @property
    def media_type(self) -> str:
        """Return the media type."""
        return "text/csv; charset=utf-8" if self is ExportForm.CSV else "application/jsonl"


def facts_of(chained: ChainedEntry) -> dict[str, object]:
    """Return an audit entry as JSON types."""
    values = {name: getattr(chained.entry, name) for name in field_names(AuditEntry)}
    return {"seq": chained.seq, **values, "previous": chained.previous, "hash": chained.hash}


def exported(found: Iterable[ChainedEntry], form: ExportForm) -> Iterator[str]:
    """Yield the lines of an export, each with its line end."""
    if form is ExportForm.JSONL:
        for chained in found:
            yield json.dumps(facts_of(chained), separators=(",", ":")) + "\n"
        return
    yield _row(COLUMNS)
    for chained in found:
        yield _row([str(safe(sanitize(str(value)))) for value in facts_of(chained).values()])


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue()


def audit_filter(
    *, since: str = "", until: str = "", actor: str = "", action: str = "", object_: str = "", outcome: str = ""
) -> AuditFilter:
    """Return a filter of audit entries; empty arguments match all.

    Args:
        since: ISO 8601; UTC without an offset.
        until: Likewise, exclusive; a date without time includes that day.
        actor: Name of a user.
        action: Action, or its subject: `plan` is every `plan.…`.
        object_: Object, or its kind: `run` is every `run:…`.
        outcome: `asked`, `done`, `refused` or `failed`.

    Raises:
        ConfigInvalid: A time or the outcome is not valid.
    """
    if outcome and outcome not in OUTCOMES:
        raise ConfigInvalid(
            f"outcome: expected {', '.join(OUTCOMES)}, found {outcome[:20]!r}", hint="Choose one of them"
        )
    return AuditFilter(
        since=_moment(since, "since"),
        until=_moment(until, "until", is_end=True),
        actor=actor,
        action=action,
        object=object_,
        outcome=outcome,
    )


def _moment(text: str, what: str, *, is_end: bool = False) -> str:
    """Return a time in the format of the tables; empty for an empty text."""
    if not text:
        return ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigInvalid(
            f"{what}: expected a time such as 2026-11-22 or 2026-11-22T02:00Z, found {text[:40]!r}",
            hint="Write year, month and day, and the time after a T",
        ) from None
    if is_end and "T" not in text and " " not in text:
        found = found.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return moment(found if found.tzinfo is not None else found.replace(tzinfo=UTC))


MOST_FAULTS = 20
ACTION = "audit.head"

_DAY = len("2026-11-22")
_OUTBOX_KEPT = timedelta(days=30)


class Head(Struct, frozen=True, kw_only=True):
    """Number and hash of an entry; the hash covers all entries before it."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


class Verified(Struct, frozen=True, kw_only=True):
    """Result of a verification: number of entries, last entry (None: none), and the first `MOST_FAULTS` faults."""

    count: int
    head: Head | None
    faults: tuple[str, ...] = field(default=())

    @property
    def is_whole(self) -> bool:
        """Return whether no fault was found."""
        return not self.faults


def parsed_head(text: str) -> Head:
    """Parse `NUMBER:HASH`. Raises `ConfigInvalid` if the text is not valid."""
    number, _, digest = text.strip().partition(":")
    is_hash = len(digest) == len(FIRST) and set(digest) <= set("0123456789abcdef")
    if not number.isascii() or not number.isdecimal() or not is_hash:
        raise ConfigInvalid(
            f"head of the audit: expected NUMBER:HASH, found {len(text)} characters that are none",
            hint="Copy it from the notice 'audit.head', or from 'flashferry service audit verify'",
        )
    return Head(seq=int(number), hash=digest)


def verify(database: sqlite3.Connection, heads: Iterable[Head] = ()) -> Verified:
    """Check every row and table definition of the audit, in the caller's transaction.

    Unreadable rows count as faults and raise nothing. The entries of `heads`, kept elsewhere, must exist unchanged.
    """
    kept = {head.seq: head for head in heads}
    count, head = 0, None
    faults: list[str] = []
    before: ChainedEntry | None = None
    try:
        faults += table_faults(database)
        for found in stored_entries(database):
            count += 1
            if isinstance(found, str):
                faults.append(found)
                continue
            faults += _faults(before, found)
            known = kept.pop(found.seq, None)
            if known is not None and known.hash != found.hash:
                faults.append(f"entry {found.seq}: expected the hash {known.hash} that was kept, found {found.hash}")
            before, head = found, Head(seq=found.seq, hash=found.hash)
        if not count and (others := things_without_an_entry(database)):
            held = ", ".join(f"{number} in {table}" for table, number in others.items())
            faults.append(f"there is no entry, although each change has one, and there are rows: {held}")
    except sqlite3.DatabaseError as error:
        faults.append(f"the audit cannot be read: {error}")
    faults += [f"entry {seq}: expected one, as a head that was kept says, found none" for seq in sorted(kept)]
    return Verified(count=count, head=head, faults=tuple(faults[:MOST_FAULTS]))


def _faults(before: ChainedEntry | None, chained: ChainedEntry) -> Iterator[str]:
    seq, entry = chained.seq, chained.entry
    expected = before.seq + 1 if before is not None else 1
    if seq != expected:
        yield f"entry {seq}: expected number {expected}; {seq - expected} before it are missing"
    if chained.previous != (before.hash if before is not None else FIRST):
        yield f"entry {seq}: the hash of the one before it is another one than it names"
    if chained.hash != hash_of(seq, entry, chained.previous):
        yield f"entry {seq}: its hash is not that of what it says; it was changed"
    if before is not None and entry.at < before.entry.at and entry.action != CLOCK_BACK:
        yield f"entry {seq}: its time {entry.at} is before {before.entry.at} of the one before it"


def announce_head(service: Service) -> None:
    """Record and announce the last entry's hash once a day (UTC), if there were entries since the last announcement."""
    with service.database.reading() as database:
        if _requested(service, database) is None:
            return
    with service.database.writing() as database:
        newest = _requested(service, database)
        if newest is None:
            return
        head: dict[str, object] = {"seq": newest.seq, "hash": newest.hash}
        service.note(database, SYSTEM, ACTION, "audit", after=head)
        sentence = f"the audit has {newest.seq} entries; the last one's hash is {newest.hash}"
        announce(service, database, NoticeKind.AUDIT_HEAD, "audit", sentence, head, path="/audit")
        forget_delivered(database, service.moment(-_OUTBOX_KEPT))


def _requested(service: Service, database: sqlite3.Connection) -> ChainedEntry | None:
    """Return the last entry if it is due to be announced today, else None."""
    newest, announced = last(database), newest_of(database, ACTION)
    if newest is None or newest.entry.action == ACTION:
        return None
    is_announced_today = announced is not None and announced.entry.at[:_DAY] == service.moment()[:_DAY]
    return None if is_announced_today else newest
