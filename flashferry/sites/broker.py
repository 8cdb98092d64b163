"""The broker between centre and agents, by Celery (`flashferry.sites.celery_app`), typed for all others.

Nothing here trusts the broker: messages are JSON, signed, and checked by the receiver
(`flashferry.sites.wire`). What goes over it is small and soon done: a handler puts what came on its own disk and
returns, so that no message stays in the broker's hands for as long as a copy takes.

Celery delivers at least once as long as the broker lives, and may lose what was on its way when either end was killed
(a client of Redis has taken a message out of the list a moment before it notes so). So a sender repeats a message
until its answer comes, and the receiver knows a repeat by its id.

Redis and Valkey (`redis://`, `rediss://`) are tried; what RabbitMQ (`amqps://`) needs is in docs/sites.md.
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
"""Where agents send their words."""

_LOG = logging.getLogger("flashferry.sites")
_NUMBER = re.compile(r"^(?:\[Errno -?\d+\] |Error -?\d+ connecting to \S+\. )+")
"""How redis-py and the system begin what they report: by a number that says the same as the words after it."""
_PLACE = re.compile(r" ?\(_ssl\.c:\d+\)")
_CONNECT_S = 10.0
_ENDS_WITHIN_S = 15.0
_CLOSES_WITHIN_S = 1.0


class BrokerUnreachable(FlashferryError):
    """The broker does not take what is sent; what was to be sent is kept by the sender."""

    kind: ClassVar[Kind] = Kind.BROKER_UNREACHABLE
    advice: ClassVar[str | None] = (
        "Check that the broker runs, the path to it, our user's password and rights there, and the TLS files"
    )


def site_queue(site: str) -> str:
    """Return the queue of a site's work: stage, sync, look, recover."""
    return f"site-{site}"


def control_queue(site: str) -> str:
    """Return the queue of what must not wait behind work: pause, continue, stop, approve, acknowledge."""
    return f"site-{site}.control"


class Broker:
    """One end's connection to the broker: sends, and runs a worker in this process.

    Args:
        settings: Where it is; checked by `check_broker`.
        owner: Who we are there, one word (`centre`, `agent-ams`): what we have taken and not yet acknowledged is kept
            under this name, so no two ends may have the same.

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
        """Return whether it is of a kind at which claims can be made (`redis`)."""
        return self._settings.is_redis

    def send_order(self, site: str, envelope: str, *, is_control: bool = False) -> None:
        """Send an order to a site's agent; it waits at the broker until it is taken.

        Raises:
            BrokerUnreachable: The broker did not take it.
        """
        self._send(ORDER_TASK, control_queue(site) if is_control else site_queue(site), envelope)

    def send_word(self, envelope: str) -> None:
        """Send a word to the centre; as `send_order`."""
        self._send(WORD_TASK, CENTRE_QUEUE, envelope)

    def waiting_words(self) -> int | None:
        """Return how many words wait at the broker for the centre to take them; None where it is unknown.

        Raises:
            BrokerUnreachable: It is away.
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
        """Have a handler called with what comes, in threads of this process, for the time of a block.

        It connects in the background, again and again for as long as the broker is away. At the end what is in the
        handler's hands is finished.

        Args:
            queues: The queues to read.
            task: `ORDER_TASK` or `WORD_TASK`; what comes under another name is dropped.
            handler: Called from several threads.
            threads: How many.
            ends_within_s: So long it is waited for at the end, a push included. One that waits for a broker which
                answers nothing ends with the process; what it has in hand comes again.
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
        """Yield a client of the Redis behind it, for what no queue does: claims that end by themselves.

        By the connection that is kept for what is sent; no other sends meanwhile.

        Raises:
            BrokerUnreachable: It is away, or it is no Redis.
        """
        if not self._settings.is_redis:
            raise BrokerUnreachable(f"broker {self._settings.place}: expected Redis or Valkey, found another kind")
        with self._connected() as channel:
            yield channel.client

    def close(self) -> None:
        """Close what connections there are; who waits for an answer of the broker meanwhile is not waited for."""
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
        """Yield a channel of the one connection that is kept; one that failed is given up, the next use has another.

        Raises:
            BrokerUnreachable: The broker is away.
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
    """Return an error of a driver as one of ours.

    Args:
        error: What the driver raised.
        place: Host and port of the broker.
    """
    found = in_words(error)
    return BrokerUnreachable(f"broker {place}: {tls_trouble(found) or f'expected it to answer, found: {found}'}")


def in_words(error: Exception) -> str:
    """Return the text of an error of a driver: without secrets, numbers, its places in the source, and a last dot."""
    text = _NUMBER.sub("", _PLACE.sub("", masked(str(error)))).rstrip(". ")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text or type(error).__name__
