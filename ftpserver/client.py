"""A client as its data connections see it: what `listeners` and `data` need of the control connection.

The control connection names the classes of its data connections, so these must not import it in turn.
"""

import socket
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.tcp.syn import SynOptions

# What waits to be sent on a connection, in little room: most of the time nothing does.
#
# An empty `collections.deque`, which the library uses, takes 0.7 kB; a session has two of them, and there may be
# thousands of sessions.


class Fifo(list[Any]):
    """A list with the two methods of a deque that `asynchat` calls; a handful of replies at most is in it."""

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        """Put something before all the rest."""
        self.insert(0, item)

    def popleft(self) -> Any:
        """Take the first out."""
        return self.pop(0)


Connection: TypeAlias = socket.socket
"""A name of its own, for a client's attribute `socket` hides the module's."""


class Client(Protocol):
    """One client's control connection.

    Attributes:
        connected: Whether it is still there.
        remote_ip: Its address as the socket gives it, perhaps IPv4 mapped into IPv6.
        client_address: Its address for people and records.
        control_syn: What its SYN offered.
        command_log: Commands and replies so far, secrets masked.
        ioloop: The library's event loop.
        socket: The connection itself.
    """

    connected: bool
    remote_ip: str
    client_address: str
    control_syn: "SynOptions | None"
    command_log: list[str]
    ioloop: Any
    socket: Connection

    @property
    def tickets(self) -> "TicketService":
        """The server's ticket service."""

    @property
    def settings(self) -> "ServerSettings":
        """How the server runs."""

    def respond(self, resp: str, logfun: Any = None) -> None:
        """Send a reply."""

    def quiet(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing; what the library is given where it wants a logger."""

    def take_data_connection(self, connection: Connection) -> None:
        """Use a connection of this client's for its image."""

    def data_connection_failed(self, reason: str, reply: str) -> None:
        """Note that no data connection came about.

        Args:
            reason: For our books.
            reply: For the client, if it has asked for the image: PASV and PORT have their answer already.
        """

    def forget_connector(self, connector: object) -> None:
        """Note that a call to the client has come to its end."""

    def note_trouble(self, text: str) -> None:
        """Note something about this session that may explain a failure."""
