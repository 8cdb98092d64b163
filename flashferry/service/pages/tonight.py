"""Tonight, the wall screen: what is changed and not restored, who must act, whether it will end in the window."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.api.live import looker_of
from flashferry.service.live.action_items import needs_of
from flashferry.service.live.presenters import current_runs, tonight_board
from flashferry.service.pages.frame import view_page
from flashferry.service.pages.runs import figures_of
from flashferry.service.run_visibility import sites_of
from flashferry.store.service.database import moment

router = APIRouter()


@router.get("/", include_in_schema=False)
def first() -> RedirectResponse:
    """Lead to Tonight."""
    return RedirectResponse("/tonight", 303)


@view_page(router, "/tonight", "tonight.html")
def tonight(request: Request, service: TheService, actor: TheActor) -> object:
    """Return what goes on now: figures, and the same as the page shows it."""
    scene = looker_of(request).look().seen_from(sites_of(actor))
    return {
        "at": moment(scene.at),
        "read_at": moment(scene.read_at),
        "trouble": scene.trouble,
        "needs": needs_of(scene),
        "lost": scene.lost,
        "current": [one.run_id for one in current_runs(scene)],
        "runs": [figures_of(one) for one in scene.tonight],
        "shown": tonight_board(scene, service.settings.site_names),
        "is_new": not scene.runs and not scene.lost and not looker_of(request).identifiers(),
    }
