"""Read agents' words from the broker in one thread, and store many in one transaction.

Words are removed from the queue at once: if the centre dies, agents send them again, because they keep each word until
it is acknowledged. A Celery worker, which acknowledges each message after its task, took two words in two seconds; this
takes hundreds in one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from flashferry.core.redaction import masked
from flashferry.sites.broker import CENTRE_QUEUE, Broker, BrokerUnreachable, unreachable

_LOG = logging.getLogger("flashferry.sites.centre")
_WAIT_S = 1.0
_MORE_S = 0.05
"""How long to wait for another word before those received are stored."""
_MOST = 500
_PAUSES_S = (0.5, 1.0, 2.0, 5.0)
_ENDS_WITHIN_S = 15.0
_REPORTS_AGAIN_S = 60.0
Take = Callable[[Sequence[str]], None]
"""Stores envelopes."""


class ListeningBroker(Broker):
    """The broker connection of the centre, which also receives words."""

    @contextmanager
    def listening(self, take: Take) -> Iterator[None]:
        """Receive words in a thread for a block; reconnects if the broker is unreachable.

        Args:
            take: Called with envelopes, from one thread. Its errors are logged; agents send the words again.
        """
        reader = _QueueReader(self._app, take, self._settings.place)
        reader.start()
        try:
            yield
        finally:
            reader.stop()


class _QueueReader:
    """Read the centre's queue; `place` is the broker's host and port."""

    def __init__(self, app: Any, take: Take, place: str) -> None:
        self._app, self._take, self._place = app, take, place
        self._end = threading.Event()
        self._reported_s = -_REPORTS_AGAIN_S
        self._found: list[str] = []
        self._thread = threading.Thread(target=self._listen, name="centre-reader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join(_ENDS_WITHIN_S)

    def _listen(self) -> None:
        tries = 0
        while not self._end.is_set():
            began_s = time.monotonic()
            try:
                self._read()
            except Exception as error:  # noqa: BLE001 -- whatever a driver raises: it is tried again
                self._keep()
                tries = 0 if time.monotonic() - began_s > _PAUSES_S[-1] else tries + 1
                self._report(unreachable(error, self._place), is_first=tries <= 1)
                self._end.wait(_PAUSES_S[min(tries, len(_PAUSES_S) - 1)])

    def _report(self, error: BrokerUnreachable, *, is_first: bool) -> None:
        """Log why nothing can be read, now and then; not the first time, which a sending command reports."""
        now_s = time.monotonic()
        if not is_first and now_s - self._reported_s >= _REPORTS_AGAIN_S:
            self._reported_s = now_s
            _LOG.warning("%s; it is tried again", error.message)

    def _read(self) -> None:
        """Read until the end, or until the connection breaks."""
        kombu: Any = import_module("kombu")
        exchange = kombu.Exchange("", type="direct")
        queue = kombu.Queue(CENTRE_QUEUE, exchange=exchange, routing_key=CENTRE_QUEUE, durable=True)
        # At the end a word may be on its way that is not taken any more: kombu puts it back, and logs that.
        logging.getLogger("kombu.transport.virtual.base").setLevel(logging.ERROR)
        with (
            self._app.connection_for_read() as connection,
            connection.channel() as channel,
            kombu.Consumer(channel, [queue], on_message=self._on_message, no_ack=True, accept=["json"]),
        ):
            while not self._end.is_set():
                self._drain(connection)
                self._keep()

    def _drain(self, connection: Any) -> None:
        """Receive what is there, waiting a while for the first word."""
        wait_s = _WAIT_S
        while len(self._found) < _MOST:
            try:
                connection.drain_events(timeout=wait_s)
            except TimeoutError:
                return
            wait_s = _MORE_S

    def _on_message(self, message: Any) -> None:
        with suppress(Exception):
            content = message.decode()
            arguments: Any = content[0]
            if len(arguments) == 1 and isinstance(arguments[0], str):
                self._found.append(arguments[0])

    def _keep(self) -> None:
        found, self._found = self._found, []
        if not found:
            return
        try:
            self._take(found)
        except Exception as error:  # noqa: BLE001 -- the thread lives on, and the words come again
            _LOG.error("%d words could not be kept, they come again: %s", len(found), masked(str(error)))
