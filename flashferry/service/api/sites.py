"""Sites that work for themselves, for programs: their agents, releases, clocks, and what their depots have.

Read from the centre's ledger and its settings in the state folder; no agent is asked. What keeps the ledger fresh is a
command of the centre that listens: `flashferry sites listen`, or a run that is followed. Their page is at `/sites`.
"""

from __future__ import annotations

from fastapi import APIRouter

from flashferry.core.codec import to_json
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.site_centre import centre_seen

router = APIRouter(prefix="/api/v1", tags=["sites"])


@router.get("/sites")
def sites(service: TheService, actor: TheActor) -> dict[str, object]:
    """Tell sites with their agents, as `flashferry sites list --no-ask --json` has them; none without a centre."""
    return {"sites": to_json(centre_seen(service, actor).sites)}
