"""What a download and an upload have in common: the control connection, and opening the data connection.

Order on the wire: USER, PASS, TYPE I, PASV (or EPSV, or PORT), RETR or STOR, QUIT. What IOS sends beyond that is not
known (facts: "wire sequence unconfirmed").
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.addresses import bind_to
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.ftp_protocol import (
    FtpProtocolError,
    Reply,
    ReplyReader,
    extended_passive_port,
    passive_address,
)
from flashferry.lab.standin.ftp_request import NO_ROUTE, AbortedError, CopyError, TransferRequest, as_copy_error
from flashferry.lab.standin.handshake import GATE, LONGEST_HOLD_S
from flashferry.lab.standin.http_protocol import HttpProtocolError
from flashferry.lab.standin.outgoing import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashferry.lab.standin.connections import ConnectionTable

CHUNK_BYTES = 65536


class Transfer:
    """One file over FTP, in a thread of its own.

    Args:
        request: Which file, as whom.
        connections: The device's table of connections.
        stop: Set by `abort`; shared with the flash's pace.
    """

    def __init__(self, request: TransferRequest, connections: ConnectionTable, stop: threading.Event) -> None:
        self.request = request
        self.last_text = ""
        self._connections = connections
        self._stop = stop
        self._reader = ReplyReader()
        self._replies: list[Reply] = []
        self._open: list[tuple[socket.socket, str]] = []
        self._lock = threading.Lock()

    def abort(self) -> None:
        """Stop the transfer from another thread; its `run` then raises AbortedError."""
        self._stop.set()
        with self._lock:
            for connection, _ in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    @contextlib.contextmanager
    def device_words(self) -> Iterator[None]:
        """Turn what goes wrong into the device's words, and close every connection."""
        try:
            yield
        except NoSpaceError as error:
            raise CopyError("copying", "Not enough space on device") from error
        except (OSError, FtpProtocolError, HttpProtocolError, CopyError) as error:
            if self._stop.is_set():
                raise AbortedError from error
            raise self.words_of(error) from error
        finally:
            for connection, _ in list(self._open):
                self.close(connection)

    def words_of(self, error: Exception) -> CopyError:
        """Return the device's words for what went wrong."""
        return as_copy_error(error)

    def log_in(self) -> socket.socket:
        """Return the control connection, logged in and in binary mode."""
        request = self.request
        control = self._connect((request.address, request.url.port))
        control.settimeout(request.reply_timeout_s)
        self.expect(self._reply(control), refused="Connection refused by remote host")
        self._send(control, f"USER {request.user}")
        reply = self._reply(control)
        if reply.code == 331:
            self._send(control, f"PASS {request.password}")
            reply = self._reply(control)
        self.expect(reply, refused="Incorrect Login/Password")
        self._send(control, "TYPE I")
        self.expect(self._reply(control), refused="Protocol error")
        return control

    def open_data(self, control: socket.socket, command: str, *, refused: str, verb: str = "opening") -> socket.socket:
        """Open the data connection and have the server open the file, by RETR or STOR."""
        if not self.request.passive:
            return self._open_active(control, command, refused, verb)
        data = self._connect(self._passive_address(control))
        data.settimeout(self.request.reply_timeout_s)
        receive_window.before_data(data, self.request.tcp.window_bytes)
        self._send(control, command)
        self.expect(self._reply(control), refused=refused, verb=verb, preliminary=True)
        return data

    def end(self, control: socket.socket, *, verb: str) -> None:
        """Wait for the final reply, and leave."""
        try:
            if self.request.dead_control:
                self._stop.wait(self.request.reply_timeout_s)
                raise TimeoutError
            self.expect(self._reply(control), refused="I/O error", verb=verb)
        except TimeoutError as error:
            raise CopyError(verb, "Timed out") from error
        with contextlib.suppress(OSError, FtpProtocolError, CopyError):
            self._send(control, "QUIT")

    def expect(self, reply: Reply, *, refused: str, verb: str = "opening", preliminary: bool = False) -> None:
        """Check that a reply says yes; else fail with a verb and a reason."""
        self.last_text = reply.text
        if not (reply.is_preliminary if preliminary else reply.is_completion):
            if "ermission denied" in reply.text or "enough privileges" in reply.text:
                refused = "Permission denied"
            raise CopyError(verb, refused)

    def close(self, connection: socket.socket) -> None:
        """Close a connection and take it out of the device's table."""
        with self._lock:
            self._forget(connection)
        connection.close()

    def _passive_address(self, control: socket.socket) -> tuple[str, int]:
        if self.request.extended_passive:
            self._send(control, "EPSV")
            reply = self._reply(control)
            if reply.code == 229:
                return control.getpeername()[0], extended_passive_port(reply.text)
        self._send(control, "PASV")
        reply = self._reply(control)
        self.expect(reply, refused="Protocol error")
        return passive_address(reply.text)

    def _open_active(self, control: socket.socket, command: str, refused: str, verb: str) -> socket.socket:
        """Listen for the server: some connect at PORT, some at RETR, so the options hold over both."""
        listener = self._listen()
        host, port = listener.getsockname()
        self._keep(listener, (host, 0), (control.getpeername()[0], 0))
        with GATE.opening(self.request.tcp.syn_options):
            self._send(control, f"PORT {host.replace('.', ',')},{port // 256},{port % 256}")
            self.expect(self._reply(control), refused="Protocol error")
            self._send(control, command)
            await_call(listener, LONGEST_HOLD_S)
        self.expect(self._reply(control), refused=refused, verb=verb, preliminary=True)
        data, peer = listener.accept()
        data.settimeout(self.request.reply_timeout_s)
        self._keep(data, data.getsockname(), peer)
        receive_window.before_data(data, self.request.tcp.window_bytes)
        return data

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        receive_window.before_connect(listener, self.request.tcp.window_bytes)
        bind_to(listener, self.request.source_address)
        listener.listen(1)
        listener.settimeout(self.request.reply_timeout_s)
        return listener

    def _connect(self, address: tuple[str, int]) -> socket.socket:
        """Open a connection whose SYN carries the configured options."""
        connection = socket.socket()
        source = self.request.source_address
        self._keep(connection, (source, 0), address)
        open_connection(connection, address, source=source, tcp=self.request.tcp, stop=self._stop)
        self._keep(connection, connection.getsockname(), address)
        return connection

    def _send(self, control: socket.socket, line: str) -> None:
        control.sendall(line.encode("latin-1") + b"\r\n")

    def _reply(self, control: socket.socket) -> Reply:
        while not self._replies:
            data = control.recv(4096)
            if not data:
                raise ConnectionResetError
            self._replies += self._reader.feed(data)
        return self._replies.pop(0)

    def _keep(self, connection: socket.socket, local: tuple[str, int], peer: tuple[str, int]) -> None:
        """Remember a socket for `abort` and the table; called again when its addresses are known."""
        with self._lock:
            known = next((tcb for each, tcb in self._open if each is connection), None)
            if known is not None:
                self._connections.change(known, local, peer)
                return
            window_bytes = self.request.tcp.window_bytes
            options = self.request.tcp.syn_options
            tcb = self._connections.add(local, peer, window_bytes=window_bytes, live=connection, options=options)
            self._open.append((connection, tcb))

    def _forget(self, connection: socket.socket) -> None:
        for entry in [each for each in self._open if each[0] is connection]:
            self._open.remove(entry)
            self._connections.remove(entry[1])


class WordedTransfer(Transfer, ABC):
    """A transfer by a client whose words are data; see `flashferry.lab.standin.wording`.

    How far it has come is "connect", then "dialogue", then "file".
    """

    _stage = "connect"

    def failed(self, name: str) -> CopyError:
        """Return the error with the platform's words for it."""
        return CopyError.worded(self.request.texts[name])

    def words_of(self, error: Exception) -> CopyError:
        """Name what TCP has to say by how far the transfer had come."""
        if isinstance(error, CopyError):
            return error
        if isinstance(error, ConnectionRefusedError):
            return self.failed("refused")
        if isinstance(error, TimeoutError) or getattr(error, "errno", None) in NO_ROUTE:
            return self.failed({"connect": "unreachable", "dialogue": "silent"}.get(self._stage, "stalled"))
        return self.failed(self.name_of_loss())

    @abstractmethod
    def name_of_loss(self) -> str:
        """Return by which name the words for a lost connection are asked for."""


def await_call(listener: socket.socket, longest_s: float) -> None:
    """Wait for a connection; by poll(2), for a thousand devices have descriptors that select(2) does not take."""
    callers = select.poll()
    callers.register(listener, select.POLLIN)
    callers.poll(longest_s * 1000)
