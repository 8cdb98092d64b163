"""The events of one run as a stream: every whole line of its file from an offset on, until the run is over."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from flashferry.monitor.event_reader import Lines, lines_from
from flashferry.service.live.collect import SnapshotReader
from flashferry.service.live.stream import LIFE_S
from flashferry.service.run_visibility import Sites, is_visible
from flashferry.store.run_lock import RunState

STILL_HERE_S = 15.0
"""After so long without a line a comment is sent, so that proxies keep the stream."""

_LOOK_S = 0.5
_AT_ONCE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file of events: mark of the file, empty for any, and offset of the next line."""

    mark: str = ""
    offset: int = 0

    @classmethod
    def of(cls, event_id: str | None, offset: int) -> Place:
        """Return the place after an event, or else at an offset; unknown event ids are ignored."""
        mark, _, number = (event_id or "").rpartition("-")
        if number.isascii() and number.isdigit() and len(number) < 18:
            return cls(mark=mark, offset=int(number))
        return cls(offset=offset)


async def tail(
    reader: SnapshotReader,
    run_id: str,
    place: Place,
    sites: Sites,
    *,
    stopping: threading.Event,
    life_s: float = LIFE_S,
) -> AsyncIterator[bytes]:
    """Yield the events of a run at some sites (None: all) as server-sent events for `life_s` seconds."""
    began_s = said_s = time.monotonic()
    yield b"retry: 1000\n\n"
    while (now_s := time.monotonic()) - began_s < life_s and not stopping.is_set():
        # Looked at before the file is read: what a run writes last is there when it is over.
        is_over, lines = await asyncio.to_thread(_read, reader, run_id, place)
        place = Place(mark=lines.mark or place.mark, offset=lines.end)
        if data := b"".join(_details(lines, sites)):
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


def _read(reader: SnapshotReader, run_id: str, place: Place) -> tuple[bool, Lines]:
    run = reader.run(run_id)
    is_over = run is None or run.status.state is not RunState.ALIVE
    path = None if run is None else reader.events_of(run)
    if path is None:
        return is_over, Lines(data=b"", start=place.offset, mark="")
    return is_over, lines_from(path, place.offset, mark=place.mark, most_bytes=_AT_ONCE_BYTES)


def _details(lines: Lines, sites: Sites) -> Iterator[bytes]:
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
    return is_visible(found.get("site"), sites) or (found.get("host") is None and found.get("site") is None)
