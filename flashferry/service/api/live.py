"""What goes on, as streams: the state of all once a second, and the events of a run from any offset."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse

from flashferry.service.errors import Conflict, NotFound, listed
from flashferry.service.api.depends import TheActor, TheService
from flashferry.service.live.collect import Looker
from flashferry.service.live.stream import Streams
from flashferry.service.live.tail import Place, tail
from flashferry.service.run_visibility import sites_of

router = APIRouter(prefix="/api/v1")

_MOST_RUNS = 20
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def looker_of(request: Request) -> Looker:
    """Return what looks at all that goes on, for all routes and pages together."""
    found = request.app.state.looker
    assert isinstance(found, Looker)
    return found


@router.get("/live", response_class=StreamingResponse, responses=_STREAM)
async def live(
    request: Request, actor: TheActor, run: Annotated[list[str] | None, Query()] = None
) -> StreamingResponse:
    """Stream the state of all once a second: `whole` first, then `news`, as docs/service.md has them.

    With `run=ID`, also more than once, the devices of these runs are told, too. A stream ends after five minutes;
    whoever connects again is told all anew.
    """
    streams = request.app.state.streams
    assert isinstance(streams, Streams)
    runs = tuple(run or ())[:_MOST_RUNS]
    return StreamingResponse(streams.listen(sites_of(actor), runs), media_type="text/event-stream", headers=_HEADERS)


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_STREAM)
def events(
    run_id: str,
    request: Request,
    service: TheService,
    actor: TheActor,
    last_event_id: Annotated[str | None, Header()] = None,
    offset: Annotated[int, Query(ge=0, lt=1 << 60)] = 0,
) -> StreamingResponse:
    """Stream the events of a run, each line of its file as it is (docs/events.md), half ones never.

    An event's id is the file's mark and the offset behind the line; `Last-Event-ID` goes on there, without gap or
    repeat. Another file, that of a run gone on with, is told from its beginning. `end` closes the events of a run that
    is over.
    """
    looker, sites = looker_of(request), sites_of(actor)
    found = looker.run(run_id)
    if found is None or looker.look().seen_from(sites).run(run_id) is None:
        raise NotFound(f"there is no run {run_id!r} of late", hint=listed("runs"))
    if looker.events_of(found) is None:
        hint = "Runs that the service begins write them; of others the journal and the report tell"
        raise Conflict(f"run {run_id} writes no events that the service could read", hint=hint)
    stream = tail(looker, run_id, Place.of(last_event_id, offset), sites, stopping=service.stopping)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)
