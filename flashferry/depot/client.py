"""A run's client of the depot: the host's file server in place of one of its own.

Where the depot ends, all tickets that have not ended become invalid, as with a serving process that died; the next
request waits for the depot to come back.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.connection import RETURN_S, DepotConnection
from flashferry.fileserver import FileIdentity, ImageFile, ServerClient, SlotReservations, TransferProgress
from flashferry.fileserver.client import PUSH
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.wire import (
    AddTicket,
    EventMessage,
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
)

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from flashferry.fileserver import ServerSettings, TicketRequest
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.rpc_channel import RpcChannel
    from flashferry.fileserver.tickets import TicketGrant
    from flashferry.fileserver.wire import Lasting, Message, Request, Welcome

_TICKET_S = 120.0
"""A depot that has just come back may have to hash the image again before it accepts a ticket for it."""

_HOME = "depot"
"""Where the depot's tickets are served, as `Telemetry` names it."""


class DepotClient(ServerClient):
    """The depot as a file server, for one run.

    A request waits for a depot that has ended to come back, `return_s` at most; then `ServerGone` is raised for good.

    Args:
        path: The depot's socket.
        purpose: The run's verb.
        sample_interval_s: How often TCP_INFO is read of this run's transfers; 0.05 to 60.
        return_s: How long to wait for a depot that has ended.

    Attributes:
        path: The depot's socket.

    Raises:
        NobodyThere: No depot is running.
        NotForUs: It is another user's, or in another network.
        ConfigInvalid: It is of another release, or none.
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
        """The depot's latest first message: how it serves, where, and with which files."""
        return self._connection.welcome

    @property
    def settings(self) -> ServerSettings:
        """How the depot's server runs."""
        return self.welcome.settings

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners."""
        return self.welcome.ports

    @property
    def slot_gate(self) -> SlotReservations:
        """The site slots shared with other runs."""
        return self._slots

    @property
    def gone(self) -> str:
        """Why the depot is gone for good; empty while it runs, or may come back."""
        return self._connection.gone

    def check(self) -> None:
        """Raise `ServerGone` where the depot is gone for good."""
        self._connection.check()

    def open(self, images: tuple[Path, ...], *, pushes: bool = False) -> None:
        """Offer images, and have the depot serve them from now on.

        Args:
            images: Image files, or folders of them, as this process sees them.
            pushes: Whether some may be pushed from here, see `open_push`.

        Raises:
            ConfigInvalid: This process does not find an image.
            CatalogueInvalid: The depot cannot read one, or they make no catalogue.
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

    def image(self, name: str) -> ImageFile:
        """Return an image with its size and digests, as the depot found them.

        Raises:
            ImageUnknown: No image of that name was offered.
            ImageUnreadable: The depot cannot read it any more.
            ServerGone: The depot is gone for good.
        """
        with self._hashing:
            image: ImageFile = self._connection.ask(ReadImage(name=name), ImageFile, timeout_s=None)
            self._images[name] = image
        return image

    def _image_of(self, request: TicketRequest) -> ImageFile:
        return self._images.get(request.image_name) or self.image(request.image_name)

    def _add_ticket(self, grant: TicketGrant) -> None:
        first: TransferProgress = self._connection.ask(AddTicket(grant=grant), TransferProgress, timeout_s=_TICKET_S)
        self._telemetry.add(first, (_HOME,))

    def _send(self, request: Request) -> None:
        """Send a request; a depot that is away needs none: its tickets are invalid, and slots are repeated."""
        self._connection.post(request)

    def _ask_lasting(self, request: Lasting) -> None:
        self._lasting[type(request), request.subject] = request
        self._connection.ask(request)

    # What the connection calls

    def on_message(self, message: Message) -> None:
        """Handle a message of the depot's, on the thread that reads it."""
        match message:
            case EventMessage(event):
                self._telemetry.take_event(event, _HOME)
            case ProgressUpdates(updates):
                self._telemetry.take_updates(updates)
            case RefusedLogin(failure):
                self._telemetry.take_login_failure(failure)
            case TicketsInvalidated(ticket_ids, reason):
                self._telemetry.invalidate(ticket_ids, reason)
            case SlotsGranted(numbers):
                self._slots.take(numbers)
            case SetLoadElsewhere() | SetSiteCap() | SetSiteLink() if self._push_service is not None:
                self._push_service.take(message)

    def on_lost(self, reason: str) -> None:
        """Invalidate all tickets that have not ended: the connection broke."""
        self._telemetry.take_end(reason, False, _HOME)

    def introduce(self, channel: RpcChannel, welcome: Welcome) -> None:
        """Send a new depot what this run offers, and what applies at its sites.

        Raises:
            ConnectionBroken: It has ended.
            ConfigInvalid: It came back without what this run needs.
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
        """Let everybody in who waits for a slot: the depot will not come back."""
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
