"""Audit API: list, export and verify entries. Read only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response, StreamingResponse

from flashferry.service.api.depends import LARGEST, TheService
from flashferry.service.audit import ExportForm, audit_filter, exported, facts_of, parsed_head, verify
from flashferry.service.service import Service
from flashferry.store.service.audit import AuditFilter, ChainedEntry, entries

router = APIRouter(prefix="/api/v1/audit", tags=["audit"])
MOST = 1000
_BATCH = 500


def requested(
    since: Annotated[str, Query(description="From this time on, ISO 8601.")] = "",
    until: Annotated[str, Query(description="Before this time; a day alone is meant whole.")] = "",
    actor: Annotated[str, Query(description="Of whom.")] = "",
    action: Annotated[str, Query(description="Which action, or its subject: `plan` is every `plan.…`.")] = "",
    object_: Annotated[str, Query(alias="object", description="Of which object, or its kind: `run`.")] = "",
    outcome: Annotated[str, Query(description="`asked`, `done`, `refused` or `failed`.")] = "",
) -> AuditFilter:
    """Return the audit filter that the query parameters describe."""
    return audit_filter(since=since, until=until, actor=actor, action=action, object_=object_, outcome=outcome)


FilterQuery = Annotated[AuditFilter, Depends(requested)]


@router.get("")
def list_entries(
    service: TheService,
    requested: FilterQuery,
    after: Annotated[int, Query(ge=0, le=LARGEST, description="Only entries after this number.")] = 0,
    most: Annotated[int, Query(ge=1, le=MOST)] = 100,
) -> dict[str, object]:
    """List entries, oldest first; pass `next` as `after` to get the following ones (null: no more)."""
    with service.database.reading() as database:
        found = list(entries(database, matching=requested, after_seq=after, most=most + 1))
    more = len(found) > most
    return {
        "entries": [facts_of(one) for one in found[:most]],
        "next": found[most - 1].seq if more else None,
    }


@router.get("/export", response_class=StreamingResponse)
def export(service: TheService, requested: FilterQuery, form: ExportForm = ExportForm.JSONL) -> Response:
    """Export entries, oldest first, as exact JSON lines, or as CSV in which no cell starts a spreadsheet formula."""
    headers = {"Content-Disposition": f'attachment; filename="flashferry-audit.{form.value}"'}
    return StreamingResponse(exported(_all(service, requested), form), headers=headers, media_type=form.media_type)


@router.get("/verify")
def verify_audit(
    service: TheService,
    head: Annotated[list[str] | None, Query(description="NUMBER:HASH that was kept elsewhere.")] = None,
) -> dict[str, object]:
    """Check all entries for gaps in numbers, wrong hashes and times, and against heads kept elsewhere."""
    known = [parsed_head(one) for one in head or ()]
    with service.database.reading() as database:
        found = verify(database, known)
    return {
        "is_whole": found.is_whole,
        "entries": found.count,
        "head": str(found.head) if found.head is not None else None,
        "faults": list(found.faults),
    }


def _all(service: Service, requested: AuditFilter) -> Iterator[ChainedEntry]:
    """Yield entries in batches: a long transaction of a slow reader would let the WAL grow."""
    after = 0
    while True:
        with service.database.reading() as database:
            found = list(entries(database, matching=requested, after_seq=after, most=_BATCH))
        yield from found
        if len(found) < _BATCH:
            return
        after = found[-1].seq
