"""Sites API: sites with agents, read from the centre's ledger and settings; no agent is contacted."""

from __future__ import annotations

from fastapi import APIRouter

from flashferry.core.codec import to_json
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.site_centre import centre_seen

router = APIRouter(prefix="/api/v1", tags=["sites"])


@router.get("/sites")
def sites(service: TheService, actor: TheActor) -> dict[str, object]:
    """Return sites with their agents, as `flashferry sites list --no-ask --json` does; empty without a centre."""
    return {"sites": to_json(centre_seen(service, actor).sites)}
