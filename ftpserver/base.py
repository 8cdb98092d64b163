"""What the parts of FTP build on: pyftpdlib's classes, and a client as its data connections see it.

The library is subclassed, never patched. It is built on modules that Python 3.11 deprecates and that come from pinned
packages from 3.12 on, so its classes are imported here alone.

The control connection names the classes of its data connections, so these must not import it in turn: `FtpClient` is
what `listeners` and `data` need of it.
"""

import socket
import warnings
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from flashferry.fileserver.protocol import Client

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.handlers import DTPHandler, FTPHandler
    from pyftpdlib.handlers.ftp.dispatchers import PassiveDTP
    from pyftpdlib.ioloop import Acceptor, Connector
    from pyftpdlib.servers import FTPServer

if TYPE_CHECKING:
    from ftpserver.settings import FtpOptions


__all__ = ["Acceptor", "Connector", "DTPHandler", "FTPHandler", "FTPServer", "Fifo", "FtpClient", "PassiveDTP"]


class Fifo(list[Any]):
    """What waits to be sent on a connection: a list with the two methods of a deque that `asynchat` calls.

    A handful of replies at most is in it, most of the time none. An empty `collections.deque`, which the library uses,
    takes 0.7 kB; a session has two of them, and there may be thousands of sessions.
    """

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        """Put something before all the rest."""
        self.insert(0, item)

    def popleft(self) -> Any:
        """Take the first out."""
        return self.pop(0)


Connection: TypeAlias = socket.socket
"""A name of its own, for a client's attribute `socket` hides the module's."""


class FtpClient(Client, Protocol):
    """One client's control connection.

    Attributes:
        connected: Whether it is still there.
        remote_ip: Its address as the socket gives it, perhaps IPv4 mapped into IPv6.
        ioloop: The library's event loop.
        socket: The connection itself.
    """

    connected: bool
    remote_ip: str
    ioloop: Any
    socket: Connection

    @property
    def options(self) -> "FtpOptions":
        """How FTP is served."""

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
