"""Live state: streams of all runs and of one run's events, and the sites with agents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse

from flashferry.core.codec import to_json
from flashferry.service.api.depends import TheActor, TheService, TheZone
from flashferry.service.errors import Conflict, NotFound, listed
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.live.stream import Place, Streams, tail
from flashferry.service.run_visibility import sites_of
from flashferry.service.site_centre import centre_seen

router = APIRouter(prefix="/api/v1")
_MOST_RUNS = 20
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}


def snapshot_reader_of(request: Request) -> SnapshotReader:
    """Return the snapshot reader that all routes share."""
    found = request.app.state.reader
    assert isinstance(found, SnapshotReader)
    return found


@router.get("/live", response_class=StreamingResponse, responses=_STREAM)
async def live(
    request: Request, actor: TheActor, zone: TheZone, run: Annotated[list[str] | None, Query()] = None
) -> StreamingResponse:
    """Stream the live state once a second: first `whole`, then changes as `news` (docs/service.md).

    With `run=ID`, repeatable, the devices of these runs too; with `run=ID?QUERY` only those that the page of the run
    shows with that query, such as `page=2&sort=-rate` (percent-encode it). A stream ends after five minutes; reconnect
    to continue.
    """
    streams = request.app.state.streams
    assert isinstance(streams, Streams)
    runs = tuple(run or ())[:_MOST_RUNS]
    stream = streams.listen(sites_of(actor), runs, zone=zone)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)


@router.get("/runs/{run_id}/events", response_class=StreamingResponse, responses=_STREAM)
def events(
    run_id: str,
    request: Request,
    service: TheService,
    actor: TheActor,
    last_event_id: Annotated[str | None, Header()] = None,
    offset: Annotated[int, Query(ge=0, lt=1 << 60)] = 0,
) -> StreamingResponse:
    """Stream a run's events as server-sent events, one per complete line of its event file, unchanged (docs/events.md).

    The event id is the file's identifier plus the byte offset after the line; a client that sends `Last-Event-ID`
    continues there. The file of a resumed run is sent from its start. `end` follows the last event of a run that is
    over.
    """
    reader, sites = snapshot_reader_of(request), sites_of(actor)
    found = reader.run(run_id)
    if found is None or reader.read().seen_from(sites).run(run_id) is None:
        raise NotFound(f"there is no recent run {run_id!r}", hint=listed("runs"))
    if reader.events_of(found) is None:
        hint = "Runs started by the service write them; for others use the journal and the report"
        raise Conflict(f"run {run_id} writes no events that the service could read", hint=hint)
    stream = tail(reader, run_id, Place.of(last_event_id, offset), sites, stopping=service.stopping)
    return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)


@router.get("/sites", tags=["sites"])
def sites(service: TheService, actor: TheActor) -> dict[str, object]:
    """Return sites with their agents, as `flashferry sites list --no-ask --json` does; empty without a centre."""
    return {"sites": to_json(centre_seen(service, actor).sites)}
