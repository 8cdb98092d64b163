"""The audit filtered and exported: JSON lines, exact, so that hashes can be recomputed; CSV, safe for spreadsheets."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from enum import StrEnum

from flashferry.core.errors import ConfigInvalid
from flashferry.core.outside import shown
from flashferry.reports.as_csv import safe
from flashferry.store.service.audit import AuditEntry, AuditFilter, ChainedEntry
from flashferry.store.service.database import moment

OUTCOMES = ("asked", "done", "refused", "failed")
COLUMNS = ("seq", *(one.name for one in fields(AuditEntry)), "previous", "hash")


class ExportForm(StrEnum):
    """Format of an export."""

    JSONL = "jsonl"
    CSV = "csv"

    @property
    def media_type(self) -> str:
        """Return the media type."""
        return "text/csv; charset=utf-8" if self is ExportForm.CSV else "application/jsonl"


def facts_of(chained: ChainedEntry) -> dict[str, object]:
    """Return an entry as JSON types."""
    values = {one.name: getattr(chained.entry, one.name) for one in fields(AuditEntry)}
    return {"seq": chained.seq, **values, "previous": chained.previous, "hash": chained.hash}


def exported(found: Iterable[ChainedEntry], form: ExportForm) -> Iterator[str]:
    """Yield entries line by line, each with its line end."""
    if form is ExportForm.JSONL:
        for chained in found:
            yield json.dumps(facts_of(chained), separators=(",", ":")) + "\n"
        return
    yield _row(COLUMNS)
    for chained in found:
        yield _row([str(safe(shown(str(value)))) for value in facts_of(chained).values()])


def _row(cells: Iterable[str]) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerow(cells)
    return out.getvalue()


def audit_filter(
    *, since: str = "", until: str = "", actor: str = "", action: str = "", object_: str = "", outcome: str = ""
) -> AuditFilter:
    """Return a filter; empty values match all.

    Args:
        since: ISO 8601; UTC without an offset.
        until: Likewise, exclusive; a date alone includes its day.
        actor: User.
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
    """Return a time as the tables store it; empty for none."""
    if not text:
        return ""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigInvalid(
            f"{what}: expected a time such as 2026-11-22 or 2026-11-22T02:00Z, found {text[:40]!r}",
            hint="Write year, month and day, and the time behind a T",
        ) from None
    if is_end and "T" not in text and " " not in text:
        found = found.replace(hour=23, minute=59, second=59, microsecond=999_999)
    return moment(found if found.tzinfo is not None else found.replace(tzinfo=UTC))
