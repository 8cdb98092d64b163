"""The file server as a run sees it, its own or the host's shared one."""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.fileserver import sockets
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.socket_tuning import first_candidates
from flashferry.fileserver.ticket_accounts import issue
from flashferry.fileserver.wire import AskSlot, ClaimSlot, FreeSlot, Revoke, SetCap, SetSiteCap, SetSiteLink

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable

    from flashferry.fileserver.pushes import PushAccount, PushService
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.telemetry import Telemetry
    from flashferry.fileserver.ticket_accounts import Ticket, TicketGrant, TicketRequest
    from flashferry.fileserver.transfer_records import LoginFailure, ServerEvent, TransferProgress
    from flashferry.fileserver.wire import Lasting, Message, Request
    from flashferry.images.image import ImageFile


@dataclass(slots=True, kw_only=True)
class _Reservation:
    """A slot that is waited for or held; `on_grant` is None once it is granted."""

    site: str | None
    limit: int | None
    on_grant: Callable[[], None] | None


class SlotReservations:
    """A run's slots at a shared server. Methods may be called from any thread.

    A number stands for one slot from the moment it is asked for until it is released.

    Args:
        send: Sends a request to the server; may drop it while there is no connection, for `again` repeats them all.
    """

    def __init__(self, send: Callable[[Request], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._reservations: dict[int, _Reservation] = {}
        self._is_given_up = False

    def ask(self, site: str | None, limit: int | None, granted: Callable[[], None]) -> int | None:
        """Ask for a slot. Longest wait first; between runs, the one with the fewest slots at the site.

        Args:
            site: The site; None for a copy that counts for no site.
            limit: How many copies this run allows there at a time, >= 1; the lowest limit of all runs applies.
            granted: Called once it is granted, on another thread, never during this call.

        Returns:
            Its number; None once the server is gone for good: then only the run's own limits apply.
        """
        number = self._added(_Reservation(site=site, limit=limit, on_grant=granted))
        if number is not None:
            self._send(AskSlot(number=number, site=site, limit=limit))
        return number

    def claim(self, site: str | None, limit: int | None) -> int | None:
        """Take a slot at once, even above the limit; arguments and result are those of `ask`."""
        number = self._added(_Reservation(site=site, limit=limit, on_grant=None))
        if number is not None:
            self._send(ClaimSlot(number=number, site=site, limit=limit))
        return number

    def free(self, number: int) -> None:
        """Release a slot, or stop waiting for it."""
        with self._lock:
            known = self._reservations.pop(number, None) is not None
        if known:
            self._send(FreeSlot(number=number))

    def take(self, numbers: Iterable[int]) -> None:
        """Handle granted slots; those released meanwhile are ignored."""
        for number in numbers:
            with self._lock:
                one = self._reservations.get(number)
                granted = one.on_grant if one is not None else None
                if one is not None:
                    one.on_grant = None
            if granted is not None:
                granted()

    def again(self) -> tuple[Request, ...]:
        """Return the requests to repeat to a restarted server: held slots first, then awaited ones."""
        with self._lock:
            in_order = sorted(self._reservations.items(), key=lambda item: item[1].on_grant is not None)
            return tuple(
                (ClaimSlot if one.on_grant is None else AskSlot)(number=number, site=one.site, limit=one.limit)
                for number, one in in_order
            )

    def give_up(self) -> None:
        """Grant everything that is waited for: the server is gone, and only the run's own limits apply."""
        with self._lock:
            self._is_given_up = True
            waiting = [number for number, one in self._reservations.items() if one.on_grant is not None]
        self.take(waiting)

    def _added(self, reservation: _Reservation) -> int | None:
        with self._lock:
            if self._is_given_up:
                return None
            number = next(self._numbers)
            self._reservations[number] = reservation
            return number


PUSH = "push"
"""Name of this process in `Telemetry`, for the tickets of pushes."""


class ServerClient(ABC):
    """A file server for one run. Methods may be called from any thread.

    When a serving process dies, its tickets that had not ended become invalid: a thread that waits for one gets
    `ServerGone`, and subscribers get an event.

    Attributes:
        label: Added to texts about the server's ports: ` of the depot at PATH`; empty for the run's own server.
    """

    label = ""
    _sample_interval_s: float | None = None
    _transport_hint = "Give the server a listener for it"
    _push_service: PushService | None = None

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    @property
    @abstractmethod
    def settings(self) -> ServerSettings:
        """The server's settings."""

    @property
    @abstractmethod
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners."""

    @property
    @abstractmethod
    def gone(self) -> str:
        """Why the server has ended for good; empty while it runs."""

    @abstractmethod
    def check(self) -> None:
        """Raise `ServerGone` where the server has ended for good."""

    @abstractmethod
    def close(self) -> None:
        """End the run's use of the server: its tickets become invalid. Idempotent."""

    @abstractmethod
    def image(self, name: str, *, on_progress: Callable[[int, int], None] | None = None) -> ImageFile:
        """Return an image with its size and digests, hashing it if that was not done in its present state.

        Args:
            name: Its name in the catalogue.
            on_progress: Called with bytes hashed and size while hashing; an exception of its ends that.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: The file is gone, empty, unreadable or changed while it was hashed.
            ServerGone: The server has ended for good.
        """

    @abstractmethod
    def _add_ticket(self, grant: TicketGrant) -> None:
        """Add a ticket to the server."""

    @abstractmethod
    def _send(self, request: Request) -> None:
        """Send a request about a ticket."""

    @abstractmethod
    def _ask_lasting(self, request: Lasting) -> None:
        """Send a request that stays in force, also for a server or process that takes the place of this one."""

    @property
    def slot_reservations(self) -> SlotReservations | None:
        """The site slots shared with other runs; None where the server is this run's alone."""
        return None

    @property
    def port(self) -> int:
        """The port in force of the first listener.

        Raises:
            ServerGone: The server has ended for good.
        """
        self.check()
        return self.ports[0]

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports served, each once, in the order of the listeners."""
        return tuple(dict.fromkeys(name for listener in self.settings.listeners for name in listener.transports))

    def port_of(self, transport: str) -> int:
        """Return the port in force of a transport, of the first listener that serves it.

        Raises:
            SettingsInvalid: It is not served.
        """
        for listener, port in zip(self.settings.listeners, self.ports, strict=True):
            if transport in listener.transports:
                return port
        raise SettingsInvalid(
            f"transport: expected one that this server serves ({', '.join(self.transports)}), found {transport!r}",
            hint=self._transport_hint,
        )

    @property
    def unattributed_failures(self) -> tuple[LoginFailure, ...]:
        """Failed logins with an unknown user, or under a fixed login; the latest 200."""
        return self._telemetry.failures

    @property
    def notices(self) -> tuple[str, ...]:
        """What the server reported about itself, such as a congestion control the kernel refused; the latest 200."""
        return self._telemetry.notices

    # Tickets

    def issue_ticket(self, request: TicketRequest) -> Ticket:
        """Make a one-time credential for one image; only its salted hash leaves this process.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: Its file cannot be read, or changed.
            SettingsInvalid: It is for transports that are not served.
            ServerGone: The server has ended, or is ending.
        """
        if request.sample_interval_s is None:
            request = replace(request, sample_interval_s=self._sample_interval_s)
        ticket, grant = issue(request, self._image_of(request))
        self._add_ticket(grant)
        return ticket

    def _image_of(self, request: TicketRequest) -> ImageFile:
        return self.image(request.image_name)

    def open_push(self, request: TicketRequest, close: Callable[[], None]) -> PushAccount:
        """Open an account for an image that this process sends to a device itself; no login uses it.

        It is reported like a ticket and ended by `revoke`. It shares its site's cap with all other transfers, with a
        delay of a second or two.

        Args:
            request: What is sent; addresses, attempts and lifetime do not apply.
            close: Ends the sender's connection, from any thread; called where it has to end early.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: Its file cannot be read.
            SettingsInvalid: Pushes were not asked for when the server was opened.
        """
        if self._push_service is None:
            raise SettingsInvalid("open_push: expected a server that was opened for pushes", hint="Give pushes=True")
        _, grant = issue(request, self._image_of(request))
        push, first = self._push_service.open(grant, close)
        self._telemetry.add(first, (PUSH,))
        return push

    def prepare_push(self, connection: socket.socket) -> None:
        """Set the congestion control of a push's connection; call it before connecting, or pacing stays on."""
        sockets.set_first_congestion_control(connection, first_candidates(self.settings.profile.congestion_control))

    def _new_push_service(self, send: Callable[[Message], None]) -> PushService:
        # Start time: most runs push nothing.
        from flashferry.fileserver.pushes import PushService

        self._push_service = PushService(self.settings, send)
        return self._push_service

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest snapshot of a ticket; costs no I/O.

        Raises:
            TicketUnknown: This run issued no such ticket, or it ended long ago.
        """
        return self._telemetry.progress(ticket_id)

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until something about a ticket changes, and return its newest snapshot.

        Returns at once if the ticket has ended, and after `timeout_s` in any case.

        Raises:
            TicketUnknown: This run issued no such ticket, or it ended long ago.
            ServerGone: The server, or its process, ended while the ticket was under way.
        """
        return self._telemetry.wait(ticket_id, timeout_s)

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until a ticket has ended or `timeout_s` are over; raises what `wait` does."""
        return self._telemetry.wait_final(ticket_id, timeout_s)

    def events(self, callback: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Hand every event to a callback, on a thread of the server's; it must return quickly.

        The last one is of kind GONE; where the server has ended already it comes at once.

        Returns:
            A function that ends the subscription.
        """
        return self._telemetry.events(callback)

    def revoke(self, ticket_id: str) -> None:
        """Revoke a ticket and end its transfer.

        Raises:
            TicketUnknown: This run issued no such ticket, or it ended long ago; it is revoked now.
            ServerGone: The server's processes have ended.
        """
        if self._push_service is not None and self._push_service.has(ticket_id):
            self._push_service.revoke(ticket_id)
            return
        # First: one that failed with attempts left is still good there, however long ago it was forgotten here.
        self._send(Revoke(ticket_id=ticket_id))
        self.progress(ticket_id)

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's pacing cap, payload bytes per second, also during its transfer; None lifts it.

        Raises:
            TicketUnknown: This run issued no such ticket, or it ended long ago.
            ServerGone: The server's processes have ended.
        """
        self.progress(ticket_id)
        self._send(SetCap(ticket_id=ticket_id, cap_bytes_per_s=cap_bytes_per_s))

    # Sites

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "given for the site") -> None:
        """Set the cap that the transfers of a site share; None lifts it. The lowest cap of all runs applies.

        Args:
            site: Its name, as in `TicketRequest.site`, or a client's network (`ServerSettings.sites_by_network`).
            cap_bytes_per_s: Payload bytes per second of all its transfers together.
            source: Where the figure comes from, for the records.

        Raises:
            ServerGone: The server has ended for good.
        """
        self._ask_lasting(SetSiteCap(site=site, cap_bytes_per_s=cap_bytes_per_s, source=source))

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """State what a site's link carries, for verdicts; it limits no transfer.

        Args:
            site: As for `set_site_cap`.
            link_bytes_per_s: Payload bytes per second, > 0; None where it is no longer known.

        Raises:
            ServerGone: The server has ended for good.
        """
        self._ask_lasting(SetSiteLink(site=site, link_bytes_per_s=link_bytes_per_s))
