"""The server as the rest of the project sees it: a context manager, tickets, and snapshots of what became of them.

The server itself runs in a process of its own, so that neither a long computation here nor Python's global lock slows
a transfer, and a fault there cannot take the run down. Snapshots arrive by themselves and are kept; asking for one
costs no I/O.
"""

import threading
import time
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Self

from flashferry.fileserver.child import Child
from flashferry.fileserver.errors import FileServerError, ServerGone
from flashferry.fileserver.host_capabilities import HostCapabilities
from flashferry.fileserver.logins import FixedLogin, admit
from flashferry.fileserver.records import EventKind, LoginFailure, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.settings import LOG
from flashferry.fileserver.snapshots import Snapshots, TicketConditions
from flashferry.fileserver.tickets import Ticket, TicketRequest, issue
from flashferry.fileserver.wire import (
    AddTicket,
    AdmitLogin,
    Drain,
    Happened,
    LoginRefused,
    Pulse,
    Pulses,
    Revoke,
    SetCap,
    SetSiteCap,
    SetSiteLink,
)
from flashferry.images.catalogue import Catalogue
from flashferry.images.digests import ImageFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.wire import Request, Saying

_MOST_FAILURES = 200
_MOST_NOTICES = 200


class FileServer:
    """A running server; enter it to start, leave it to stop. Methods may be called from any thread.

    Its process may die, of a fault or by somebody's hand. Then everybody who watches is told (`EventKind.GONE`), every
    ticket that was not at its end is void, and who waits for one gets `ServerGone`. Where new processes may take its
    place, the next call starts one on the same port, with the site caps and fixed logins of the former.

    Args:
        settings: How it is to run. Images and addresses are looked at here, before anything starts.
        restarts: How many times a process that died may be replaced; what kills one may kill the next.

    Raises:
        SettingsInvalid: An image path is missing, empty or ambiguous.
    """

    def __init__(self, settings: "ServerSettings", *, restarts: int = 0) -> None:
        self.settings = settings
        self._restarts_left = restarts
        self.catalogue = Catalogue(settings.image_paths, cache_path=settings.hash_cache_path)
        self._changed = threading.RLock()
        self._waiting = TicketConditions(self._changed)
        self._snapshots = Snapshots()
        self._failures: list[LoginFailure] = []
        self._notices: list[str] = []
        self._callbacks: list[Callable[[ServerEvent], None]] = []
        self._starting = threading.Lock()
        self._child: Child | None = None
        self._gone = ""
        self._ended_in_order = True
        # Tickets that died with their process, each with the reason.
        self._void: dict[str, str] = {}
        # What a new process has to be told: the last word on each site's cap and link, and each fixed login.
        self._standing: dict[tuple[type[Request], str], Request] = {}

    def __enter__(self) -> Self:
        self._child = self._started(self.settings)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server at once; running transfers fail. Stopping twice is harmless."""
        self._restarts_left = 0
        if self._child is not None:
            self._child.close()

    @property
    def port(self) -> int:
        """The port in force of the first listener; a new process takes the same one."""
        return self.ports[0]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners."""
        return self._latest().ports

    @property
    def capabilities(self) -> HostCapabilities:
        """What the kernel granted to the server's process."""
        return self._latest().capabilities

    @property
    def pid(self) -> int:
        """Process id of the server's process, the last one if none runs."""
        return self._latest().pid

    @property
    def gone(self) -> str:
        """Why the server's process has ended; empty while it runs."""
        return self._gone

    @property
    def ended_in_order(self) -> bool:
        """Whether it ended because it was told to; True while it runs."""
        return self._ended_in_order

    @property
    def unattributed_failures(self) -> tuple[LoginFailure, ...]:
        """Logins that failed with a user no ticket has, or under a fixed login; the latest 200."""
        with self._changed:
            return tuple(self._failures)

    @property
    def notices(self) -> tuple[str, ...]:
        """What the server had to say about itself, such as a congestion control the kernel refused."""
        with self._changed:
            return tuple(self._notices)

    def image(self, name: str, *, on_progress: "Callable[[int, int], None] | None" = None) -> ImageFile:
        """Return an image with its size and digests, hashing it if its present state was not hashed yet.

        Args:
            name: Its name in the catalogue.
            on_progress: Called with bytes hashed and size while hashing.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: The file is gone, empty, unreadable or changed while it was hashed.
        """
        return self.catalogue.image(name, on_progress=on_progress)

    def issue_ticket(self, request: TicketRequest) -> Ticket:
        """Make a one-time credential for one image.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: Its file cannot be read.
            ServerGone: The server's process ended.
        """
        ticket, grant = issue(request, self.image(request.image_name))
        first = self._running().ask(AddTicket(grant=grant), TransferProgress)
        with self._changed:
            if self._snapshots.find(ticket.ticket_id) is None:
                self._snapshots.put(first)
        return ticket

    def admit(self, login: FixedLogin) -> None:
        """Let a fixed login fetch every image of the catalogue, any number of times; each transfer gets a ticket.

        Called again for the same user it takes the place of the former, with the images' present state.

        Raises:
            ImageUnreadable: An image cannot be read.
            ServerGone: The server's process ended.
        """
        images = tuple(self.image(name) for name in self.catalogue.names())
        grant = admit(login, images)
        self._ask_standing(grant.username, AdmitLogin(grant=grant))

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest snapshot of a ticket; costs no I/O.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
        """
        with self._changed:
            return self._snapshots.get(ticket_id)

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until something about a ticket changes, and return its newest snapshot.

        Returns at once if the ticket has come to an end, and after `timeout_s` in any case.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended while the ticket was under way.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed, self._waiting.condition(ticket_id) as news:
            before = self._snapshots.get(ticket_id)
            while True:
                if ticket_id in self._void:
                    raise ServerGone(self._void[ticket_id])
                now = self._snapshots.get(ticket_id)
                left_s = deadline_s - time.monotonic()
                if now.state.is_final or now.sequence != before.sequence or left_s <= 0:
                    return now
                news.wait(left_s)

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until a ticket has come to an end or `timeout_s` are over, and return its newest snapshot.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended while the ticket was under way.
        """
        deadline_s = time.monotonic() + timeout_s
        progress = self.progress(ticket_id)
        while not progress.state.is_final and (left_s := deadline_s - time.monotonic()) > 0:
            progress = self.wait(ticket_id, left_s)
        return progress

    def events(self, callback: "Callable[[ServerEvent], None]") -> "Callable[[], None]":
        """Have every event handed to a callback, on a thread of the server's; it must return quickly.

        The last one is of kind GONE; where the server is gone already it is handed over at once.

        Returns:
            A function that ends the subscription.
        """
        with self._changed:
            self._callbacks.append(callback)
            gone = self._gone
        if gone:
            _call((callback,), _event(EventKind.GONE, gone))

        def unsubscribe() -> None:
            with self._changed:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return unsubscribe

    def revoke(self, ticket_id: str) -> None:
        """Make a ticket worthless and end its transfer.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago; it is worthless now.
            ServerGone: The server's process ended.
        """
        # First: one that failed with tries left is still good there, however long ago it was forgotten here.
        self._tell(Revoke(ticket_id=ticket_id))
        self.progress(ticket_id)

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's pacing cap, also in the middle of its transfer; None lifts it.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended.
        """
        self.progress(ticket_id)
        self._tell(SetCap(ticket_id=ticket_id, cap_bytes_per_s=cap_bytes_per_s))

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "given for the site") -> None:
        """Set what the running transfers of a site share; None lifts it.

        Args:
            site: Its name, as in `TicketRequest.site`, or a client's network (`ServerSettings.sites_by_network`).
            cap_bytes_per_s: Payload bytes per second of all its transfers together.
            source: Where the figure comes from, for the records.

        Raises:
            ServerGone: The server's process ended.
        """
        self._ask_standing(site, SetSiteCap(site=site, cap_bytes_per_s=cap_bytes_per_s, source=source))

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Tell what a site's link carries, which verdicts are held against; it holds no transfer back.

        Args:
            site: As for `set_site_cap`.
            link_bytes_per_s: Payload bytes per second, > 0; None where it is not known any more.

        Raises:
            ServerGone: The server's process ended.
        """
        self._ask_standing(site, SetSiteLink(site=site, link_bytes_per_s=link_bytes_per_s))

    def drain(self) -> int:
        """Take no new sessions; the server ends when its transfers under way have, as on SIGTERM.

        That it has ended is told by the event GONE.

        Returns:
            How many transfers are under way, those included whose data connection is still to come.

        Raises:
            ServerGone: The server's process ended already.
        """
        self._restarts_left = 0
        return self._running().ask(Drain(), int)

    def _tell(self, request: "Request") -> None:
        self._running().ask(request, NoneType)

    def _ask_standing(self, name: str, request: "Request") -> None:
        """Tell the process something that one in its place has to be told too."""
        self._tell(request)
        self._standing[type(request), name] = request

    def _latest(self) -> Child:
        if self._child is None:
            raise ServerGone("the server is not started; use it as a context manager", hint="Call it in a 'with' block")
        return self._child

    def _running(self) -> Child:
        with self._starting:
            child = self._latest()
            if self._gone and not self._restarts_left:
                raise ServerGone(self._gone)
            if self._gone:
                self._replace(child)
            return self._latest()

    def _started(self, settings: "ServerSettings") -> Child:
        return Child(settings, on_message=self._on_message, on_end=self._on_end)

    def _replace(self, dead: Child) -> None:
        """Start a new process in the place of one that died.

        Raises:
            ServerGone: It does not come up.
        """
        why, self._gone, self._ended_in_order = self._gone, "", True
        self._restarts_left -= 1
        try:
            dead.close()
            self._child = child = self._started(self.settings.at_ports(dead.ports))
            for request in self._standing.values():
                child.ask(request, NoneType)
        except FileServerError as error:
            self._gone, self._ended_in_order = f"{why}; a new one did not come up: {error.message}", False
            raise ServerGone(self._gone, hint=error.hint) from error
        self._on_event(
            _event(EventKind.NOTICE, f"{why}; a new one has taken its place, tickets of the former are void")
        )

    def _on_message(self, message: "Saying") -> None:
        match message:
            case Happened(event):
                self._on_event(event)
            case Pulses(pulses):
                self._on_pulses(pulses)
            case LoginRefused(failure):
                self._on_login_failure(failure)

    def _on_pulses(self, pulses: list[Pulse]) -> None:
        """Take the progress of many transfers at once; events are only made of it where somebody listens."""
        news = []
        with self._changed:
            for pulse in pulses:
                before = self._snapshots.find(pulse.ticket_id)
                if before is not None:
                    progress = pulse.progress(before)
                    self._snapshots.put(progress)
                    self._waiting.wake(pulse.ticket_id)
                    news.append((pulse, progress))
            callbacks = tuple(self._callbacks)
        if callbacks:
            for pulse, progress in news:
                _call(callbacks, pulse.event(progress))

    def _on_login_failure(self, failure: LoginFailure) -> None:
        with self._changed:
            self._failures = [*self._failures, failure][-_MOST_FAILURES:]
        text = f"login refused for {failure.peer_address}: {failure.reason}, user {failure.username_masked}"
        self._on_event(
            ServerEvent(kind=EventKind.LOGIN_FAILED, at=failure.at, text=text, peer_address=failure.peer_address)
        )

    def _on_event(self, event: ServerEvent) -> None:
        with self._changed:
            if event.progress is not None:
                self._snapshots.put(event.progress, new_transfer=event.kind is EventKind.START)
            elif event.kind is EventKind.NOTICE:
                self._notices = [*self._notices, event.text][-_MOST_NOTICES:]
            callbacks = tuple(self._callbacks)
            if event.progress is not None:
                self._waiting.wake(event.progress.ticket_id)
        _call(callbacks, event)

    def _on_end(self, reason: str, in_order: bool) -> None:
        """Void the tickets that were not at their end, and tell everybody."""
        events = []
        with self._changed:
            self._gone, self._ended_in_order = reason, in_order
            for before in tuple(self._snapshots.under_way()):
                self._void[before.ticket_id] = reason
                # Of one that nobody came for there is nothing to tell.
                if before.state is not TransferState.WAITING:
                    lost = replace(before, state=TransferState.FAILED, sequence=before.sequence + 1, last_error=reason)
                    self._snapshots.put(lost)
                    events.append(_event(EventKind.FAILED, reason, lost))
            self._waiting.wake_all()
            callbacks = tuple(self._callbacks)
        for event in (*events, _event(EventKind.GONE, reason)):
            _call(callbacks, event)


def _event(kind: EventKind, text: str, progress: TransferProgress | None = None) -> ServerEvent:
    address = progress.peer_address if progress is not None else None
    return ServerEvent(kind=kind, at=time.time(), text=text, peer_address=address, progress=progress)


def _call(callbacks: "tuple[Callable[[ServerEvent], None], ...]", event: ServerEvent) -> None:
    for callback in callbacks:
        try:
            callback(event)
        except Exception:  # noqa: BLE001
            # A watcher that fails must not take telemetry from everybody else.
            LOG.exception("a callback for server events failed")
