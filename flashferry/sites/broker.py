"""Connect centre and agents by a broker, using Celery (`flashferry.sites.celery_app`).

The broker is not trusted: messages are signed JSON, checked by the receiver (`flashferry.sites.wire`). Handlers only
store a message and return, so that no message stays unacknowledged for as long as a copy takes.

Celery delivers at least once while the broker lives, and may lose messages in transit when either end is killed (a
Redis client removes a message from the list a moment before it records that). So a sender repeats a message until it is
answered, and the receiver recognises repeats by ID.

Redis and Valkey (`redis://`, `rediss://`) are tested; docs/sites.md has what RabbitMQ (`amqps://`) needs.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.extras import extra_hint
from flashferry.core.redaction import masked
from flashferry.sites.broker_settings import BrokerSettings, check_broker, tls_trouble

if TYPE_CHECKING:
    from flashferry.sites.celery_app import Handler, Worker

ORDER_TASK = "flashferry.sites.order"
WORD_TASK = "flashferry.sites.word"
CENTRE_QUEUE = "centre"
"""The queue of agents' words."""

_LOG = logging.getLogger("flashferry.sites")
_NUMBER = re.compile(r"^(?:\[Errno -?\d+\] |Error -?\d+ connecting to \S+\. )+")
"""Start of errors of redis-py and the system: an error number that the text after it repeats."""
_PLACE = re.compile(r" ?\(_ssl\.c:\d+\)")
_CONNECT_S = 10.0
_ENDS_WITHIN_S = 15.0
_CLOSES_WITHIN_S = 1.0


class BrokerUnreachable(FlashferryError):
    """Report that the broker does not accept messages; the sender keeps them."""

    kind: ClassVar[Kind] = Kind.BROKER_UNREACHABLE
    advice: ClassVar[str | None] = (
        "Check that the broker runs, the path to it, our user's password and rights there, and the TLS files"
    )


def site_queue(site: str) -> str:
    """Return the queue of a site's work: stage, sync, check, recover."""
    return f"site-{site}"


def control_queue(site: str) -> str:
    """Return the queue of orders that must not wait for work: pause, continue, stop, approve, acknowledge."""
    return f"site-{site}.control"


class Broker:
    """One end's connection to the broker: sends, and runs a worker in this process.

    Args:
        settings: The broker; checked by `check_broker`.
        owner: Our name there, one word (`centre`, `agent-ams`). Unacknowledged messages are kept under it, so it must
            be unique.

    Raises:
        ConfigInvalid: The settings are wrong, or Celery is not installed.
    """

    def __init__(self, settings: BrokerSettings, *, owner: str) -> None:
        check_broker(settings)
        try:
            # Late: Celery is an extra, and takes a second to import.
            from flashferry.sites import celery_app
        except ModuleNotFoundError:
            raise ConfigInvalid(
                "sites: expected the package celery, which is not installed",
                hint=extra_hint("sites"),
            ) from None
        self._celery = celery_app
        self._settings, self._owner = settings, owner
        self._app = celery_app.application(settings, owner)
        self._sends = threading.RLock()
        self._connection: Any = None
        self._channel: Any = None

    @property
    def has_claims(self) -> bool:
        """Return whether the broker supports claims (`redis`)."""
        return self._settings.is_redis

    def send_order(self, site: str, envelope: str, *, is_control: bool = False) -> None:
        """Send an order to a site's agent; it waits at the broker.

        Raises:
            BrokerUnreachable: The broker did not accept it.
        """
        self._send(ORDER_TASK, control_queue(site) if is_control else site_queue(site), envelope)

    def send_word(self, envelope: str) -> None:
        """Send a word to the centre; as `send_order`."""
        self._send(WORD_TASK, CENTRE_QUEUE, envelope)

    def waiting_words(self) -> int | None:
        """Return how many words wait for the centre; None if unknown.

        Raises:
            BrokerUnreachable: It is unreachable.
        """
        if not self._settings.is_redis:
            return None
        with self.redis() as client:
            return int(client.llen(CENTRE_QUEUE))

    @contextmanager
    def worker(
        self,
        queues: Sequence[str],
        task: str,
        handler: Handler,
        *,
        threads: int = 2,
        ends_within_s: float = _ENDS_WITHIN_S,
    ) -> Iterator[Worker]:
        """Run a worker in threads for a block; at the end, messages in the handler are finished.

        It connects in the background, and reconnects for as long as the broker is unreachable.

        Args:
            queues: The queues to read.
            task: `ORDER_TASK` or `WORD_TASK`; messages with another name are dropped.
            handler: Called from several threads.
            threads: Number of threads.
            ends_within_s: Time limit at the end. A worker blocked by a silent broker ends with the process; its
                messages are delivered again.
        """
        worker = self._celery.Worker(
            self._app, queues, task, handler, threads=threads, name=f"{self._owner}@flashferry"
        )
        worker.start()
        try:
            yield worker
        finally:
            worker.stop(ends_within_s)

    @contextmanager
    def redis(self) -> Iterator[Any]:
        """Yield a Redis client, for claims that expire; nothing else is sent meanwhile.

        Raises:
            BrokerUnreachable: It is unreachable, or is no Redis.
        """
        if not self._settings.is_redis:
            raise BrokerUnreachable(f"broker {self._settings.place}: expected Redis or Valkey, found another kind")
        with self._connected() as channel:
            yield channel.client

    def close(self) -> None:
        """Close the connections, without waiting for a blocked sender."""
        if self._sends.acquire(timeout=_CLOSES_WITHIN_S):
            try:
                self._disconnect()
            finally:
                self._sends.release()
        with suppress(Exception):
            self._app.close()

    def _send(self, task: str, queue: str, envelope: str) -> None:
        with self._connected() as channel:
            producer = self._app.amqp.Producer(channel, auto_declare=False)
            self._app.send_task(
                *(task, [envelope]),
                queue=self._celery.queue_of(queue),
                producer=producer,
                argsrepr="",
                kwargsrepr="",
                retry=False,
            )

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """Yield a channel of the one kept connection; after an error the next use opens another.

        Raises:
            BrokerUnreachable: The broker is unreachable.
        """
        with self._sends:
            try:
                if self._channel is None:
                    self._connection = self._app.connection_for_write(connect_timeout=_CONNECT_S)
                    self._channel = self._connection.channel()
                yield self._channel
            except self._celery.ERRORS as error:
                self._disconnect()
                raise unreachable(error, self._settings.place) from None

    def _disconnect(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.collect(socket_timeout=1.0)


def unreachable(error: Exception, place: str) -> BrokerUnreachable:
    """Convert a driver's error; `place`: host and port of the broker."""
    found = in_words(error)
    return BrokerUnreachable(f"broker {place}: {tls_trouble(found) or f'expected it to answer, found: {found}'}")


def in_words(error: Exception) -> str:
    """Return a driver's error text without secrets, error numbers, source positions and final dot."""
    text = _NUMBER.sub("", _PLACE.sub("", masked(str(error)))).rstrip(". ")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text or type(error).__name__
