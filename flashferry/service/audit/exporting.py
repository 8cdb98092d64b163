"""Entries of the audit as programs and spreadsheets take them: JSON lines, exact; CSV, with nothing that is run.

Of JSON lines the hashes can be checked elsewhere; of CSV they cannot where a cell got an apostrophe in front.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from enum import StrEnum

from flashferry.core.outside import shown
from flashferry.reports.as_csv import safe
from flashferry.store.service.audit import AuditEntry, ChainedEntry

COLUMNS = ("seq", *(one.name for one in fields(AuditEntry)), "previous", "hash")


class ExportForm(StrEnum):
    """In which form."""

    JSONL = "jsonl"
    CSV = "csv"

    @property
    def media_type(self) -> str:
        """Return what it is called over HTTP."""
        return "text/csv; charset=utf-8" if self is ExportForm.CSV else "application/jsonl"


def facts_of(chained: ChainedEntry) -> dict[str, object]:
    """Return an entry as JSON has it."""
    values = {one.name: getattr(chained.entry, one.name) for one in fields(AuditEntry)}
    return {"seq": chained.seq, **values, "previous": chained.previous, "hash": chained.hash}


def exported(found: Iterable[ChainedEntry], form: ExportForm) -> Iterator[str]:
    """Yield entries line by line, each with its end."""
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
