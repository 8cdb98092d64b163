"""A file server of this process's own: its serving processes, and the client for the process that started it.

Each serving process is separate, so that neither a long computation here nor Python's global lock slows a transfer, and
a fault there does not end the run.
"""

from typing import TYPE_CHECKING, Self

from flashferry.fileserver.client import PUSH, ServerClient
from flashferry.fileserver.fixed_login import FixedLogin, admit
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.wire import AdmitLogin
from flashferry.fileserver.workers import WorkerEvents, WorkerPool
from flashferry.images.catalogue import Catalogue

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from flashferry.fileserver.host_capabilities import HostCapabilities
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import TicketGrant
    from flashferry.fileserver.transfer_records import TransferProgress
    from flashferry.fileserver.wire import Lasting, Request
    from flashferry.fileserver.workers import LocalSender
    from flashferry.images.image import ImageFile


class FileServer(ServerClient):
    """A server started from this process; enter it to start and open it, leave it to stop.

    A serving process that died is replaced on the same port with the next request, as often as `restarts` allows, with
    the site caps and fixed logins of its predecessor. With several processes (`ListenerSettings.process`), site caps
    apply over all of them, and a ticket is one ticket, whichever serves it; the end of one is a notice, the end of the
    last is the event GONE.

    Args:
        settings: How it runs. Images and addresses are checked here, before anything starts.
        restarts: How many processes that died may be replaced; what ended one may end the next.
        pushes: Whether images may be sent from here too, see `open_push`.
        is_shared: Whether runs of other processes use it, with images and pushes of their own: see `take_ticket` and
            `join`. It needs no image of its own then.

    Raises:
        SettingsInvalid: An image path is missing, empty or ambiguous.
    """

    def __init__(
        self, settings: "ServerSettings", *, restarts: int = 0, pushes: bool = False, is_shared: bool = False
    ) -> None:
        super().__init__(Telemetry(settings.processes))
        self._settings = settings
        self.catalogue = Catalogue(settings.image_paths, cache_path=settings.hash_cache_path, may_be_empty=is_shared)
        self._workers = WorkerPool(settings, self._telemetry, restarts, has_senders=pushes or is_shared)
        if pushes:
            events = WorkerEvents(PUSH, self._workers, self._telemetry)
            self._workers.join(PUSH, self._new_push_service(events.on_message))

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
        """Start the processes and bind their ports; clients that connect wait until `open`.

        Tickets and fixed logins, which may take long for the digests of their images, are known before then.

        Raises:
            ServerStartFailed: A process did not start, or a port is not available.
        """
        self._workers.start()

    def open(self) -> None:
        """Accept sessions, those that wait first. Idempotent.

        Raises:
            ServerGone: The server's processes have ended.
        """
        self._workers.open()

    def close(self) -> None:
        """Stop the server at once; running transfers fail. Idempotent."""
        self._workers.close()

    @property
    def settings(self) -> "ServerSettings":
        """The server's settings."""
        return self._settings

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners; a new process takes the same ones."""
        return self._workers.ports

    @property
    def capabilities(self) -> "HostCapabilities":
        """What the kernel granted to the server's first process."""
        return self._workers.first.capabilities

    @property
    def pid(self) -> int:
        """Process id of the server's first process, the latest one if none runs."""
        return self._workers.first.pid

    @property
    def pids(self) -> dict[str, int]:
        """Process ids by the names that listeners give their processes, see `ListenerSettings.process`."""
        return self._workers.pids

    @property
    def gone(self) -> str:
        """Why the last serving process has ended; empty while one runs."""
        return self._telemetry.gone

    @property
    def ended_in_order(self) -> bool:
        """Whether it ended because it was asked to; True while it runs."""
        return self._telemetry.ended_in_order

    def check(self) -> None:
        """Raise `ServerGone` where all processes have ended and none may be replaced."""
        self._workers.check()

    def revive(self) -> None:
        """Replace the processes that died, as far as that is allowed.

        Raises:
            ServerGone: None runs.
        """
        self._workers.ask_all(None)

    def note(self, text: str) -> None:
        """Report a text to all subscribers as a notice of the server's."""
        self._telemetry.notice(text)

    def image(self, name: str, *, on_progress: "Callable[[int, int], None] | None" = None) -> "ImageFile":
        """Return an image with its size and digests, hashing it if that was not done in its present state.

        Args:
            name: Its name in the catalogue.
            on_progress: Called with bytes hashed and size while hashing.

        Raises:
            ImageUnknown: No image has that name.
            ImageUnreadable: The file is gone, empty, unreadable or changed while it was hashed.
        """
        return self.catalogue.image(name, on_progress=on_progress)

    def _add_ticket(self, grant: "TicketGrant") -> None:
        self._workers.add_ticket(grant)

    def _send(self, request: "Request") -> None:
        self._workers.ask_all(request)

    def _ask_lasting(self, request: "Lasting") -> None:
        self._workers.ask_lasting(request)

    def admit(self, login: FixedLogin, files: "tuple[ImageFile, ...] | None" = None) -> None:
        """Let a fixed login fetch images, any number of times; each transfer gets a ticket of its own.

        There may be several logins, each with a site of its own. A later call for the same user replaces the former;
        transfers under way go on.

        Args:
            login: The login.
            files: What it may fetch, as found; None: every image of the catalogue, in its present state.

        Raises:
            ImageUnreadable: An image of the catalogue cannot be read.
            ServerGone: The server's processes have ended.
        """
        if files is None:
            files = tuple(self.image(name) for name in self.catalogue.names())
        self._ask_lasting(AdmitLogin(grant=admit(login, files)))

    def drain(self) -> int:
        """Accept no new sessions; the server ends after its last transfer, as on SIGTERM, with the event GONE.

        Returns:
            How many transfers are under way, including those whose data connection is still to come.

        Raises:
            ServerGone: The server's processes have ended.
        """
        return self._workers.drain()

    # For runs of other processes that share it.

    def take_ticket(self, grant: "TicketGrant") -> "TransferProgress":
        """Add a ticket that another run issued, for an image that was checked; return its first snapshot.

        Raises:
            SettingsInvalid: It is for transports that this server does not serve.
            ServerGone: The server's processes have ended.
        """
        self._add_ticket(grant)
        return self.progress(grant.ticket_id)

    def join(self, name: str, sender: "LocalSender") -> None:
        """Let a sender outside the serving processes share sites with them; its name is unique."""
        self._workers.join(name, sender)

    def take_load(self, name: str, load: "SiteLoad") -> None:
        """Set the load of such a sender at a site, whose cap all senders share."""
        self._workers.take_load(load, name)

    def leave(self, name: str) -> None:
        """Remove such a sender."""
        self._workers.leave(name)

    def invalid_reason(self, ticket_id: str) -> str:
        """Return why a ticket ended with the process that served it; empty where it did not."""
        return self._telemetry.invalid_reason(ticket_id)
