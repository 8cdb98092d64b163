"""Run the depot: one file server for all runs of a host, which connect to its Unix socket.

When the depot ends, its serving processes and all transfers end. Runs wait for its restart, and have their devices
fetch again.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import make_private_directory
from flashferry.depot.client_session import ClientSession
from flashferry.depot.handshake import DepotSocket, DepotView, accept_greeting, network, release
from flashferry.depot.offering.offer import Offering
from flashferry.depot.offering.publishing import Publisher, load_mirrors
from flashferry.depot.options import DIGESTS
from flashferry.depot.shared_state import SharedState
from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    ServerGone,
    ServerStartFailed,
    Welcome,
    raise_soft_limit,
)
from flashferry.transports.listeners import listening_error, with_option

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from flashferry.depot.options import DepotOptions
    from flashferry.fileserver import ServerEvent

RESTARTS = 3
"""How often a dead serving process is replaced; then the depot ends, and its unit restarts it."""

_PAUSE_S = 0.5


class Depot:
    """A running depot; enter it to start, leave it to stop.

    Args:
        options: The depot's options.
        report: Called with `fetched` or `refused` and a sentence about another site's depot; on other threads.

    Raises:
        ConfigInvalid: It cannot start: another depot serves the socket, a port is taken, a file is not readable.
    """

    def __init__(self, options: DepotOptions, report: Callable[[str, str], None] = lambda _event, _text: None) -> None:
        self.options, self._report = options, report
        self._publisher: Publisher | None = None
        self._numbers = itertools.count(1)
        self._has_news = threading.Event()
        self._notices: SimpleQueue[str] = SimpleQueue()

    def __enter__(self) -> Self:
        options = self.options
        sites = None if options.mirrors is None else load_mirrors(options.mirrors)
        make_private_directory(options.state)
        # First: a second depot has to report the first one, and not that a port is taken.
        self._socket = DepotSocket(options.at)
        try:
            raise_soft_limit()
            self.server = FileServer(options.settings(), restarts=RESTARTS, is_shared=True)
            self.server.events(self._on_event)
            self.server.start()
        except ServerStartFailed as error:
            self._socket.close()
            raise listening_error(error, options.served) from None
        except FileServerError as error:
            self._socket.close()
            raise ConfigInvalid(with_option(error.message), step="server", hint=error.hint) from None
        except BaseException:
            self._socket.close()
            raise
        self._shared = SharedState(
            self.server,
            digests=options.state / DIGESTS,
            release=release(),
            pid=os.getpid(),
            since=time.time(),
            catalogue="" if sites is None else str(options.offered.catalogue),
        )
        if sites is not None:
            self._publisher = Publisher(self.server, self._shared, sites, Offering(options.offered), self._report)
            self._publisher.start()
        # Now that the sites' logins are known: one that came before would have been refused, and banned.
        self.server.open()
        threading.Thread(target=self._accept, name="depot-accept", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once; running transfers fail. Idempotent."""
        self._socket.close()
        # First: a publisher that waits for an answer of a process that hangs ends with the server.
        self.server.close()
        if self._publisher is not None:
            self._publisher.close()
        for session in self._shared.sessions():
            session.end()

    def drain(self) -> int:
        """Accept nothing new, and end with the last transfer; return how many are under way.

        Raises:
            ServerGone: The server has ended already.
        """
        self._shared.end()
        return self.server.drain()

    @property
    def port_notices(self) -> tuple[str, ...]:
        """Notices about ports that were chosen because none was given."""
        return self.options.port_notices(self.server.port_of)

    def view(self) -> DepotView:
        """Return its status."""
        return self._shared.view()

    def new_notices(self) -> Iterator[str]:
        """Yield what the server has reported about itself since the last call."""
        with suppress(Empty):
            while True:
                yield self._notices.get_nowait()

    def wait(self, timeout_s: float) -> bool:
        """Wait for news of the server; replace a dead process if allowed; return whether it still runs."""
        self._has_news.wait(timeout_s)
        if not self._has_news.is_set():
            return True
        self._has_news.clear()
        if self.server.gone and self.server.ended_in_order:
            return False
        try:
            self.server.revive()
        except ServerGone:
            return False
        return True

    def _on_event(self, event: ServerEvent) -> None:
        if event.progress is None and event.kind in {EventKind.GONE, EventKind.NOTICE}:
            if event.kind is EventKind.NOTICE:
                self._notices.put(event.text)
            self._has_news.set()

    def _accept(self) -> None:
        while not self._socket.is_closed:
            try:
                line = self._socket.accept()
            except OSError:
                # Out of descriptors or memory: clients that connect have to wait.
                time.sleep(_PAUSE_S)
                continue
            if line is not None:
                threading.Thread(target=self._serve, args=(line,), name="depot-session", daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        connection = Connection(line.detach())
        try:
            greeting = accept_greeting(connection)
            if greeting is None:
                return
            session = ClientSession(f"run-{next(self._numbers)}", connection, greeting, self._shared)
            self._shared.enter(session)
            session.serve(self._welcome())
            # No thread may write to a descriptor that is closed.
            session.queue.join()
        finally:
            connection.close()

    def _welcome(self) -> Welcome:
        options = self.options
        return Welcome(
            settings=self.server.settings,
            ports=self.server.ports,
            network=network(),
            host_keys=options.host_keys,
            certificate=None if options.certificate is None else options.certificate.absolute(),
            key=None if options.key is None else options.key.absolute(),
        )
