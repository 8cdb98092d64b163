"""The FTP data connection."""

from __future__ import annotations

import socket
import warnings
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from flashferry.fileserver import sockets
from flashferry.fileserver.image_stream import Ending, ImageSending, Retrieval
from flashferry.fileserver.protocol import Client

if TYPE_CHECKING:
    from flashferry.fileserver.transfer import Transfer
    from ftpserver.control import FtpOptions

__all__ = ["Acceptor", "Connector", "DTPHandler", "FTPHandler", "FTPServer", "Fifo", "FtpClient", "PassiveDTP"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from pyftpdlib.handlers import DTPHandler, FTPHandler
    from pyftpdlib.handlers.ftp.dispatchers import PassiveDTP
    from pyftpdlib.ioloop import Acceptor, Connector
    from pyftpdlib.servers import FTPServer


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
    def options(self) -> FtpOptions:
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


_REPLIES = {
    Ending.DELIVERED: "226 Transfer complete.",
    Ending.LOST: "426 Data connection lost; transfer aborted.",
    Ending.CHANGED: "451 Image changed on disk.",
    Ending.UNREADABLE: "451 Image cannot be read.",
    Ending.CUT: "426 Transfer ended by the server.",
    Ending.SILENT: "426 No progress; transfer aborted.",
}


class ImageChannel(DTPHandler):
    """A data connection that sends an image."""

    # The library's own timer counts bytes the kernel took; ours counts bytes the client acknowledged.
    timeout = 0

    def __init__(self, sock: socket.socket, cmd_channel: FtpClient) -> None:
        self.cut_reason = "the data connection was closed"
        self._sending: ImageSending | None = None
        self._data_syn = None
        super().__init__(sock, cmd_channel)
        self.producer_fifo = Fifo()
        if self.connected:
            self._data_syn = sockets.saved_syn(self.socket)
            self.call_later(cmd_channel.settings.limits.data_connect_s, self._nothing_asked)

    @property
    def retrieval(self) -> Retrieval | None:
        """What it sends; None before that was asked for."""
        return self._sending.retrieval if self._sending is not None else None

    @property
    def transfer(self) -> Transfer | None:
        """The account of it."""
        return self._sending.transfer if self._sending is not None else None

    # What the library calls when both the connection and the RETR are there.

    def push_with_producer(self, producer: Retrieval) -> None:
        """Start sending, if the ticket is still good: it may have waited for this connection for half a minute."""
        if producer.account.withdrawn(self.cmd_channel.tickets.clock()):
            self._end("426 Transfer ended by the server.")
            return
        raw_info = sockets.read_info_bytes(self.socket)
        if raw_info is None:
            self.handle_close()
            return
        self._initialized = True
        self._sending = ImageSending(
            self.cmd_channel, self, producer, raw_info, transport="ftp", data_syn=self._data_syn
        )
        self._sending.begin()

    def close_when_done(self) -> None:
        """Do nothing: the end of the image is seen by offset, not by a queue that ran empty."""

    def writable(self) -> bool:
        """Return to the loop whether there is more to send."""
        return self._sending is not None and self._sending.is_sending

    def handle_write(self) -> None:
        """Hand the kernel another piece of the image."""
        if self._sending is not None:
            self._sending.write()

    def handle_close(self) -> None:
        """Note that the client ended the connection before it had everything."""
        if self._closed:
            return
        if self._sending is None:
            self.close()
        else:
            self._sending.lost()

    def close(self) -> None:
        """Close, and settle the account if that has not been done."""
        if not self._closed and self._sending is not None:
            self._sending.settle(self.cut_reason)
        super().close()
        self._sending = None

    def handle_error(self) -> None:
        """Name an error of ours as such."""
        self.cut_reason = "internal error of the server"
        super().handle_error()

    def cut(self, reason: str) -> None:
        """End the transfer with a reason."""
        if self._sending is not None:
            self._sending.cut(reason)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer for a newer one of its ticket."""
        if self._sending is not None:
            self._sending.yield_to_newer(reason)

    # What the sending asks of its connection.

    def await_space(self) -> None:
        """Have the loop call when there is room."""
        self.modify_ioloop_events(self.ioloop.WRITE)

    def leave_loop(self) -> None:
        """Have the loop not call any more."""
        self.del_channel()

    def sending_ended(self, ending: Ending) -> None:
        """Answer the RETR, and close."""
        self.transfer_finished = ending is Ending.DELIVERED
        self._end(_REPLIES[ending])

    def _end(self, reply: str) -> None:
        self._resp: Any = (reply, self.cmd_channel.quiet)
        self.close()

    def _nothing_asked(self) -> None:
        if self._sending is None:
            self.close()
