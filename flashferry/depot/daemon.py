"""The depot: one file server for all runs of a host, which come by a Unix socket.

Its end ends every transfer, as that of a run's own server does: the serving processes end with their parent. Runs wait
for it to come back, and have their devices fetch anew.
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
from flashferry.depot.handshake import Handshake, answered
from flashferry.depot.messages import DepotView, Welcome, network, release
from flashferry.depot.offering.mirrors import load_mirrors
from flashferry.depot.offering.offer import Offering
from flashferry.depot.offering.publishing import Publisher
from flashferry.depot.options import DIGESTS
from flashferry.depot.shared_state import SharedState
from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    ServerGone,
    ServerStartFailed,
    raise_soft_limit,
)
from flashferry.transports.listening import listening_error

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from flashferry.depot.options import DepotOptions
    from flashferry.fileserver import ServerEvent

RESTARTS = 3
"""So many times a serving process that died is replaced; then the depot ends, for who started it to start it anew."""

_PAUSE_S = 0.5


class Depot:
    """A depot that runs; enter it to start, leave it to stop.

    Args:
        options: How it is run.
        tell: Takes what depots of other sites did, `fetched`, or `refused` for a login that was not taken, and a
            sentence; called from other threads.

    Raises:
        ConfigInvalid: It cannot start: another one serves its socket, a port is taken, a file is not to be read.
    """

    def __init__(self, options: DepotOptions, tell: Callable[[str, str], None] = lambda _event, _text: None) -> None:
        self.options, self._tell = options, tell
        self._publisher: Publisher | None = None
        self._numbers = itertools.count(1)
        self._has_news = threading.Event()
        self._notices: SimpleQueue[str] = SimpleQueue()

    def __enter__(self) -> Self:
        options = self.options
        sites = None if options.mirrors is None else load_mirrors(options.mirrors)
        make_private_directory(options.state)
        # First: a second depot is to hear of the first one, and not that a port is taken.
        self._door = Handshake(options.at)
        try:
            raise_soft_limit()
            self.server = FileServer(options.settings(), restarts=RESTARTS, guests=True)
            self.server.events(self._hear)
            self.server.start()
        except ServerStartFailed as error:
            self._door.close()
            raise listening_error(error, options.served) from None
        except FileServerError as error:
            self._door.close()
            raise ConfigInvalid(error.message, step="server", hint=error.hint) from None
        except BaseException:
            self._door.close()
            raise
        self._ground = SharedState(
            self.server,
            digests=options.state / DIGESTS,
            release=release(),
            pid=os.getpid(),
            since=time.time(),
            catalogue="" if sites is None else str(options.offered.catalogue),
        )
        if sites is not None:
            self._publisher = Publisher(self.server, self._ground, sites, Offering(options.offered), self._tell)
            self._publisher.start()
        # Now that the sites' logins are known: one that came before would have been refused, and banned.
        self.server.open()
        threading.Thread(target=self._let_in, name="depot-door", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop at once; running transfers fail. Twice is harmless."""
        self._door.close()
        # First: a publisher that waits for an answer of a process that hangs ends with the server.
        self.server.close()
        if self._publisher is not None:
            self._publisher.close()
        for visit in self._ground.visits():
            visit.end()

    def drain(self) -> int:
        """Take nothing new in, and end with the last transfer; return how many are under way.

        Raises:
            ServerGone: The server has ended already.
        """
        self._ground.end()
        return self.server.drain()

    @property
    def port_notices(self) -> tuple[str, ...]:
        """What is to be told of ports that were found where none was asked for."""
        return self.options.port_notices(self.server.port_of)

    def view(self) -> DepotView:
        """Return how it stands."""
        return self._ground.view()

    def new_notices(self) -> Iterator[str]:
        """Yield what the server has reported of itself since this was called last."""
        with suppress(Empty):
            while True:
                yield self._notices.get_nowait()

    def wait(self, timeout_s: float) -> bool:
        """Wait so long at most for something to be done; return whether the server runs still.

        A process that died is replaced here, where that is allowed still: runs that wait are not to wait for the next
        ticket to do so.
        """
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

    def _hear(self, event: ServerEvent) -> None:
        if event.progress is None and event.kind in {EventKind.GONE, EventKind.NOTICE}:
            if event.kind is EventKind.NOTICE:
                self._notices.put(event.text)
            self._has_news.set()

    def _let_in(self) -> None:
        while not self._door.is_closed:
            try:
                line = self._door.accept()
            except OSError:
                # Without descriptors or memory who waits has to wait on.
                time.sleep(_PAUSE_S)
                continue
            if line is not None:
                threading.Thread(target=self._serve, args=(line,), name="depot-visit", daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        connection = Connection(line.detach())
        try:
            greeting = answered(connection)
            if greeting is None:
                return
            visit = ClientSession(f"run-{next(self._numbers)}", connection, greeting, self._ground)
            self._ground.enter(visit)
            visit.serve(self._welcome())
            # Nobody may write to a descriptor that is given back.
            visit.outbox.join()
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
