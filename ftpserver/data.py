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
    """Send queue of a connection: a list with the two methods of a deque that `asynchat` calls.

    It has a few replies at most, and usually none. An empty `collections.deque`, which the library uses, takes 0.7 kB;
    a session has two of them, and there may be thousands of sessions.
    """

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        """Insert an item at the front."""
        self.insert(0, item)

    def popleft(self) -> Any:
        """Remove and return the first item."""
        return self.pop(0)


Connection: TypeAlias = socket.socket
"""Alias, because the client's attribute `socket` hides the module of that name."""


class FtpClient(Client, Protocol):
    """One client's control connection.

    Attributes:
        connected: Whether it is still connected.
        remote_ip: The client's address as the socket returns it, perhaps IPv4 mapped into IPv6.
        ioloop: The library's event loop.
        socket: The connection itself.
    """

    connected: bool
    remote_ip: str
    ioloop: Any
    socket: Connection

    @property
    def options(self) -> FtpOptions:
        """FTP options of the listener."""

    def respond(self, resp: str, logfun: Any = None) -> None:
        """Send a reply."""

    def quiet(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing; passed to the library instead of its logger."""

    def take_data_connection(self, connection: Connection) -> None:
        """Use a connection from this client to send its image."""

    def data_connection_failed(self, reason: str, reply: str) -> None:
        """Record that no data connection was established.

        Args:
            reason: Reason for the record.
            reply: Reply to the client's RETR, if it was sent already; PASV and PORT have been answered.
        """

    def forget_connector(self, connector: object) -> None:
        """Drop the connector of an active data connection, which has finished."""

    def note_trouble(self, text: str) -> None:
        """Record an event of this session that may explain a failure."""


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

    # With more than 30 attributes in its `__dict__` an object has a table of its own for them, of 1.6 kB here; these
    # are outside: our own, and those of the library that have a value in every connection and in no class.
    __slots__ = (
        *("_data_syn", "_sending", "cut_reason"),
        *("_data_wrapper", "_filefd", "_had_cr", "_lastdata", "_offset", "_start_time", "file_obj", "receive"),
    )

    # The library's timer counts bytes that the kernel took; ours counts bytes that the client acknowledged.
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
        """The retrieval it sends; None before the RETR."""
        return self._sending.retrieval if self._sending is not None else None

    @property
    def transfer(self) -> Transfer | None:
        """Statistics of the transfer; None before the RETR."""
        return self._sending.transfer if self._sending is not None else None

    # Called by the library when there are both a connection and a RETR.

    def push_with_producer(self, producer: Retrieval) -> None:
        """Start sending if the ticket is still valid: the RETR may have waited half a minute for this connection."""
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
        """Do nothing: the end of the image is found by offset, not by an empty queue."""

    def writable(self) -> bool:
        """Return whether there is more to send; called by the event loop."""
        return self._sending is not None and self._sending.is_sending

    def handle_write(self) -> None:
        """Hand the kernel another piece of the image."""
        if self._sending is not None:
            self._sending.write()

    def handle_close(self) -> None:
        """Handle a connection that the client closed before it had the whole image."""
        if self._closed:
            return
        if self._sending is None:
            self.close()
        else:
            self._sending.lost()

    def close(self) -> None:
        """Close, and record the end of the transfer unless that was done."""
        if not self._closed and self._sending is not None:
            self._sending.settle(self.cut_reason)
        super().close()
        self._sending = None

    def handle_error(self) -> None:
        """Record an exception in our code as the reason, and close."""
        self.cut_reason = "internal error of the server"
        super().handle_error()

    def cut(self, reason: str) -> None:
        """End the transfer with a reason."""
        if self._sending is not None:
            self._sending.cut(reason)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer in favour of a newer one of its ticket."""
        if self._sending is not None:
            self._sending.yield_to_newer(reason)

    # Called by the sender of the image.

    def await_space(self) -> None:
        """Let the event loop call `handle_write` when the socket has room."""
        self.modify_ioloop_events(self.ioloop.WRITE)

    def leave_loop(self) -> None:
        """Remove the connection from the event loop."""
        self.del_channel()

    def sending_ended(self, ending: Ending) -> None:
        """Send the final reply to the RETR, and close."""
        self.transfer_finished = ending is Ending.DELIVERED
        self._end(_REPLIES[ending])

    def _end(self, reply: str) -> None:
        self._resp: Any = (reply, self.cmd_channel.quiet)
        self.close()

    def _nothing_asked(self) -> None:
        if self._sending is None:
            self.close()
