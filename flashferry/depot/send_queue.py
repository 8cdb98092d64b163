"""The messages to one run, sent by a thread of its own: neither the server nor other runs wait for a slow reader."""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from flashferry.fileserver.wire import EventMessage, ProgressUpdate, ProgressUpdates, encode

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from flashferry.fileserver import ServerEvent
    from flashferry.fileserver.wire import Message

MOST_UNREAD = 50_000
"""A run that leaves more messages unread has stopped reading; progress, of which only the newest counts, is not among
them."""


class SendQueue:
    """The messages to one run. Methods may be called from any thread, and return at once.

    Args:
        connection: The connection to it.
        give_up: Called on a thread of ours where it has gone or stopped reading; perhaps more than once.
    """

    def __init__(self, connection: Connection, give_up: Callable[[], None]) -> None:
        self._connection, self._give_up = connection, give_up
        self._news = threading.Condition()
        self._messages: deque[Message] = deque()
        # The newest of each ticket.
        self._updates: dict[str, ProgressUpdate] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="depot-queue", daemon=True)
        self._thread.start()

    def send(self, message: Message) -> None:
        """Send a message, after all progress that came before it."""
        with self._news:
            if self._is_closed:
                return
            self._gather()
            self._messages.append(message)
            is_too_much = len(self._messages) > MOST_UNREAD
            self._news.notify()
        if is_too_much:
            # Not here: the caller may hold a lock that the end of a session needs.
            threading.Thread(target=self._give_up, name="depot-give-up", daemon=True).start()

    def send_event(self, event: ServerEvent) -> None:
        """Send an event; of progress only the newest, where the run reads late."""
        update = ProgressUpdate.of(event)
        if update is None:
            self.send(EventMessage(event=event))
            return
        with self._news:
            self._updates[update.now.ticket_id] = update
            self._news.notify()

    def close(self) -> None:
        """Send nothing more; queued messages are dropped."""
        with self._news:
            self._is_closed = True
            self._messages.clear()
            self._updates.clear()
            self._news.notify()

    def join(self) -> None:
        """Wait until nothing is being sent, after `close`."""
        self._thread.join()

    def _gather(self) -> None:
        if self._updates:
            self._messages.append(ProgressUpdates(updates=list(self._updates.values())))
            self._updates.clear()

    def _run(self) -> None:
        with suppress(OSError):
            while (message := self._next()) is not None:
                self._connection.send_bytes(encode(message))
            return
        self._give_up()

    def _next(self) -> Message | None:
        with self._news:
            while not (self._messages or self._updates or self._is_closed):
                self._news.wait()
            if self._is_closed:
                return None
            if not self._messages:
                self._gather()
            return self._messages.popleft()
