"""The events of one run as a stream: every whole line of its file from an offset on, as long as the run goes on."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from flashferry.monitor.event_reader import Lines, lines_from
from flashferry.service.live.collect import Looker
from flashferry.service.live.stream import LIFE_S
from flashferry.service.run_visibility import Sites, is_seen
from flashferry.store.run_lock import RunState

STILL_HERE_S = 15.0
"""After so long without a line a comment is sent, so that no proxy takes the stream for dead."""

_LOOK_S = 0.5
_AT_ONCE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file of events.

    Attributes:
        mark: Which file; empty: whichever there is.
        offset: Where the next line begins.
    """

    mark: str = ""
    offset: int = 0

    @classmethod
    def of(cls, event_id: str | None, offset: int) -> Place:
        """Return the place behind an event, or else at an offset; an id that is none of ours is not heeded."""
        mark, _, number = (event_id or "").rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < 18:
            return cls(mark=mark, offset=int(number))
        return cls(offset=offset)


async def tail(
    looker: Looker, run_id: str, place: Place, sites: Sites, *, stopping: threading.Event, life_s: float = LIFE_S
) -> AsyncIterator[bytes]:
    """Yield the events of a run as server-sent events.

    Args:
        looker: Knows where the run writes them, and whether it goes on.
        run_id: The run.
        place: Where to begin.
        sites: Only what concerns these sites, or the run itself, is told; None: all.
        stopping: Set where the service ends.
        life_s: So long, in seconds.
    """
    began_s = said_s = time.monotonic()
    yield b"retry: 1000\n\n"
    while (now_s := time.monotonic()) - began_s < life_s and not stopping.is_set():
        # Looked at before the file is read: what a run writes last is there when it is over.
        is_over, lines = await asyncio.to_thread(_read, looker, run_id, place)
        place = Place(mark=lines.mark or place.mark, offset=lines.end)
        if data := b"".join(_told(lines, sites)):
            yield data
            said_s = now_s
        elif now_s - said_s > STILL_HERE_S:
            yield b": still here\n\n"
            said_s = now_s
        if not lines.data:
            if is_over:
                yield f"event: end\ndata: {json.dumps({'run_id': run_id})}\n\n".encode()
                return
            await asyncio.sleep(_LOOK_S)


def _read(looker: Looker, run_id: str, place: Place) -> tuple[bool, Lines]:
    run = looker.run(run_id)
    is_over = run is None or run.status.state is not RunState.ALIVE
    path = None if run is None else looker.events_of(run)
    if path is None:
        return is_over, Lines(data=b"", start=place.offset, mark="")
    return is_over, lines_from(path, place.offset, mark=place.mark, most_bytes=_AT_ONCE_BYTES)


def _told(lines: Lines, sites: Sites) -> Iterator[bytes]:
    for line, end in lines.each():
        if sites is None or _concerns(line, sites):
            yield b"id: %s-%d\ndata: %s\n\n" % (lines.mark.encode(), end, line)


def _concerns(line: bytes, sites: frozenset[str]) -> bool:
    try:
        found = json.loads(line)
    except ValueError:
        return False
    if not isinstance(found, dict):
        return False
    return is_seen(found.get("site"), sites) or (found.get("host") is None and found.get("site") is None)
