"""Audit pages: list with filter, export, verification."""

from __future__ import annotations

import json
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query

from flashferry.core.errors import ConfigInvalid
from flashferry.core.redaction import json_text
from flashferry.service.api.depends import TheService
from flashferry.service.audit.reading import OUTCOMES, audit_filter, facts_of, verify
from flashferry.service.pages.frame import view_page
from flashferry.store.service.audit import AuditFilter, ChainedEntry, entries, last

router = APIRouter()
MOST = 100
_TONES = {"asked": "", "done": "", "refused": "warn", "failed": "bad"}
_Text = Annotated[str, Query(max_length=200)]


def asked(
    since: _Text = "",
    until: _Text = "",
    actor: _Text = "",
    action: _Text = "",
    object_: Annotated[str, Query(alias="object", max_length=200)] = "",
    outcome: _Text = "",
) -> dict[str, str]:
    """Return the filter as the user typed it."""
    given = {"since": since, "until": until, "actor": actor, "action": action, "object": object_, "outcome": outcome}
    return {name: value.strip() for name, value in given.items()}


RequestAuth = Annotated[dict[str, str], Depends(asked)]


# A page of its own, because it reads every entry.
@view_page(router, "/audit/verify", "audit_verify.html")
def verified(service: TheService) -> object:
    """Verify all entries."""
    with service.database.reading() as database:
        found = verify(database)
    return {
        "is_whole": found.is_whole,
        "entries": found.count,
        "head": str(found.head) if found.head is not None else "",
        "faults": list(found.faults),
    }


@view_page(router, "/audit", "audit.html")
def audit(service: TheService, asked: RequestAuth, before: Annotated[int | None, Query(ge=1)] = None) -> object:
    """Return a page of entries, newest first."""
    requested, trouble = _requested(asked)
    with service.database.reading() as database:
        found = list(entries(database, matching=requested, before_seq=before, is_newest_first=True, most=MOST + 1))
        newest = last(database)
    given = {name: value for name, value in asked.items() if value}
    older = {**given, "before": str(found[MOST - 1].seq)} if len(found) > MOST else None
    return {
        "asked": asked,
        "trouble": trouble,
        "entries": [_details(one) for one in found[:MOST]],
        "older": urlencode(older) if older is not None else "",
        "query": urlencode(given),
        "count": newest.seq if newest is not None else 0,
        "outcomes": list(OUTCOMES),
    }


def _requested(asked: dict[str, str]) -> tuple[AuditFilter, str]:
    """Return the filter and an empty text; or, if it is not valid, a filter that matches all and the reason."""
    values = {"object_" if name == "object" else name: value for name, value in asked.items()}
    try:
        return audit_filter(**values), ""
    except ConfigInvalid as error:
        return AuditFilter(), str(error)


def _details(chained: ChainedEntry) -> dict[str, object]:
    entry = chained.entry
    return facts_of(chained) | {
        "tone": _TONES.get(entry.outcome, ""),
        "before": _lines(entry.before),
        "after": _lines(entry.after),
    }


def _lines(text: str) -> list[str]:
    """Return JSON text as lines, one value each."""
    if not text:
        return []
    try:
        return json_text(json.loads(text), indent=1).splitlines()
    except ValueError:
        return [text]
