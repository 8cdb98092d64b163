"""What a run is told, sent by a thread of its own: neither the server nor other runs wait for one that reads late."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from flashferry.depot.messages import encode
from flashferry.fileserver.wire import Happened, ProgressUpdate, Pulses

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from flashferry.depot.messages import Greeting, Saying
    from flashferry.fileserver import ServerEvent

MOST_UNREAD = 50_000
"""Who leaves more messages unread has stopped reading: progress, of which the newest counts, is no part of them."""


class SendQueue:
    """The messages to one run. Methods may be called from any thread, and return at once.

    Args:
        connection: The line to it.
        give_up: Called on a thread of ours where it is gone or has stopped reading, more than once perhaps.
    """

    def __init__(self, connection: Connection, give_up: Callable[[], None]) -> None:
        self._connection, self._give_up = connection, give_up
        self._news = threading.Condition()
        self._messages: deque[Saying | Greeting] = deque()
        # The newest of each ticket.
        self._pulses: dict[str, ProgressUpdate] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._send, name="depot-outbox", daemon=True)
        self._thread.start()

    def say(self, message: Saying) -> None:
        """Send a message, behind all progress that came before it."""
        with self._news:
            if self._is_closed:
                return
            self._gather()
            self._messages.append(message)
            is_too_much = len(self._messages) > MOST_UNREAD
            self._news.notify()
        if is_too_much:
            # Not here: who tells us may hold what it takes to let a run go.
            threading.Thread(target=self._give_up, name="depot-give-up", daemon=True).start()

    def tell(self, event: ServerEvent) -> None:
        """Send an event; of mere progress only the newest, where the run reads late."""
        pulse = ProgressUpdate.of(event)
        if pulse is None:
            self.say(Happened(event=event))
            return
        with self._news:
            self._pulses[pulse.now.ticket_id] = pulse
            self._news.notify()

    def close(self) -> None:
        """Send nothing more; what waits is dropped."""
        with self._news:
            self._is_closed = True
            self._messages.clear()
            self._pulses.clear()
            self._news.notify()

    def join(self) -> None:
        """Wait until nothing is being sent, behind `close`."""
        self._thread.join()

    def _gather(self) -> None:
        if self._pulses:
            self._messages.append(Pulses(pulses=list(self._pulses.values())))
            self._pulses.clear()

    def _send(self) -> None:
        with suppress(OSError):
            while (message := self._next()) is not None:
                self._connection.send_bytes(encode(message))
            return
        self._give_up()

    def _next(self) -> Saying | Greeting | None:
        with self._news:
            while not (self._messages or self._pulses or self._is_closed):
                self._news.wait()
            if self._is_closed:
                return None
            if not self._messages:
                self._gather()
            return self._messages.popleft()
