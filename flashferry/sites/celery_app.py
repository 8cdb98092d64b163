"""Configure Celery for the broker: application, worker, log. Needs the extra `sites`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from amqp.exceptions import AMQPError
from celery import Celery, bootsteps
from celery.concurrency.thread import TaskPool
from celery.exceptions import Reject
from celery.worker import state
from celery.worker.worker import WorkController
from kombu.exceptions import KombuError, OperationalError

from flashferry.core.redaction import masked, sanitize_lines
from flashferry.sites.broker_settings import BrokerSettings, tls_of, url_with_login

REDELIVERED_AFTER_S = 120.0
"""Unacknowledged messages are delivered again after this time; handlers are quick, so no work is repeated.

Each end uses keys of its own, so that other messages on the broker are not affected.
"""

_LOG = logging.getLogger("flashferry.sites")
_CONNECT_S = 10.0
_ANSWER_S = 30.0
"""Longer than a blocking read of Celery's, after which it tests the connection."""
_PREFETCH = 50
"""Messages per thread that can be fetched before the first is acknowledged. Celery writes acknowledgements of a thread
pool once per loop, every two seconds without traffic (measured): with one message per thread two messages took two
seconds. Handlers here are quick, so nothing is hoarded.
"""
_ENDS_WITHIN_S = 15.0
_ENDS_BY_ITSELF_S = 2.0
_BEGINS_ANEW_S = 2.0
_REPEAT_S = 60.0
"""Celery's repeated warnings about an unreachable broker are logged once in this time."""

Handler = Callable[[str], None]
"""Stores or refuses an envelope; an error has the message delivered again."""

_KOMBU: Any = import_module("kombu")
"""Untyped."""

ERRORS: tuple[type[Exception], ...] = (OSError, OperationalError, KombuError, AMQPError)
"""Errors of drivers if a broker is unreachable, or refuses us."""
with suppress(ImportError):
    from redis.exceptions import RedisError

    ERRORS = (*ERRORS, RedisError)


class Worker:
    """Run a Celery worker in threads of this process; made by `Broker.worker`.

    Args:
        app: The application.
        queues: The queues to read.
        task: The only known task.
        handler: Handles its messages.
        threads: Number of threads.
        name: Its name at the broker.
    """

    def __init__(
        self, app: Any, queues: Sequence[str], task: str, handler: Handler, *, threads: int, name: str
    ) -> None:
        app.tasks.pop(task, None)
        app.task(name=task, shared=False, lazy=False)(guarded(handler))
        app.amqp.queues.clear()
        for one in queues:
            # Not by `add`, which gives a queue without an exchange Celery's own.
            dict.__setitem__(app.amqp.queues, one, queue_of(one))
        self._app, self._queues, self._threads, self._name = app, queues, threads, name
        self._controller = self._made()
        self._is_ready, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="broker-worker", daemon=True)

    def start(self) -> None:
        """Start, without waiting for the broker."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until it reads its queues; return False after the time limit."""
        return self._is_ready.wait(timeout_s)

    def stop(self, ends_within_s: float = _ENDS_WITHIN_S) -> None:
        """End in order, within a time limit; messages in the handler are finished."""
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
        """Work, and restart if Celery gives up: the other end would wait forever."""
        while True:
            self._controller.start()
            with suppress(Exception):
                self._controller.stop()
            if self._ending.is_set():
                return
            _LOG.error("the broker's worker ended by itself, it is started again in %.0f s", _BEGINS_ANEW_S)
            if self._ending.wait(_BEGINS_ANEW_S):
                return
            self._controller = self._made()

    def _made(self) -> Any:
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
    """Return a thread pool that uses an application's own tasks, not the process's default application."""

    def on_apply(self: Any, target: Any, args: Any = None, kwargs: Any = None, **more: Any) -> Any:
        return TaskPool.on_apply(self, target, args, {**(kwargs or {}), "app": app}, **more)

    return type("Pool", (TaskPool,), {"on_apply": on_apply})


def guarded(handler: Handler) -> Callable[..., None]:
    """Return the task's function: it logs an error of the handler and has the message delivered again."""
    logged_at_s = [-_REPEAT_S]

    def carry_out(envelope: object = None, *more: object, **others: object) -> None:
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


def application(settings: BrokerSettings, owner: str) -> Any:
    """Return a Celery application that only sends and receives: no results, events or remote control."""
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


def queue_of(name: str) -> Any:
    """Return a queue by name."""
    # By the exchange without a name: the queue's name alone says where to, no table at the broker does.
    return _KOMBU.Queue(name, exchange=_KOMBU.Exchange("", type="direct"), routing_key=name, durable=True)


class _OneLine(logging.Handler):
    """Log warnings of Celery and Kombu in one line, without repeats."""

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
    """Route the logs of Celery and Kombu through `_OneLine`; they repeat multi-line warnings every second."""
    for name in ("celery", "kombu", "amqp"):
        logger = logging.getLogger(name)
        if not any(isinstance(one, _OneLine) for one in logger.handlers):
            logger.setLevel(logging.WARNING)
            logger.propagate = False
            logger.addHandler(_OneLine())
