"""The server as the rest of the project sees it: a context manager, tickets, and snapshots of what became of them.

The server itself runs in a process of its own, so that neither a long computation here nor Python's global lock slows
a transfer, and a fault there cannot take the run down. Snapshots arrive by themselves and are kept; asking for one
costs no I/O.
"""

from typing import TYPE_CHECKING, Self

from flashferry.fileserver import sockets
from flashferry.fileserver.congestion_control import first_candidates
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.fixed_login import FixedLogin, admit
from flashferry.fileserver.host_capabilities import HostCapabilities
from flashferry.fileserver.records import LoginFailure, ServerEvent, TransferProgress
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.tickets import Ticket, TicketGrant, TicketRequest, issue
from flashferry.images.catalogue import Catalogue
from flashferry.images.image import ImageFile

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import TracebackType

    from flashferry.fileserver.processes.pushes import PushAccount, PushDesk
    from flashferry.fileserver.processes.workers import LocalSender
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.settings import ServerSettings

PROCESS = "push"
"""How what is sent from here is called where the serving processes are told apart by name."""

_PUSHES = "Make it with pushes=True"


class FileServer:
    """A running server; enter it to start and open it, leave it to stop. Methods may be called from any thread.

    Its process may die, of a fault or by somebody's hand. Then everybody who watches is told (`EventKind.GONE`), every
    ticket that was not at its end is void, and who waits for one gets `ServerGone`. Where new processes may take its
    place, the next call starts one on the same port, with the site caps and fixed logins of the former.

    It may have several processes (`ListenerSettings.process`). Site caps hold over all of them, and a ticket is one
    ticket, whichever serves it. One that dies takes with it the tickets that are good there alone; the others go on,
    and those who watch are told by a notice.

    Args:
        settings: How it is to run. Images and addresses are looked at here, before anything starts.
        restarts: How many times a process that died may be replaced; what kills one may kill the next.
        pushes: Whether images may be sent from here too, see `open_push`.
        guests: Whether it serves others, who have images and push by themselves: see `take_ticket` and `join`. It
            needs no image of its own then.

    Raises:
        SettingsInvalid: An image path is missing, empty or ambiguous.
    """

    def __init__(
        self, settings: "ServerSettings", *, restarts: int = 0, pushes: bool = False, guests: bool = False
    ) -> None:
        self.settings = settings
        self.catalogue = Catalogue(settings.image_paths, cache_path=settings.hash_cache_path, may_be_empty=guests)
        self._telemetry = Telemetry(settings.processes)
        # Here, for most commands end without a server, and what the processes speak in takes time to load.
        from flashferry.fileserver.processes.workers import WorkerPool

        self._household = WorkerPool(settings, self._telemetry, restarts, has_guests=pushes or guests)
        self._push_desk: PushDesk | None = None
        if pushes:
            self._push_desk = self._desk()

    def __enter__(self) -> Self:
        self.start()
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: "TracebackType | None"
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the processes, which have their ports from now on; who connects before `open` waits.

        So tickets and fixed logins, which may take a long time for the digests of their images, are known before the
        first client is asked for one.

        Raises:
            ServerStartFailed: A process did not come up, or a port is not to be had.
        """
        self._household.start()

    def open(self) -> None:
        """Take sessions from now on, those that wait first; again is harmless.

        Raises:
            ServerGone: The server's processes have ended.
        """
        self._household.open()

    def close(self) -> None:
        """Stop the server at once; running transfers fail. Stopping twice is harmless."""
        self._household.close()

    @property
    def port(self) -> int:
        """The port in force of the first listener; a new process takes the same one.

        Raises:
            ServerGone: The server's processes have ended, and none may take their place.
        """
        self._household.check()
        return self.ports[0]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners."""
        return self._household.ports

    @property
    def transports(self) -> tuple[str, ...]:
        """The transports served, each once, in the order of the listeners."""
        return tuple(dict.fromkeys(name for listener in self.settings.listeners for name in listener.transports))

    def port_of(self, transport: str) -> int:
        """Return the port in force of a transport, of the first listener that serves it.

        Raises:
            SettingsInvalid: It is not served here.
        """
        for listener, port in zip(self.settings.listeners, self.ports, strict=True):
            if transport in listener.transports:
                return port
        raise SettingsInvalid(
            f"transport: expected one that this server serves ({', '.join(self.transports)}), found {transport!r}",
            hint="Give the server a listener for it",
        )

    @property
    def capabilities(self) -> HostCapabilities:
        """What the kernel granted to the server's process, the first if there are several."""
        return self._household.first.capabilities

    @property
    def pid(self) -> int:
        """Process id of the server's process, the last one if none runs; of the first if there are several."""
        return self._household.first.pid

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by the names that listeners give their processes, see `ListenerSettings.process`."""
        return self._household.pids

    @property
    def gone(self) -> str:
        """Why the server's process has ended, the last one if there are several; empty while one runs."""
        return self._telemetry.gone

    @property
    def ended_in_order(self) -> bool:
        """Whether it ended because it was told to; True while it runs."""
        return self._telemetry.ended_in_order

    def revive(self) -> None:
        """Have new processes take the place of those that died, as far as they may.

        Raises:
            ServerGone: None runs.
        """
        self._household.tell_living(lambda _child: None)

    @property
    def slot_gate(self) -> None:
        """Who else has a say in how many copies a site has: nobody, for this server is one run's alone."""
        return

    @property
    def whose(self) -> str:
        """What is said behind its ports where it is not the run's own; it is."""
        return ""

    @property
    def unattributed_failures(self) -> tuple[LoginFailure, ...]:
        """Logins that failed with a user no ticket has, or under a fixed login; the latest 200."""
        return self._telemetry.failures

    @property
    def notices(self) -> tuple[str, ...]:
        """What the server reported about itself, such as a congestion control the kernel refused; the latest 200."""
        return self._telemetry.notices

    def note(self, text: str) -> None:
        """Have something told to all that watch, as what the server has to say about itself."""
        self._telemetry.notice(text)

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
            SettingsInvalid: It is for transports that this server does not serve.
            ServerGone: The server's process ended.
        """
        ticket, grant = issue(request, self.image(request.image_name))
        self._household.add_ticket(grant)
        return ticket

    def take_ticket(self, grant: "TicketGrant") -> TransferProgress:
        """Take in a ticket that a guest has issued, for an image that was looked at; return its first snapshot.

        Raises:
            SettingsInvalid: It is for transports that this server does not serve.
            ServerGone: The server's process ended.
        """
        self._household.add_ticket(grant)
        return self.progress(grant.ticket_id)

    def join(self, name: str, guest: "LocalSender") -> None:
        """Have a guest take part who pushes images by himself: he is told what the processes are told.

        Args:
            name: Told apart by it from the processes and from other guests.
            guest: What he is told by; it must return at once.
        """
        self._household.join(name, guest)

    def take_load(self, name: str, load: "SiteLoad") -> None:
        """Take in what a guest does at a site: all others share the site's cap with him."""
        self._household.take_load(load, name)

    def part(self, name: str) -> None:
        """Have a guest take part no more."""
        self._household.part(name)

    def invalid_reason(self, ticket_id: str) -> str:
        """Return why a ticket died with the process that it was good in; empty where it did not."""
        return self._telemetry.invalid_reason(ticket_id)

    def open_push(self, request: TicketRequest, close: "Callable[[], None]") -> "PushAccount":
        """Take in an image that somebody sends to a device from this process; nobody can fetch it.

        Its progress is asked for, waited for and told as that of a ticket, which `revoke` ends. It shares its site's
        cap with all other transfers, of which either side hears within a second or two.

        Args:
            request: What is sent; addresses, tries and lifetime say nothing here.
            close: Ends the sender's connection, from whichever thread; called where it is to end before its time.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: Its file cannot be read.
            SettingsInvalid: This server was not made for it.
        """
        if self._push_desk is None:
            raise SettingsInvalid("open_push: expected a server that pushes, found one that does not", hint=_PUSHES)
        _, grant = issue(request, self.image(request.image_name))
        push, first = self._push_desk.open(grant, close)
        self._telemetry.add(first, (PROCESS,))
        return push

    def prepare_push(self, connection: "socket.socket") -> None:
        """Set what a push's connection begins with; call it before it connects, for what began paced stays so."""
        sockets.set_first_congestion_control(connection, first_candidates(self.settings.profile.congestion_control))

    def _desk(self) -> "PushDesk":
        from flashferry.fileserver.processes.pushes import PushDesk
        from flashferry.fileserver.processes.workers import WorkerEvents

        voice = WorkerEvents(PROCESS, self._household, self._telemetry)
        desk = PushDesk(self.settings, voice.take_event, voice.take_load)
        self._household.join(PROCESS, desk)
        return desk

    def admit(self, login: FixedLogin, files: tuple[ImageFile, ...] | None = None) -> None:
        """Let a fixed login fetch images, any number of times; each transfer gets a ticket.

        There may be several, each by its user: what each fetches counts for the site of its own. Called again for the
        same user it takes the place of the former; transfers under way go on.

        Args:
            login: The login.
            files: What it may fetch, as each was found; None: every image of the catalogue, in its present state.

        Raises:
            ImageUnreadable: An image of the catalogue cannot be read.
            ServerGone: The server's process ended.
        """
        if files is None:
            files = tuple(self.image(name) for name in self.catalogue.names())
        grant = admit(login, files)
        self._household.tell_for_good("login", grant.username, lambda child: child.admit(grant))

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest snapshot of a ticket; costs no I/O.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
        """
        return self._telemetry.progress(ticket_id)

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until something about a ticket changes, and return its newest snapshot.

        Returns at once if the ticket has come to an end, and after `timeout_s` in any case.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended while the ticket was under way.
        """
        return self._telemetry.wait(ticket_id, timeout_s)

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until a ticket has come to an end or `timeout_s` are over, and return its newest snapshot.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended while the ticket was under way.
        """
        return self._telemetry.wait_final(ticket_id, timeout_s)

    def events(self, callback: "Callable[[ServerEvent], None]") -> "Callable[[], None]":
        """Have every event handed to a callback, on a thread of the server's; it must return quickly.

        The last one is of kind GONE; where the server is gone already it is handed over at once.

        Returns:
            A function that ends the subscription.
        """
        return self._telemetry.events(callback)

    def revoke(self, ticket_id: str) -> None:
        """Make a ticket worthless and end its transfer.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago; it is worthless now.
            ServerGone: The server's process ended.
        """
        if self._push_desk is not None and self._push_desk.has(ticket_id):
            self._push_desk.revoke(ticket_id)
            return
        # First: one that failed with tries left is still good there, however long ago it was forgotten here.
        self._household.tell_living(lambda child: child.revoke(ticket_id))
        self.progress(ticket_id)

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's pacing cap, also in the middle of its transfer; None lifts it.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended.
        """
        self.progress(ticket_id)
        self._household.tell_living(lambda child: child.set_cap(ticket_id, cap_bytes_per_s))

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "given for the site") -> None:
        """Set what the running transfers of a site share; None lifts it.

        Args:
            site: Its name, as in `TicketRequest.site`, or a client's network (`ServerSettings.sites_by_network`).
            cap_bytes_per_s: Payload bytes per second of all its transfers together.
            source: Where the figure comes from, for the records.

        Raises:
            ServerGone: The server's process ended.
        """
        self._household.tell_for_good("cap", site, lambda child: child.set_site_cap(site, cap_bytes_per_s, source))

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Tell what a site's link carries, which verdicts are held against; it holds no transfer back.

        Args:
            site: As for `set_site_cap`.
            link_bytes_per_s: Payload bytes per second, > 0; None where it is not known any more.

        Raises:
            ServerGone: The server's process ended.
        """
        self._household.tell_for_good("link", site, lambda child: child.set_site_link(site, link_bytes_per_s))

    def drain(self) -> int:
        """Take no new sessions; the server ends when its transfers under way have, as on SIGTERM.

        That it has ended is told by the event GONE.

        Returns:
            How many transfers are under way, those included whose data connection is still to come.

        Raises:
            ServerGone: The server's process ended already.
        """
        return self._household.drain()
