"""Service process: listener, application, background tasks, and shutdown within three seconds.

Facts
-----
* uvicorn waits for streaming connections before it ends, and installs signal handlers of its own. Here the event loop
  handles signals: they set `Service.stopping`, so that streams end; connections open a second later are cut.
* The port is bound first: if it is in use, nothing else was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.log_file import logging_to
from flashferry.core.state_folder import lock, make_private_directory, open_private
from flashferry.service import audit, reminders
from flashferry.service.app import build_app
from flashferry.service.background import BackgroundTasks, PeriodicTask
from flashferry.service.hooks import sending
from flashferry.service.images import lifecycle
from flashferry.service.jobs import supervisor, tidying
from flashferry.service.metrics.collector import Figures
from flashferry.service.people.sign_in import FIRST_WINDOW_S, DenialLog
from flashferry.service.plans import deciding, planning
from flashferry.service.schedules import scheduler
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.database import ServiceDatabase
from flashferry.store.service.people import active_admins

TASKS = (
    PeriodicTask(name="jobs", every_s=0.5, run=supervisor.Supervisor().run_once),
    PeriodicTask(name="scheduler", every_s=scheduler.EVERY_S, run=scheduler.run_once),
    PeriodicTask(name="plans", every_s=2.0, run=planning.PlanJobs().run_once),
    PeriodicTask(name="waves", every_s=2.0, run=deciding.run_once),
    PeriodicTask(name="notices", every_s=2.0, run=sending.Delivery()),
    PeriodicTask(name="audit-head", every_s=60.0, run=audit.announce_head),
    PeriodicTask(name="reminders", every_s=30.0, run=reminders.Reminding()),
    PeriodicTask(name="images", every_s=30.0, run=lifecycle.reconcile_folder),
    PeriodicTask(name="job-folders", every_s=3600.0, run=tidying.tidy),
)
"""The background tasks of all subjects, with their intervals in seconds."""
_LOG = logging.getLogger("flashferry.service")
LOCK = "service.lock"
_GRACE_S = 1
_TASKS_GRACE_S = 0.5
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BACKLOG = 1024
_NO_HTTP = "Invalid HTTP request received."
"""uvicorn's own line, without address and time."""


def serve(
    state: Path,
    settings: ServiceSettings,
    *,
    report: Callable[[str], None],
    background_tasks: Sequence[PeriodicTask] | None = None,
    handed: int | None = None,
) -> None:
    """Serve until a signal arrives; runs are processes of their own and continue.

    `report` is called with the address once it is listened on, and with other lines for the user. `background_tasks`
    None: those of all subjects. `handed` is the descriptor of a listening socket, instead of address and port.

    Raises:
        ConfigInvalid: Settings conflict, the port is in use, the descriptor is not such a socket, the log cannot be
            opened, another service uses the state folder, or its database cannot be used.
    """
    with ExitStack() as held:
        if handed is None:
            check_listening(settings)
            listener = held.enter_context(_listener(settings, state))
        else:
            listener = held.enter_context(handed_listener(handed))
            settings = replace(settings, address=listener.getsockname()[0])
            check_listening(settings)
        held.enter_context(logging_to(settings.log.file, is_json=settings.log.is_json))
        held.enter_context(_alone(state))
        settings = replace(settings, port=listener.getsockname()[1])
        service = Service(state=state, settings=settings, database=ServiceDatabase(state))
        _report_missing_admin(service, report)
        if why := settings.runs.inventory_trouble:
            report(why)
        book = DenialLog(service)
        counted = PeriodicTask(name="refusals", every_s=FIRST_WINDOW_S, run=lambda _: book.flush())
        figures = Figures(service)
        kept = BackgroundTasks(
            service, (*(TASKS if background_tasks is None else background_tasks), counted, *figures.background_tasks)
        )
        app = build_app(service, background_tasks=kept, book=book, figures=figures)
        server = _Server(service, app, lambda: _report_ready(settings, report))
        kept.start()
        try:
            asyncio.run(server.serve(sockets=[listener]))
        finally:
            for name in kept.stop(_TASKS_GRACE_S):
                report(f"background task {name} was interrupted; what it had not stored is done again")
            with contextlib.suppress(sqlite3.Error):
                book.flush(is_end=True)
            _LOG.info("the service has ended")


def _report_missing_admin(service: Service, report: Callable[[str], None]) -> None:
    """Report that there is no admin, unless roles come from a provider or a proxy."""
    oidc, proxy = service.settings.oidc, service.settings.proxy
    if (oidc is not None and oidc.roles) or (proxy.user_header and proxy.roles):
        return
    with service.database.reading() as database:
        if not active_admins(database):
            report("the service has no admin: 'flashferry service init' creates the first one")


def check_listening(settings: ServiceSettings) -> None:
    """Refuse addresses other than loopback without TLS or a proxy; check the certificate.

    Raises:
        ConfigInvalid: Passwords would cross a network in clear text, or the certificate is not valid.
    """
    if settings.certificate is not None and settings.key is not None:
        _check_certificate(settings.certificate, settings.key)
    elif settings.certificate is not None or settings.key is not None:
        raise ConfigInvalid(
            "expected certificate and key together, found one of them", hint="Give both files, or neither"
        )
    elif not ip_address(settings.address).is_loopback and not settings.proxy.networks:
        raise ConfigInvalid(
            f"listening on {settings.address}: expected a certificate, or a proxy in front that has one, found neither",
            hint="Name 'certificate' and 'key' in [listen], or the proxy's address in [proxy] networks, or listen on "
            "127.0.0.1",
        )


def _check_certificate(certificate: Path, key: Path) -> None:
    # Late: a service without a certificate starts without the transports, which ours is checked like.
    from flashferry.transports.listeners import check_files

    check_files(certificate, key)


def url_of(settings: ServiceSettings) -> str:
    """Return the URL of the service on this host."""
    return replace(settings, url="").base_url + "/"


class _Server(uvicorn.Server):
    """uvicorn server that is ended by the service, not by its own signal handlers."""

    def __init__(self, service: Service, app: FastAPI, ready: Callable[[], None]) -> None:
        settings = service.settings
        config = uvicorn.Config(
            app,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_in_our_words)
        self._service = service
        self._ready = ready
        self._end_streams = app.state.streams.end

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle signals in the event loop while the server runs."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening, and report it."""
        await super().startup(sockets)
        self._ready()

    def end(self) -> None:
        """Shut down within `_GRACE_S`."""
        self._service.stopping.set()
        self._end_streams()
        self.should_exit = True
        # Connections cut now would fill the log with tracebacks.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)


def _in_our_words(record: logging.LogRecord) -> bool:
    """Log filter: replace uvicorn's line about a request that is not HTTP, which any client can cause, by our own."""
    if record.msg != _NO_HTTP:
        return True
    _LOG.info("a request was refused that is no HTTP: TLS spoken to a port without it, say")
    return False


def handed_listener(number: int) -> socket.socket:
    """Return the listening socket of an inherited file descriptor.

    It allows ports below 1024 without privileges; systemd passes the socket of a socket unit as descriptor 3
    (sd_listen_fds(3)). Raises `ConfigInvalid` if it is not a listening TCP socket.
    """
    try:
        listener = socket.socket(fileno=number)
    except OSError as error:
        raise _not_handed(number, f"none: {error.strerror}") from None
    if listener.family not in (socket.AF_INET, socket.AF_INET6) or listener.type != socket.SOCK_STREAM:
        listener.close()
        raise _not_handed(number, "a socket of another kind")
    if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.close()
        raise _not_handed(number, "one that is not listening")
    listener.setblocking(False)
    # Child processes must not inherit the socket: they would keep the port in use.
    listener.set_inheritable(False)
    return listener


def _not_handed(number: int, found: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"--listen fd:{number}: expected a socket of TCP that is listened on, found {found}",
        hint="Pass a bound and listening socket, as a systemd socket unit does (fd:3)",
    )


@contextmanager
def _listener(settings: ServiceSettings, state: Path) -> Iterator[socket.socket]:
    """Open the listening socket. Raises `ConfigInvalid` if the port is in use or not allowed."""
    where = f"{settings.address} port {settings.port}"
    family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        # After a restart, old connections may still be in TIME_WAIT.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.address, settings.port))
            listener.listen(_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and _is_served(state):
                raise _served(state) from None
            raise ConfigInvalid(f"cannot listen on {where}: {error.strerror}", hint=_hint_of(error)) from None
        listener.setblocking(False)
        yield listener


def _hint_of(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "Another service may be running; 'ss -ltnp' shows who has the port. Or choose another one (--listen)"
    if error.errno == errno.EACCES:
        return "Ports below 1024 are root's, or take CAP_NET_BIND_SERVICE; choose a higher one behind a proxy"
    return "Give an address of this host, or 127.0.0.1 (--listen)"


@contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Hold the lock of the state folder. Raises `ConfigInvalid` if another service has it, or it cannot be used."""
    try:
        make_private_directory(state)
        held = open_private(state / LOCK, "a")
    except OSError as error:
        raise ConfigInvalid(
            f"state folder {state}: cannot be used: {error.strerror}",
            hint="Check its permissions and free space on its disk, or give another --state-dir",
        ) from None
    with held:
        if not lock(held):
            raise _served(state)
        yield


def _is_served(state: Path) -> bool:
    """Return whether a service runs on a state folder."""
    try:
        with open_private(state / LOCK, "r") as probe:
            return not lock(probe, is_shared=True)
    except (OSError, ConfigInvalid):
        return False


def _served(state: Path) -> ConfigInvalid:
    return ConfigInvalid(
        f"state folder {state}: another service is running in it",
        hint="Stop that one first, or give another --state-dir",
    )


def _report_ready(settings: ServiceSettings, report: Callable[[str], None]) -> None:
    sentence = f"the service answers at {url_of(settings)}"
    report(sentence)
    _LOG.info("%s", sentence)
    _notify_systemd()


def _notify_systemd() -> None:
    """Report readiness to systemd, if it asked for that (sd_notify(3))."""
    where = os.environ.get("NOTIFY_SOCKET", "")
    if not where.startswith(("/", "@")):
        return
    address = "\0" + where[1:] if where.startswith("@") else where
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify, contextlib.suppress(OSError):
        notify.sendto(b"READY=1", address)
