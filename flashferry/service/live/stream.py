"""Server-sent event streams of the live state and of the events of a run."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo

from msgspec import Struct

from flashferry.model.states import RunState
from flashferry.monitor.events import Lines, lines_from
from flashferry.service.live.collect import Snapshot, SnapshotReader
from flashferry.service.live.presenters import (
    Board,
    DeviceQuery,
    device_page,
    news,
    run_board,
    sse,
    tonight_board,
    whole,
)
from flashferry.service.run_visibility import Sites, is_visible
from flashferry.store.service.database import moment

EVERY_S = 1.0
_LEAST_REST = 4.0
"""Reading takes at most a fifth of a processor: expensive snapshots are read less often."""
LIFE_S = 300.0
"""Duration of a stream; clients reconnect and are authorised again."""
TONIGHT = "tonight"


@dataclass(frozen=True, slots=True)
class _Key:
    """A channel: its subject, limited to some sites, with texts in a time zone.

    A subject is TONIGHT, a run, or a page of a run: `ID?page=2&sort=-rate`, which has the devices of that page alone.
    """

    sites: Sites
    name: str
    zone: tzinfo = UTC


@dataclass(slots=True)
class _Channel:
    """Last board of a channel; it is encoded when first needed."""

    board: Board = field(default_factory=dict)
    number: int = 0
    news: bytes = b""
    whole: bytes = b""
    head: Mapping[str, object] = field(default_factory=dict)

    def turn(self, board: Board, head: Mapping[str, object]) -> None:
        """Store the next board."""
        self.number += 1
        self.news = sse("news", self.number, {**head, "tables": news(self.board, board)})
        self.board, self.head, self.whole = board, head, b""

    def since(self, number: int) -> bytes:
        """Return the events that bring a client from board `number` up to date."""
        if number == self.number:
            return b""
        if number == self.number - 1 and number > 0:
            return self.news
        self.whole = self.whole or sse("whole", self.number, {**self.head, "tables": whole(self.board)})
        return self.whole


class Streams:
    """All live streams of a service, read at most every `every_s` seconds. For one event loop.

    `stopping` is set when the service ends.
    """

    def __init__(
        self,
        reader: SnapshotReader,
        site_names: Mapping[str, str],
        *,
        stopping: threading.Event | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._reader, self._site_names, self._every_s = reader, site_names, every_s
        self._stopping = stopping or threading.Event()
        self._channels: dict[_Key, _Channel] = {}
        self._requested: Counter[_Key] = Counter()
        self._turn = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None
        self._at, self._age_s, self._spent_s = "", 0.0, 0.0

    @property
    def listeners(self) -> int:
        """Return the number of connected clients."""
        return sum(count for key, count in self._requested.items() if key.name == TONIGHT)

    async def listen(
        self, sites: Sites, runs: tuple[str, ...] = (), *, zone: tzinfo = UTC, life_s: float = LIFE_S
    ) -> AsyncIterator[bytes]:
        """Yield live state as server-sent events for `life_s` seconds, about once a second.

        `sites` are those that the client may see, None: all; `runs` those whose devices it wants; `zone` is
        the time zone of texts.
        """
        keys = [_Key(sites, name, zone) for name in dict.fromkeys((TONIGHT, *runs))]
        self._requested.update(keys)
        until_s = time.monotonic() + life_s
        events_view: dict[_Key, int] = {}
        try:
            yield b"retry: 1000\n\n"
            while time.monotonic() < until_s and not self._stopping.is_set():
                turn = self._next_turn()
                if data := self._since(keys, events_view):
                    yield data
                await turn.wait()
        finally:
            self._leave(keys)

    def end(self) -> None:
        """End all streams; call it in their event loop after `stopping` is set."""
        self._turn.set()

    def _next_turn(self) -> asyncio.Event:
        if self._clock is None or self._clock.done():
            self._clock = asyncio.create_task(self._go_on())
        return self._turn

    def _since(self, keys: list[_Key], events_view: dict[_Key, int]) -> bytes:
        parts = []
        for key in keys:
            if (channel := self._channels.get(key)) is not None:
                parts.append(channel.since(events_view.get(key, 0)))
                events_view[key] = channel.number
        return b"".join(parts)

    def _leave(self, keys: list[_Key]) -> None:
        self._requested.subtract(keys)
        for key in keys:
            if self._requested[key] <= 0:
                del self._requested[key]
                self._channels.pop(key, None)

    async def _go_on(self) -> None:
        while self._requested:
            began_s = time.monotonic()
            requested = tuple(self._requested)
            boards = await asyncio.to_thread(self._boards, requested)
            for key, board in boards.items():
                if key in self._requested:
                    self._channels.setdefault(key, _Channel()).turn(board, self._head(key))
            before, self._turn = self._turn, asyncio.Event()
            before.set()
            await asyncio.sleep(max(0.0, began_s + self._every_s - time.monotonic(), _LEAST_REST * self._spent_s))

    def _boards(self, requested: tuple[_Key, ...]) -> dict[_Key, Board]:
        began_s = time.thread_time()
        snapshot = self._reader.read()
        self._at = moment(snapshot.at)
        self._age_s = max(0.0, (snapshot.at - snapshot.read_at).total_seconds())
        seen = {sites: snapshot.seen_from(sites) for sites in {key.sites for key in requested}}
        boards = {key: self._board(seen[key.sites].in_zone(key.zone), key.name) for key in requested}
        self._spent_s = time.thread_time() - began_s
        return boards

    def _board(self, snapshot: Snapshot, name: str) -> Board:
        if name == TONIGHT:
            return tonight_board(snapshot, self._site_names)
        run_id, is_page, query = name.partition("?")
        run = snapshot.run(run_id)
        if run is None:
            return {}
        if not is_page:
            return run_board(run, snapshot, self._site_names)
        shown = device_page(run, DeviceQuery.of(query))
        return run_board(run, snapshot, self._site_names, shown.rows, shown.total)

    def _head(self, key: _Key) -> dict[str, object]:
        return {"group": key.name, "at": self._at, "age_s": round(self._age_s, 1), "zone": str(key.zone)}


STILL_HERE_S = 15.0
"""After so long without a line a comment is sent, so that proxies keep the stream."""
_POLL_S = 0.5
_AT_ONCE_BYTES = 256 * 1024


class Place(Struct, frozen=True, kw_only=True):
    """Position in an event file: the file's identifier (empty: any) and the offset of the next line."""

    mark: str = ""
    offset: int = 0

    @classmethod
    def of(cls, event_id: str | None, offset: int) -> Place:
        """Return the position after an event id, else the given offset; an id that is not valid is ignored."""
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
        # Read the state before the file: the events of a run that is over are then complete.
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
            await asyncio.sleep(_POLL_S)


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
