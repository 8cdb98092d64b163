"""Tonight, the wall screen: what is changed and not restored, who must act, whether it will end in the window."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import RedirectResponse

from flashferry.service.api.depends import TheService
from flashferry.service.pages.frame import twin
from flashferry.store.status import read_status

router = APIRouter()


@router.get("/", include_in_schema=False)
def first() -> RedirectResponse:
    """Lead to Tonight."""
    return RedirectResponse("/tonight", 303)


@twin(router, "/tonight", "tonight.html")
def tonight(service: TheService) -> object:
    """Return what goes on now."""
    status = read_status(service.state)
    return {
        "runs": [
            {"run_id": run.run_id, "verb": run.verb, "state": run.state, "devices": len(run.devices)}
            for run in status.runs
        ]
    }
