"""What goes on as streams of server-sent events: looked at once a second, encoded once, sent to all who listen.

Each listener has channels: that of the wall screen and those of the runs that his pages show. He is first told all of a
channel, then what changed each second; one who reads too slowly to have every second is told all again instead. Nothing
is looked at while nobody listens.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from flashferry.service.live.collect import Looker, Scene
from flashferry.service.live.presenters import run_board, tonight_board
from flashferry.service.live.table_diff import Board, news, sse, whole
from flashferry.service.run_visibility import Sites
from flashferry.store.service.database import moment

EVERY_S = 1.0
_LEAST_REST = 4.0
"""A look that takes much of a processor is made the more rarely: it has a fifth of its time at most."""

LIFE_S = 300.0
"""So long a stream lasts; whoever listens connects again by himself, and is let in again or not."""

TONIGHT = "tonight"


@dataclass(frozen=True, slots=True)
class _Key:
    """A channel: what it tells of, and as seen from which sites."""

    sites: Sites
    name: str


@dataclass(slots=True)
class _Channel:
    """What a channel told last.

    Attributes:
        board: All of it.
        number: How often it was told.
        news: The last change, encoded.
        whole: All of it, encoded where somebody needed it.
        head: What stands around it.
    """

    board: Board = field(default_factory=dict)
    number: int = 0
    news: bytes = b""
    whole: bytes = b""
    head: Mapping[str, object] = field(default_factory=dict)

    def turn(self, board: Board, head: Mapping[str, object]) -> None:
        """Take the next board in."""
        self.number += 1
        self.news = sse("news", self.number, {**head, "tables": news(self.board, board)})
        self.board, self.head, self.whole = board, head, b""

    def since(self, number: int) -> bytes:
        """Return what somebody lacks who has heard it up to a number."""
        if number == self.number:
            return b""
        if number == self.number - 1 and number > 0:
            return self.news
        self.whole = self.whole or sse("whole", self.number, {**self.head, "tables": whole(self.board)})
        return self.whole


class Streams:
    """All streams of a service. Its coroutines belong to one event loop.

    Args:
        looker: Looks.
        site_names: What sites are called on pages.
        stopping: Set where the service ends, and with it all streams.
        every_s: How often; the least time from one look to the next.
    """

    def __init__(
        self,
        looker: Looker,
        site_names: Mapping[str, str],
        *,
        stopping: threading.Event | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._looker, self._site_names, self._every_s = looker, site_names, every_s
        self._stopping = stopping or threading.Event()
        self._channels: dict[_Key, _Channel] = {}
        self._wanted: Counter[_Key] = Counter()
        self._turn = asyncio.Event()
        self._clock: asyncio.Task[None] | None = None
        self._at, self._age_s, self._spent_s = "", 0.0, 0.0

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(count for key, count in self._wanted.items() if key.name == TONIGHT)

    async def listen(self, sites: Sites, runs: tuple[str, ...] = (), *, life_s: float = LIFE_S) -> AsyncIterator[bytes]:
        """Yield what goes on, as server-sent events, about once a second.

        Args:
            sites: The sites that the listener may see; None: all.
            runs: Runs whose devices he wants to be told of, too.
            life_s: So long, in seconds.
        """
        keys = [_Key(sites, TONIGHT), *(_Key(sites, run_id) for run_id in dict.fromkeys(runs))]
        self._wanted.update(keys)
        until_s = time.monotonic() + life_s
        heard: dict[_Key, int] = {}
        try:
            yield b"retry: 1000\n\n"
            while time.monotonic() < until_s and not self._stopping.is_set():
                turn = self._next_turn()
                if data := self._since(keys, heard):
                    yield data
                await turn.wait()
        finally:
            self._leave(keys)

    def end(self) -> None:
        """Have all streams end at once; called in their event loop once `stopping` is set."""
        self._turn.set()

    def _next_turn(self) -> asyncio.Event:
        if self._clock is None or self._clock.done():
            self._clock = asyncio.create_task(self._go_on())
        return self._turn

    def _since(self, keys: list[_Key], heard: dict[_Key, int]) -> bytes:
        parts = []
        for key in keys:
            if (channel := self._channels.get(key)) is not None:
                parts.append(channel.since(heard.get(key, 0)))
                heard[key] = channel.number
        return b"".join(parts)

    def _leave(self, keys: list[_Key]) -> None:
        self._wanted.subtract(keys)
        for key in keys:
            if self._wanted[key] <= 0:
                del self._wanted[key]
                self._channels.pop(key, None)

    async def _go_on(self) -> None:
        while self._wanted:
            began_s = time.monotonic()
            wanted = tuple(self._wanted)
            boards = await asyncio.to_thread(self._boards, wanted)
            for key, board in boards.items():
                if key in self._wanted:
                    self._channels.setdefault(key, _Channel()).turn(board, self._head(key))
            before, self._turn = self._turn, asyncio.Event()
            before.set()
            await asyncio.sleep(max(0.0, began_s + self._every_s - time.monotonic(), _LEAST_REST * self._spent_s))

    def _boards(self, wanted: tuple[_Key, ...]) -> dict[_Key, Board]:
        began_s = time.thread_time()
        scene = self._looker.look()
        self._at = moment(scene.at)
        self._age_s = max(0.0, (scene.at - scene.read_at).total_seconds())
        seen = {sites: scene.seen_from(sites) for sites in {key.sites for key in wanted}}
        boards = {key: self._board(seen[key.sites], key.name) for key in wanted}
        self._spent_s = time.thread_time() - began_s
        return boards

    def _board(self, scene: Scene, name: str) -> Board:
        if name == TONIGHT:
            return tonight_board(scene, self._site_names)
        run = scene.run(name)
        return {} if run is None else run_board(run, scene, self._site_names)

    def _head(self, key: _Key) -> dict[str, object]:
        return {"group": key.name, "at": self._at, "age_s": round(self._age_s, 1)}
