"""Live state as server-sent events: read once a second, encoded once, sent to all clients.

Each client has channels: the wall screen, and the runs that its pages show. It first receives all of a channel, then
the changes of each second; a slow client receives all again. Nothing is read without clients.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from flashferry.service.live.collect import Snapshot, SnapshotReader
from flashferry.service.live.presenters import run_board, tonight_board
from flashferry.service.live.table_diff import Board, news, sse, whole
from flashferry.service.run_visibility import Sites
from flashferry.store.service.database import moment

EVERY_S = 1.0
_LEAST_REST = 4.0
"""Reading takes at most a fifth of a processor: expensive snapshots are read less often."""

LIFE_S = 300.0
"""Duration of a stream; clients reconnect and are authorised again."""

TONIGHT = "tonight"


@dataclass(frozen=True, slots=True)
class _Key:
    """A channel: its subject, limited to some sites."""

    sites: Sites
    name: str


@dataclass(slots=True)
class _Channel:
    """Last state of a channel, encoded when needed."""

    board: Board = field(default_factory=dict)
    number: int = 0
    news: bytes = b""
    whole: bytes = b""
    head: Mapping[str, object] = field(default_factory=dict)

    def turn(self, board: Board, head: Mapping[str, object]) -> None:
        """Take the next state."""
        self.number += 1
        self.news = sse("news", self.number, {**head, "tables": news(self.board, board)})
        self.board, self.head, self.whole = board, head, b""

    def since(self, number: int) -> bytes:
        """Return what a client lacks that has the state of a number."""
        if number == self.number:
            return b""
        if number == self.number - 1 and number > 0:
            return self.news
        self.whole = self.whole or sse("whole", self.number, {**self.head, "tables": whole(self.board)})
        return self.whole


class Streams:
    """All streams of a service. For one event loop.

    Args:
        reader: Reads snapshots.
        site_names: Display names of sites.
        stopping: Set when the service ends.
        every_s: Least seconds from one reading to the next.
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
        """Number of clients."""
        return sum(count for key, count in self._requested.items() if key.name == TONIGHT)

    async def listen(self, sites: Sites, runs: tuple[str, ...] = (), *, life_s: float = LIFE_S) -> AsyncIterator[bytes]:
        """Yield live state as server-sent events for `life_s` seconds, about once a second.

        `sites` are those that the client may see, None: all; `runs` those whose devices it wants.
        """
        keys = [_Key(sites, TONIGHT), *(_Key(sites, run_id) for run_id in dict.fromkeys(runs))]
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
        """End all streams; called in their event loop once `stopping` is set."""
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
        boards = {key: self._board(seen[key.sites], key.name) for key in requested}
        self._spent_s = time.thread_time() - began_s
        return boards

    def _board(self, snapshot: Snapshot, name: str) -> Board:
        if name == TONIGHT:
            return tonight_board(snapshot, self._site_names)
        run = snapshot.run(name)
        return {} if run is None else run_board(run, snapshot, self._site_names)

    def _head(self, key: _Key) -> dict[str, object]:
        return {"group": key.name, "at": self._at, "age_s": round(self._age_s, 1)}
