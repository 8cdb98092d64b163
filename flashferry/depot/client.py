"""A run's side of the depot: the methods of a file server of its own, answered by the host's.

What is known of the run's tickets is kept here, as it is beside a server of one's own: the depot tells it by itself,
and asking for it costs no I/O. Where the depot goes, all tickets that were not at their end are void, as with a serving
process that died; what is asked next waits for it to come back.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from flashferry.core.errors import ConfigInvalid
from flashferry.depot import messages as said
from flashferry.depot.link import RETURN_S, Link
from flashferry.depot.slot_reservations import SlotBook
from flashferry.fileserver import FileIdentity, ImageFile, SettingsInvalid, Ticket, TransferProgress
from flashferry.fileserver.congestion_control import first_candidates
from flashferry.fileserver.sockets import set_first_congestion_control
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.tickets import TicketRequest, issue
from flashferry.fileserver.wire import (
    AddTicket,
    Happened,
    Pulses,
    RefusedLogin,
    Revoke,
    SetCap,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from flashferry.depot.messages import Request, Saying, Welcome
    from flashferry.depot.rpc_channel import RpcChannel
    from flashferry.fileserver import LoginFailure, PushAccount, ServerEvent
    from flashferry.fileserver.processes.pushes import PushDesk
    from flashferry.fileserver.rate_limits import SiteLoad

_TICKET_S = 120.0
"""A depot that has just come back may have to read the image once more before it takes a ticket for it."""

_HOME, _PUSH = "depot", "push"
"""Where a ticket is good, as `Telemetry` knows it: at the depot, or here, where no end of the depot's ends it."""


class DepotClient:
    """The depot as a file server, for one run. Methods may be called from any thread.

    It is the shape of `flashferry.depot.server.Server`, and raises what `FileServer` does. Whatever has to reach the
    depot waits for it to come back where it has gone, `return_s` at most; then `ServerGone` is raised for good.

    Args:
        path: The depot's socket.
        purpose: What for, in a word: the run's verb.
        sample_interval_s: How often TCP_INFO is read of this run's transfers; 0.05 to 60.
        return_s: How long a depot that has gone is waited for.

    Attributes:
        path: The depot's socket.

    Raises:
        NobodyThere: No depot is there.
        NotForUs: It is another user's, or in another network.
        ConfigInvalid: It is of another release, or none.
    """

    def __init__(
        self, path: Path, purpose: str, *, sample_interval_s: float | None = None, return_s: float = RETURN_S
    ) -> None:
        self.path = path
        self._sample_interval_s = sample_interval_s
        self._telemetry = Telemetry((_HOME,))
        self._slots = SlotBook(self._tell)
        self._offer: said.Offer | None = None
        self._caps: dict[str, said.StateCap] = {}
        self._links: dict[str, SetSiteLink] = {}
        self._loads: dict[str, SiteLoad] = {}
        self._images: dict[str, ImageFile] = {}
        self._hashing = threading.Lock()
        self._desk: PushDesk | None = None
        self._link: Link | None = None
        self._link = Link(path, purpose, self, return_s=return_s)
        self._settings = self._link.welcome.settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def welcome(self) -> Welcome:
        """What the depot said of itself last: how it serves, where, and with which files."""
        return self._line.welcome

    def open(self, images: tuple[Path, ...], *, pushes: bool = False) -> None:
        """Offer images, and have the depot serve them from now on.

        Args:
            images: Image files, or folders of them, as this process sees them.
            pushes: Whether some may be pushed from here, see `open_push`.

        Raises:
            ConfigInvalid: An image is not there for this process.
            CatalogueInvalid: The depot cannot read one, or they make no catalogue.
            ImageUnreadable: The depot cannot read one, or sees another file there.
            ServerGone: The depot has just ended.
        """
        self._offer = said.Offer(paths=tuple(_offered(path.absolute()) for path in images), pushes=pushes)
        if pushes:
            self._desk = self._new_desk()
        self._line.open()

    def close(self) -> None:
        """Part from the depot: its tickets are worthless then."""
        if self._link is not None:
            self._link.close()

    @property
    def port(self) -> int:
        """The port of the depot's first listener.

        Raises:
            ServerGone: The depot has gone for good.
        """
        self._line.check()
        return self.welcome.ports[0]

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports that the depot serves, each once."""
        return tuple(dict.fromkeys(name for one in self.welcome.settings.listeners for name in one.transports))

    def port_of(self, transport: str) -> int:
        """Return the depot's port for a transport.

        Raises:
            SettingsInvalid: It is not served there.
        """
        for listener, port in zip(self.welcome.settings.listeners, self.welcome.ports, strict=True):
            if transport in listener.transports:
                return port
        raise SettingsInvalid(
            f"transport: expected one that the depot serves ({', '.join(self.transports)}), found {transport!r}",
            hint="Start the depot with it among --transports, or give --depot never",
        )

    @property
    def whose(self) -> str:
        """What is said behind its ports."""
        return f" of the depot at {self.path}"

    @property
    def slot_gate(self) -> SlotBook:
        """Who grants the slots of sites to this run and to others."""
        return self._slots

    @property
    def gone(self) -> str:
        """Why the depot is gone for good; empty while it is there, or may come back."""
        return self._line.gone

    @property
    def unattributed_failures(self) -> tuple[LoginFailure, ...]:
        """Logins that failed with a user no ticket has, at the depot as a whole; the latest 200."""
        return self._telemetry.failures

    @property
    def notices(self) -> tuple[str, ...]:
        """What the depot had to say about itself since this run came."""
        return self._telemetry.notices

    # Images and tickets

    def image(self, name: str) -> ImageFile:
        """Return an image with its size and digests, as the depot found them.

        Raises:
            ImageUnknown: No image of that name was offered.
            ImageUnreadable: The depot cannot read it any more.
            ServerGone: The depot has gone for good.
        """
        with self._hashing:
            image: ImageFile = self._line.ask(said.Digest(name=name), ImageFile, timeout_s=None)
            self._images[name] = image
        return image

    def issue_ticket(self, request: TicketRequest) -> Ticket:
        """Make a one-time credential for one image; the password is known here alone.

        Raises:
            ImageUnknown: No image of that name was offered.
            ImageUnreadable: Its file cannot be read, or changed.
            SettingsInvalid: It is for transports that the depot does not serve.
            ServerGone: The depot has gone for good, or is ending.
        """
        if request.sample_interval_s is None:
            request = replace(request, sample_interval_s=self._sample_interval_s)
        ticket, grant = issue(request, self._known(request.image_name))
        first: TransferProgress = self._line.ask(AddTicket(grant=grant), TransferProgress, timeout_s=_TICKET_S)
        self._telemetry.add(first, (_HOME,))
        return ticket

    def _known(self, name: str) -> ImageFile:
        return self._images.get(name) or self.image(name)

    def open_push(self, request: TicketRequest, close: Callable[[], None]) -> PushAccount:
        """Take in an image that is pushed from this process; see `FileServer.open_push`.

        Raises:
            ImageUnknown: No image of that name was offered.
            SettingsInvalid: The images were not offered for pushes.
        """
        if self._desk is None:
            raise SettingsInvalid("open_push: expected images offered for pushes", hint="Open it with pushes=True")
        _, grant = issue(request, self._known(request.image_name))
        push, first = self._desk.open(grant, close)
        self._telemetry.add(first, (_PUSH,))
        return push

    def prepare_push(self, connection: socket.socket) -> None:
        """Set what a push's connection begins with; call it before it connects."""
        set_first_congestion_control(connection, first_candidates(self._settings.profile.congestion_control))

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest snapshot of a ticket; costs no I/O.

        Raises:
            TicketUnknown: This run issued no such ticket, or it came to its end long ago.
        """
        return self._telemetry.progress(ticket_id)

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until something about a ticket changes, and return its newest snapshot; see `FileServer.wait`.

        Raises:
            TicketUnknown: This run issued no such ticket, or it came to its end long ago.
            ServerGone: The depot, or its process, ended while the ticket was under way.
        """
        return self._telemetry.wait(ticket_id, timeout_s)

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until a ticket has come to an end or `timeout_s` are over; raises what `wait` does."""
        return self._telemetry.wait_final(ticket_id, timeout_s)

    def events(self, callback: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have what happens to this run's tickets, and to the depot, handed to a callback; see `FileServer.events`."""
        return self._telemetry.events(callback)

    def revoke(self, ticket_id: str) -> None:
        """Make a ticket worthless and end its transfer; one of a depot that has gone is worthless already.

        Raises:
            TicketUnknown: This run issued no such ticket, or it came to its end long ago.
        """
        if self._desk is not None and self._desk.has(ticket_id):
            self._desk.revoke(ticket_id)
            return
        self.progress(ticket_id)
        self._tell(Revoke(ticket_id=ticket_id))

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's pacing cap, payload bytes per second; None lifts it.

        Raises:
            TicketUnknown: This run issued no such ticket, or it came to its end long ago.
        """
        self.progress(ticket_id)
        self._tell(SetCap(ticket_id=ticket_id, cap_bytes_per_s=cap_bytes_per_s))

    # Sites

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "given for the site") -> None:
        """Say what the transfers of a site may take together; the least that any run says holds for all.

        Raises:
            ServerGone: The depot has gone for good.
        """
        stated = self._caps[site] = said.StateCap(site=site, cap_bytes_per_s=cap_bytes_per_s, source=source)
        self._line.ask(stated)

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Tell what a site's link carries, payload bytes per second; what was said last holds.

        Raises:
            ServerGone: The depot has gone for good.
        """
        stated = self._links[site] = SetSiteLink(site=site, link_bytes_per_s=link_bytes_per_s)
        self._line.ask(stated)

    # What the line calls

    def hear(self, saying: Saying) -> None:
        """Take what the depot says, on the thread that reads it."""
        match saying:
            case Happened(event):
                self._telemetry.take_event(event, _HOME)
            case Pulses(pulses):
                self._telemetry.take_pulses(pulses)
            case RefusedLogin(failure):
                self._telemetry.take_login_failure(failure)
            case said.TicketsInvalidated(ticket_ids, reason):
                self._telemetry.void(ticket_ids, reason)
            case said.Granted(numbers):
                self._slots.take(numbers)
            case SiteLoadUpdate(load) if self._desk is not None:
                self._desk.note(load)
            case SetSiteCap(site, cap_bytes_per_s, source) if self._desk is not None:
                self._desk.set_site_cap(site, cap_bytes_per_s, source)
            case SetSiteLink(site, link_bytes_per_s) if self._desk is not None:
                self._desk.set_site_link(site, link_bytes_per_s)

    def lost(self, reason: str) -> None:
        """Note that the line broke: all tickets that were not at their end are void."""
        self._telemetry.take_end(reason, False, _HOME)

    def begin(self, talk: RpcChannel, welcome: Welcome) -> None:
        """Tell a depot that knows nothing of this run what is offered, and what holds at its sites.

        Raises:
            LineBroken: It has ended.
            ConfigInvalid: It came back without what this run needs.
            FlashferryError: It refuses.
        """
        assert self._offer is not None
        if missing := set(self._served()) - {name for one in welcome.settings.listeners for name in one.transports}:
            raise ConfigInvalid(
                f"expected {', '.join(sorted(missing))} among the transports that the depot serves, as before",
                step="server",
                hint="Start the depot as it was started before, and resume the run",
            )
        talk.ask_alone(self._offer)
        standing: tuple[Request, ...] = (*self._caps.values(), *self._links.values())
        for stated in standing:
            talk.ask_alone(stated)
        for load in tuple(self._loads.values()):
            talk.tell(said.Pushed(load=load))
        self._telemetry.begin_anew(_HOME)

    def repeat(self) -> tuple[Request, ...]:
        """Return the slots that this run holds, and those that it waits for."""
        return self._slots.again()

    def given_up(self) -> None:
        """Note that the depot will not come back: the run's own limits hold alone."""
        self._slots.give_up()

    def _served(self) -> tuple[str, ...]:
        return tuple(name for one in self._settings.listeners for name in one.transports)

    @property
    def _line(self) -> Link:
        assert self._link is not None
        return self._link

    def _tell(self, request: Request) -> None:
        self._line.tell(request)

    def _new_desk(self) -> PushDesk:
        from flashferry.fileserver.processes.pushes import PushDesk

        return PushDesk(self._settings, lambda event: self._telemetry.take_event(event, _PUSH), self._take_load)

    def _take_load(self, load: SiteLoad) -> None:
        """Tell the depot what our own pushes do at a site: they share its cap with all others."""
        self._loads.pop(load.site, None)
        if load.transfers:
            self._loads[load.site] = load
        self._tell(said.Pushed(load=load))


def _offered(path: Path) -> said.OfferedPath:
    try:
        return said.OfferedPath(path=path, identity=None if path.is_dir() else FileIdentity.of(path.stat()))
    except OSError as error:
        raise ConfigInvalid(f"image {path}: {error.strerror}", step="server", hint="Check the path") from None
