"""What a run needs of a file server, whoever's it is: one of its own, or the host's depot.

`flashferry.fileserver.FileServer` and `flashferry.depot.client.DepotClient` are both of this shape, so that a run need
not know which it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from flashferry.fileserver import (
        ImageFile,
        LoginFailure,
        PushAccount,
        ServerEvent,
        Ticket,
        TicketRequest,
        TransferProgress,
    )


class SlotGate(Protocol):
    """Who grants a site's slots to several runs; each run keeps its own limits besides.

    A number stands for one slot from the moment that it is asked for until it is given back.
    """

    def ask(self, site: str | None, limit: int | None, granted: Callable[[], None]) -> int | None:
        """Ask for a slot; who waits longest gets it, of the runs that wait the one that has fewest there.

        Args:
            site: For a copy to it; None for one that counts for no site.
            limit: How many copies this run would have there at a time, >= 1; the least of all runs holds.
            granted: Called once it is granted, on a thread of the gate's, never in the midst of this call.

        Returns:
            Its number; None where nobody grants slots any more: then the run's own limits hold alone.
        """
        ...

    def claim(self, site: str | None, limit: int | None) -> int | None:
        """Take a slot at once, also where there is none; arguments and result are those of `ask`."""
        ...

    def free(self, number: int) -> None:
        """Give a slot back, or stop waiting for it."""
        ...


class Server(Protocol):
    """A file server as a run sees it. Methods may be called from any thread; see `FileServer` for what they raise."""

    @property
    def port(self) -> int:
        """Return the port that it listens on first; raises ServerGone where it has ended for good."""
        ...

    def port_of(self, transport: str) -> int:
        """Return the port on which it serves a transport."""
        ...

    @property
    def whose(self) -> str:
        """Return what is said behind its ports where it is not the run's own, such as ` of the depot at PATH`."""
        ...

    @property
    def slot_gate(self) -> SlotGate | None:
        """Return who grants the slots of sites to this run and to others; None where it is alone."""
        ...

    def image(self, name: str) -> ImageFile:
        """Return an image with its size and digests."""
        ...

    def issue_ticket(self, request: TicketRequest) -> Ticket:
        """Issue credentials for one image."""
        ...

    def prepare_push(self, connection: socket.socket) -> None:
        """Set what a connection for a push begins with."""
        ...

    def open_push(self, request: TicketRequest, close: Callable[[], None]) -> PushAccount:
        """Take in an image that we send by ourselves."""
        ...

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest account of a ticket; costs no I/O."""
        ...

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait for news of a ticket."""
        ...

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait for the end of a ticket."""
        ...

    def events(self, callback: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Have what happens to this run's tickets, and to the server, handed to a callback; return what ends that."""
        ...

    @property
    def unattributed_failures(self) -> tuple[LoginFailure, ...]:
        """Return logins that failed and that no ticket is concerned with; the latest 200."""
        ...

    def revoke(self, ticket_id: str) -> None:
        """Make a ticket worthless."""
        ...

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's cap, payload bytes per second; None lifts it."""
        ...

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str = "given for the site") -> None:
        """Say what the transfers of a site may take together, payload bytes per second; None: this run says nothing."""
        ...

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Tell what a site's link carries, payload bytes per second."""
        ...

    def close(self) -> None:
        """End it for this run: its tickets are worthless then. Twice is harmless."""
        ...
