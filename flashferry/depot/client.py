"""Use the depot from a run, over a connection that is reconnected after a failure."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from flashferry.core.errors import ConfigInvalid, FlashferryError
from flashferry.depot.handshake import connect, network
from flashferry.depot.paths import DepotNotRunning, DepotNotUsable
from flashferry.fileserver import FileIdentity, ImageFile, ServerClient, ServerGone, SlotReservations, TransferProgress
from flashferry.fileserver.client import PUSH
from flashferry.fileserver.rpc_channel import ConnectionBroken, RpcChannel
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.wire import (
    AddTicket,
    EventMessage,
    ImageHashed,
    OfferedPath,
    OfferImages,
    ProgressUpdates,
    ReadImage,
    RefusedLogin,
    SetLoadElsewhere,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
    SlotsGranted,
    TicketsInvalidated,
    Welcome,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from flashferry.fileserver import ServerSettings, TicketRequest
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.rpc_channel import RpcChannel
    from flashferry.fileserver.ticket_accounts import TicketGrant
    from flashferry.fileserver.wire import Lasting, Message, Request, Welcome

RETURN_S = 60.0
"""How long to wait for a depot that has ended; then the run continues as if its own server had died for good."""

ANSWER_S = 30.0
"""Time limit for an answer that needs no hashing of images."""

_RETRY_EVERY_S = 0.25
_NOTICED_S = 1.0
"""A thread that cannot send notices a broken connection a little earlier than the reading thread."""

_HINT = "Start the depot again ('systemctl status flashferry-depot' shows what ended it); then resume the run"


class DepotConnection:
    """A connection to the depot that reconnects after a failure. Thread-safe.

    Args:
        path: The depot's socket.
        purpose: What the client does, in a word.
        client: Handles messages, and introduces the run to a restarted depot.
        return_s: How long to wait for a depot that has ended.

    Raises:
        DepotNotRunning: No depot is running.
        DepotNotUsable: It belongs to another user, or is in another network.
        ConfigInvalid: It is of another release, or is no depot.
    """

    def __init__(self, path: Path, purpose: str, client: DepotClient, *, return_s: float = RETURN_S) -> None:
        self.path, self._purpose, self._client = path, purpose, client
        self._return_s = return_s
        self._lock = threading.Condition()
        self._gone = ""
        self._is_closing = self._is_open = False
        channel, self.welcome = self._connect()
        self._channel: RpcChannel | None = channel
        self._thread = threading.Thread(target=self._run, args=(channel,), name="depot-connection", daemon=True)

    def open(self) -> None:
        """Introduce the run, and let all threads use the connection.

        Raises:
            ServerGone: The connection broke already.
            FlashferryError: The depot refused something.
        """
        assert self._channel is not None
        try:
            self._client.introduce(self._channel, self.welcome)
        except ConnectionBroken as error:
            raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None
        self._is_open = True
        self._thread.start()

    @property
    def gone(self) -> str:
        """Why the depot is gone for good; empty while it runs, or may come back."""
        return self._gone

    def check(self) -> None:
        """Raise `ServerGone` if the depot is gone for good."""
        if self._gone:
            raise ServerGone(self._gone, hint=_HINT)

    def ask(self, request: Request, kind: Any = None, *, timeout_s: float | None = ANSWER_S) -> Any:
        """Send a request, waiting while the depot restarts; it must be safe to send twice.

        Raises:
            ServerGone: The depot did not come back, or gives no answer.
            FlashferryError: It refuses.
        """
        while True:
            channel = self._current()
            try:
                return channel.ask(request, kind, timeout_s=timeout_s)
            except ConnectionBroken as error:
                if not channel.is_over(_NOTICED_S):
                    raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None

    def post(self, request: Request) -> None:
        """Send a request without waiting for an answer; dropped while there is no connection."""
        with self._lock:
            if self._channel is not None and self._is_open:
                with suppress(ConnectionBroken):
                    self._channel.post(request)

    def close(self) -> None:
        """Leave the depot. Idempotent."""
        with self._lock:
            self._is_closing = True
            self._gone = self._gone or f"depot {self.path}: this run has left it"
            channel = self._channel
            self._lock.notify_all()
        if channel is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(channel.connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
        if self._is_open and threading.current_thread() is not self._thread:
            self._thread.join()
        elif channel is not None and not self._is_open:
            channel.close()

    def _connect(self) -> tuple[RpcChannel, Welcome]:
        channel = RpcChannel(connect(self.path, self._purpose), self._client.on_message)
        try:
            welcome = channel.receive()
            if not isinstance(welcome, Welcome):
                raise ConnectionBroken(f"expected a welcome, found {type(welcome).__name__}")
            if welcome.network != network():
                raise DepotNotUsable(
                    f"depot {self.path}: it is in another network than this command, and so are its ports"
                )
        except ConnectionBroken as error:
            channel.close()
            raise DepotNotRunning(f"depot {self.path}: {error}") from None
        except DepotNotUsable:
            channel.close()
            raise
        return channel, welcome

    def _current(self) -> RpcChannel:
        """Return the channel, once there is one."""
        with self._lock:
            self._lock.wait_for(lambda: self._channel is not None or self._gone)
            if self._gone or self._channel is None:
                raise ServerGone(self._gone, hint=_HINT)
            return self._channel

    def _run(self, channel: RpcChannel | None) -> None:
        while channel is not None:
            with suppress(ConnectionBroken):
                channel.listen()
            with self._lock:
                self._channel = None
                is_closing = self._is_closing
            channel.close()
            self._client.on_lost(f"depot {self.path}: the connection to it broke")
            channel = None if is_closing else self._connect_again()
        self._client.on_given_up()

    def _connect_again(self) -> RpcChannel | None:
        """Return a channel to a restarted depot; None if it does not come back."""
        until_s = time.monotonic() + self._return_s
        why = f"depot {self.path}: it has ended, and did not come back within {self._return_s:.0f} s"
        while time.monotonic() < until_s and not self._is_closing:
            try:
                return self._connect_once()
            except (DepotNotRunning, ConnectionBroken, ServerGone):
                time.sleep(_RETRY_EVERY_S)
            except (DepotNotUsable, FlashferryError) as error:
                why = f"it came back as another one: {getattr(error, 'message', error)}"
                break
        with self._lock:
            self._gone = self._gone or why
            self._lock.notify_all()
        return None

    def _connect_once(self) -> RpcChannel:
        channel, self.welcome = self._connect()
        try:
            self._client.introduce(channel, self.welcome)
            with self._lock:
                for request in self._client.slot_requests():
                    channel.post(request)
                self._channel = channel
                self._lock.notify_all()
        except BaseException:
            channel.close()
            raise
        return channel


_HASH_POLL_S = 0.25

_TICKET_S = 120.0
"""Time limit for a ticket: a restarted depot may first have to hash the image."""

_HOME = "depot"
"""The depot's name in `Telemetry`."""


class DepotClient(ServerClient):
    """The depot as a file server, for one run.

    A request waits up to `return_s` for a depot that has ended; then `ServerGone` is raised for good.

    Args:
        path: The depot's socket.
        purpose: The run's verb.
        sample_interval_s: Interval for reading TCP_INFO of this run's transfers; 0.05 to 60.
        return_s: How long to wait for a depot that has ended.

    Raises:
        DepotNotRunning: No depot is running.
        DepotNotUsable: It belongs to another user, or is in another network.
        ConfigInvalid: It is of another release, or is no depot.
    """

    _transport_hint = "Start the depot with it among --transports, or give --depot never"

    def __init__(
        self, path: Path, purpose: str, *, sample_interval_s: float | None = None, return_s: float = RETURN_S
    ) -> None:
        super().__init__(Telemetry((_HOME,)))
        self.path = path
        self.label = f" of the depot at {path}"
        self._sample_interval_s = sample_interval_s
        self._slots = SlotReservations(self._send)
        self._offer: OfferImages | None = None
        self._lasting: dict[tuple[type, str], Lasting] = {}
        self._loads: dict[str, SiteLoad] = {}
        self._images: dict[str, ImageFile] = {}
        self._hashed: dict[str, tuple[int, int]] = {}
        self._hashing = threading.Lock()
        self._connection = DepotConnection(path, purpose, self, return_s=return_s)
        # Of the depot that it found first: one that comes back has to serve the same transports.
        self._transports = self.transports

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def welcome(self) -> Welcome:
        """The depot's latest first message: its settings, ports and files."""
        return self._connection.welcome

    @property
    def settings(self) -> ServerSettings:
        """The settings of the depot's server."""
        return self.welcome.settings

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in use, in the order of the listeners."""
        return self.welcome.ports

    @property
    def slot_reservations(self) -> SlotReservations:
        """The site slots shared with other runs."""
        return self._slots

    @property
    def gone(self) -> str:
        """Why the depot is gone for good; empty while it runs, or may come back."""
        return self._connection.gone

    def check(self) -> None:
        """Raise `ServerGone` if the depot is gone for good."""
        self._connection.check()

    def open(self, images: tuple[Path, ...], *, pushes: bool = False) -> None:
        """Offer images, and have the depot serve them from now on.

        Args:
            images: Image files, or folders of them, as this process sees them.
            pushes: Whether some may be pushed from here, see `open_push`.

        Raises:
            ConfigInvalid: This process does not find an image.
            CatalogueInvalid: The depot cannot read one, or they form no catalogue.
            ImageUnreadable: The depot cannot read one, or sees another file there.
            ServerGone: The depot has just ended.
        """
        self._offer = OfferImages(paths=tuple(_offered(path.absolute()) for path in images), pushes=pushes)
        if pushes:
            self._new_push_service(self._on_push_message)
        self._connection.open()

    def close(self) -> None:
        """Leave the depot: the run's tickets become invalid. Idempotent."""
        self._connection.close()

    def image(self, name: str, *, on_progress: Callable[[int, int], None] | None = None) -> ImageFile:
        """Return an image with its size and digests, as the depot found them.

        `on_progress` is called about once a second while the depot hashes it; an exception of its ends the waiting.

        Raises:
            ImageUnknown: No image of that name was offered.
            ImageUnreadable: The depot can no longer read it.
            ServerGone: The depot is gone for good.
        """
        with self._hashing:
            image = self._read(name, on_progress or (lambda done, size: None))  # noqa: ARG005 -- the signature
            self._images[name] = image
        return image

    def _read(self, name: str, on_progress: Callable[[int, int], None]) -> ImageFile:
        self._hashed.pop(name, None)
        pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="depot-image")
        try:
            asked = pool.submit(self._connection.ask, ReadImage(name=name), ImageFile, timeout_s=None)
            while not wait((asked,), timeout=_HASH_POLL_S).done:
                if (hashed := self._hashed.get(name)) is not None:
                    on_progress(*hashed)
            image: ImageFile = asked.result()
            on_progress(image.size_bytes, image.size_bytes)
            return image
        finally:
            # Where it is not waited for, it ends with the connection.
            pool.shutdown(wait=False)

    def _image_of(self, request: TicketRequest) -> ImageFile:
        return self._images.get(request.image_name) or self.image(request.image_name)

    def _add_ticket(self, grant: TicketGrant) -> None:
        first: TransferProgress = self._connection.ask(AddTicket(grant=grant), TransferProgress, timeout_s=_TICKET_S)
        self._telemetry.add(first, (_HOME,))

    def _send(self, request: Request) -> None:
        """Send a request unless the connection is broken: then tickets are invalid anyway, and slots are repeated."""
        self._connection.post(request)

    def _ask_lasting(self, request: Lasting) -> None:
        self._lasting[type(request), request.subject] = request
        self._connection.ask(request)

    # What the connection calls

    def on_message(self, message: Message) -> None:
        """Handle a message of the depot, on the reading thread."""
        match message:
            case EventMessage(event):
                self._telemetry.take_event(event, _HOME)
            case ProgressUpdates(updates):
                self._telemetry.take_updates(updates)
            case RefusedLogin(failure):
                self._telemetry.take_login_failure(failure)
            case TicketsInvalidated(ticket_ids, reason):
                self._telemetry.invalidate(ticket_ids, reason)
            case ImageHashed(name, done_bytes, size_bytes):
                self._hashed[name] = (done_bytes, size_bytes)
            case SlotsGranted(numbers):
                self._slots.take(numbers)
            case SetLoadElsewhere() | SetSiteCap() | SetSiteLink() if self._push_service is not None:
                self._push_service.take(message)

    def on_lost(self, reason: str) -> None:
        """Invalidate all unfinished tickets after a broken connection."""
        self._telemetry.take_end(reason, False, _HOME)

    def introduce(self, channel: RpcChannel, welcome: Welcome) -> None:
        """Send a new depot the run's images, and the caps of its sites.

        Raises:
            ConnectionBroken: It has ended.
            ConfigInvalid: It came back without a transport that this run needs.
            FlashferryError: It refuses.
        """
        assert self._offer is not None
        if missing := set(self._transports) - {name for one in welcome.settings.listeners for name in one.transports}:
            raise ConfigInvalid(
                f"expected {', '.join(sorted(missing))} among the transports that the depot serves, as before",
                step="server",
                hint="Start the depot as it was started before, and resume the run",
            )
        for request in (self._offer, *self._lasting.values()):
            channel.ask_alone(request)
        for load in tuple(self._loads.values()):
            channel.post(SiteLoadUpdate(load=load))
        self._telemetry.begin_anew(_HOME)

    def slot_requests(self) -> tuple[Request, ...]:
        """Return the requests for the slots that this run holds, and for those that it waits for."""
        return self._slots.again()

    def on_given_up(self) -> None:
        """Let all that wait for a slot proceed: the depot will not come back."""
        self._slots.give_up()

    def _on_push_message(self, message: Message) -> None:
        match message:
            case EventMessage(event):
                self._telemetry.take_event(event, PUSH)
            case SiteLoadUpdate(load):
                self._loads.pop(load.site, None)
                if load.transfers:
                    self._loads[load.site] = load
                self._send(message)


def _offered(path: Path) -> OfferedPath:
    try:
        return OfferedPath(path=path, identity=None if path.is_dir() else FileIdentity.of(path.stat()))
    except OSError as error:
        raise ConfigInvalid(f"image {path}: {error.strerror}", step="server", hint="Check the path") from None
