"""The wall screen `/tonight`: unrestored devices, items that need attention, and whether the runs end in time."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import TheActor, TheService, TheZone
from flashferry.service.api.live import snapshot_reader_of
from flashferry.service.live.presenters import action_items, current_runs, tonight_board
from flashferry.service.pages.frame import view_page
from flashferry.service.pages.runs import figures_of
from flashferry.service.run_visibility import sites_of
from flashferry.store.service.database import moment

router = APIRouter()


@router.get("/", include_in_schema=False)
def first() -> RedirectResponse:
    """Redirect to the wall screen."""
    return RedirectResponse("/tonight", 303)


@view_page(router, "/tonight", "tonight.html")
def tonight(request: Request, service: TheService, actor: TheActor, zone: TheZone) -> object:
    """Return the current state as values and as shown."""
    snapshot = snapshot_reader_of(request).read().seen_from(sites_of(actor)).in_zone(zone)
    return {
        "at": moment(snapshot.at),
        "read_at": moment(snapshot.read_at),
        "trouble": snapshot.trouble,
        "needs": action_items(snapshot),
        "lost": snapshot.lost,
        "current": [one.run_id for one in current_runs(snapshot)],
        "runs": [figures_of(one) for one in snapshot.tonight],
        "shown": tonight_board(snapshot, service.settings.site_names),
        "is_new": not snapshot.runs and not snapshot.lost and not snapshot_reader_of(request).identifiers(),
    }
