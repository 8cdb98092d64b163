"""The broker between centre and agents, by Celery: the one module that knows it, typed for all others.

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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, ClassVar

from flashferry.core.errors import ConfigInvalid, FlashferryError, Kind
from flashferry.core.extras import extra_hint
from flashferry.core.redaction import masked, sanitize_lines
from flashferry.sites.broker_settings import BrokerSettings, check_broker, tls_of, tls_trouble, url_with_login

__all__ = ["Broker", "BrokerSettings", "Worker", "check_broker", "control_queue", "site_queue"]

ORDER_TASK = "flashferry.sites.order"
WORD_TASK = "flashferry.sites.word"
CENTRE_QUEUE = "centre"
"""Where agents send their words."""

REDELIVERED_AFTER_S = 120.0
"""What was delivered and not acknowledged comes again after so long: handlers take moments, so it is no repeat of work.

Each end keeps what it was given under keys of its own, so that this hastens no others' messages on that broker.
"""

_LOG = logging.getLogger("flashferry.sites")
_NUMBER = re.compile(r"^(?:\[Errno -?\d+\] |Error -?\d+ connecting to \S+\. )+")
"""How redis-py and the system begin what they report: by a number that says the same as the words after it."""
_PLACE = re.compile(r" ?\(_ssl\.c:\d+\)")
_CONNECT_S = 10.0
_ANSWER_S = 30.0
"""Longer than a blocking read of Celery's, after which it asks whether the connection lives."""
_PREFETCH = 50
"""Messages per thread that may be taken before the first is acknowledged. Celery writes acknowledgements of a pool of
threads once its loop comes round, every two seconds where nothing comes (measured): with one per thread two messages
came in two seconds. Long work would be hoarded by that; a handler of ours takes moments."""
_ENDS_WITHIN_S = 15.0
_ENDS_BY_ITSELF_S = 2.0
_CLOSES_WITHIN_S = 1.0
_BEGINS_ANEW_S = 2.0
_REPEAT_S = 60.0
"""What Celery says again and again while the broker is away is logged once in so long."""

Handler = Callable[[str], None]
"""Takes an envelope; returns once it is on disk or was refused. What it raises has the message delivered again."""


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
        self._settings, self._owner = settings, owner
        self._app = _application(settings, owner)
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
        worker = Worker(self._app, queues, task, handler, threads=threads, name=f"{self._owner}@flashferry")
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
                *(task, [envelope]), queue=_queue(queue), producer=producer, argsrepr="", kwargsrepr="", retry=False
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
            except _errors() as error:
                self._disconnect()
                raise unreachable(error, self._settings.place) from None

    def _disconnect(self) -> None:
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.collect(socket_timeout=1.0)


class Worker:
    """A worker of Celery's in threads of this process; made by `Broker.worker`.

    Args:
        app: The application.
        queues: The queues to read.
        task: The only task that is known.
        handler: What it does.
        threads: How many at once.
        name: What it is called at the broker.
    """

    def __init__(
        self, app: Any, queues: Sequence[str], task: str, handler: Handler, *, threads: int, name: str
    ) -> None:
        app.tasks.pop(task, None)
        app.task(name=task, shared=False, lazy=False)(_guarded(handler))
        app.amqp.queues.clear()
        for one in queues:
            # Not by `add`, which gives a queue without an exchange Celery's own.
            dict.__setitem__(app.amqp.queues, one, _queue(one))
        self._app, self._queues, self._threads, self._name = app, queues, threads, name
        self._controller = self._made()
        self._is_ready, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-worker", daemon=True)

    def start(self) -> None:
        """Begin; does not wait for the broker."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Return whether it reads its queues, waiting for that for so long at most."""
        return self._is_ready.wait(timeout_s)

    def stop(self, ends_within_s: float = _ENDS_WITHIN_S) -> None:
        """End it in order; what is in the handler's hands is finished, within so long."""
        from celery import bootsteps
        from celery.worker import state

        self._ending.set()
        # Its loop ends by itself then; what closes connections goes behind it, not under its hands.
        self._controller.consumer.blueprint.state = bootsteps.CLOSE
        self._thread.join(_ENDS_BY_ITSELF_S)
        if self._thread.is_alive():
            # It waits for a broker that is away, where it looks at nothing but this.
            state.should_stop = 0
            self._thread.join(ends_within_s - _ENDS_BY_ITSELF_S)
            state.should_stop = None
        if self._thread.is_alive():
            _LOG.warning("the broker's worker did not end within %.0f s; it ends with the process", ends_within_s)

    def _run(self) -> None:
        """Work, and start anew where Celery gives up: the other end would be silent."""
        while True:
            self._controller.start()
            with suppress(Exception):
                self._controller.stop()
            if self._ending.is_set():
                return
            _LOG.error("the broker's worker ended by itself, it is started anew in %.0f s", _BEGINS_ANEW_S)
            if self._ending.wait(_BEGINS_ANEW_S):
                return
            self._controller = self._made()

    def _made(self) -> Any:
        from celery.worker.worker import WorkController

        return WorkController(
            app=self._app,
            hostname=self._name,
            queues=list(self._queues),
            pool_cls=_pool_for(self._app),
            concurrency=self._threads,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            # Its event loop is one for the whole process; this way several workers may be in one.
            use_eventloop=False,
            ready_callback=self._ready,
        )

    def _ready(self, consumer: Any) -> None:  # noqa: ARG002 -- Celery's signature
        self._is_ready.set()


def _pool_for(app: Any) -> type:
    """Return a pool of threads whose tasks are those of an application, not those of whichever is the process's."""
    from celery.concurrency.thread import TaskPool

    def on_apply(self: Any, target: Any, args: Any = None, kwargs: Any = None, **more: Any) -> Any:
        return TaskPool.on_apply(self, target, args, {**(kwargs or {}), "app": app}, **more)

    return type("Pool", (TaskPool,), {"on_apply": on_apply})


def _guarded(handler: Handler) -> Callable[..., None]:
    """Return the task's function: an error on our side is logged, and the message comes again."""
    logged_at_s = [-_REPEAT_S]

    def carry_out(envelope: object = None, *more: object, **others: object) -> None:
        from celery.exceptions import Reject

        if not isinstance(envelope, str) or more or others:
            if time.monotonic() - logged_at_s[0] >= _REPEAT_S:
                logged_at_s[0] = time.monotonic()
                _LOG.warning("a message of another form than an envelope was dropped")
            return
        try:
            handler(envelope)
        except Exception as error:  # noqa: BLE001 -- the message must come again, whatever it was
            _LOG.error("a message could not be kept, it comes again: %s", masked(str(error)))
            threading.Event().wait(1.0)
            raise Reject(reason=type(error).__name__, requeue=True) from None

    return carry_out


def _application(settings: BrokerSettings, owner: str) -> Any:
    try:
        from celery import Celery
    except ImportError:
        raise ConfigInvalid(
            "sites: expected the package celery, which is not installed",
            hint=extra_hint("sites"),
        ) from None
    _quiet()
    app = Celery(f"flashferry.{owner}", set_as_current=False, fixups=[])
    app.conf.update(
        broker_url=url_with_login(settings),
        broker_use_ssl=tls_of(settings),
        broker_connection_retry=True,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        broker_connection_timeout=_CONNECT_S,
        broker_transport_options=_transport(settings, owner),
        # Nothing of ours is long; False would have Celery warn at each loss of the connection.
        worker_cancel_long_running_tasks_on_connection_loss=True,
        worker_enable_prefetch_count_reduction=False,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_prefetch_multiplier=_PREFETCH,
        worker_hijack_root_logger=False,
        worker_soft_shutdown_timeout=_ENDS_WITHIN_S,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_create_missing_queues=False,
        task_default_delivery_mode="persistent",
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        result_backend=None,
        enable_utc=True,
        timezone="UTC",
    )
    return app


def _transport(settings: BrokerSettings, owner: str) -> dict[str, Any]:
    if not settings.is_redis:
        return {"confirm_publish": True}
    return {
        "visibility_timeout": REDELIVERED_AFTER_S,
        "unacked_key": f"flashferry.unacked.{owner}",
        "unacked_index_key": f"flashferry.unacked_index.{owner}",
        "unacked_mutex_key": f"flashferry.unacked_mutex.{owner}",
        "socket_connect_timeout": _CONNECT_S,
        "socket_timeout": _ANSWER_S,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "client_name": f"flashferry-{owner}",
    }


def _queue(name: str) -> Any:
    kombu = import_module("kombu")
    # By the exchange without a name: the queue's name alone says where to, no table at the broker does.
    return kombu.Queue(name, exchange=kombu.Exchange("", type="direct"), routing_key=name, durable=True)


def _errors() -> tuple[type[Exception], ...]:
    """Return what drivers raise where a broker is away, or does not take us."""
    from amqp.exceptions import AMQPError
    from kombu.exceptions import KombuError, OperationalError

    found: tuple[type[Exception], ...] = (OSError, OperationalError, KombuError, AMQPError)
    with suppress(ImportError):
        from redis.exceptions import RedisError

        return (*found, RedisError)
    return found


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


class _Retelling(logging.Handler):
    """Log, in one line and not again and again, what Celery and Kombu warn of."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._logged_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Log the first line of a warning, unless it was logged lately."""
        now_s = time.monotonic()
        if now_s - self._logged_at.get(str(record.msg), -_REPEAT_S) < _REPEAT_S:
            return
        self._logged_at[str(record.msg)] = now_s
        lines = sanitize_lines(record.getMessage()).splitlines() or [""]
        _LOG.log(record.levelno, "broker: %s", lines[0])


def _quiet() -> None:
    """Have Celery and Kombu speak by our log alone: they would log the same every second, over several lines."""
    for name in ("celery", "kombu", "amqp"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Retelling) for one in logger.handlers):
            logger.setLevel(logging.WARNING)
            logger.propagate = False
            logger.addHandler(_Retelling())
