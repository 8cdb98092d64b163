"""A real FTP download over real TCP, in a thread of its own.

Order on the wire: USER, PASS, TYPE I, PASV (or PORT), RETR, QUIT. What IOS sends beyond that is not known
(facts: "wire sequence unconfirmed").

The timer runs from the reply that opens the transfer (150) to the closed file. IOS opens the source file before
its copy loop starts the clock, so the login is not in the figure; a public log of 2,814 bytes copied in
0.007 s, less than a login takes, supports it. It is not documented: see docs/lab.md, "Doubts".
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from typing import TYPE_CHECKING

from lab.standin import receive_window
from lab.standin.flash import NoSpaceError
from lab.standin.ftp_protocol import (
    FtpProtocolError,
    Reply,
    ReplyReader,
    announced_size,
    extended_passive_port,
    passive_address,
)
from lab.standin.ftp_request import AbortedError, CopyError, PullHooks, PullRequest, Sink, as_copy_error
from lab.standin.handshake import GATE, LONGEST_HOLD_S
from lab.standin.outgoing import open_connection
from lab.standin.results import PullResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.standin.connections import ConnectionTable

_CHUNK_BYTES = 65536


class Pull:
    """One download.

    Args:
        request: What to fetch.
        connections: The device's table of connections.
        stop: Set by `abort`; shared with the flash's pace.
    """

    def __init__(self, request: PullRequest, connections: ConnectionTable, stop: threading.Event) -> None:
        self.request = request
        self._connections = connections
        self._stop = stop
        self._reader = ReplyReader()
        self._last_text = ""
        self._replies: list[Reply] = []
        self._open: list[tuple[socket.socket, str]] = []
        self._lock = threading.Lock()

    def abort(self) -> None:
        """Stop the pull from another thread; its `run` then raises AbortedError."""
        self._stop.set()
        with self._lock:
            for connection, _ in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def run(self, hooks: PullHooks) -> PullResult:
        """Fetch the file.

        Raises:
            CopyError: It failed; the words are those the device prints.
            AbortedError: `abort` was called.
        """
        try:
            return self._fetch(hooks)
        except NoSpaceError as error:
            raise CopyError("copying", "Not enough space on device") from error
        except (OSError, FtpProtocolError, CopyError) as error:
            if self._stop.is_set():
                raise AbortedError from error
            raise as_copy_error(error) from error
        finally:
            self._close_all()

    def _fetch(self, hooks: PullHooks) -> PullResult:
        request = self.request
        control = self._connect((request.url.host, request.url.port))
        control.settimeout(request.reply_timeout_s)
        self._login(control)
        data = self._open_data(control)
        if not hooks.may_begin():
            raise AbortedError
        opened_s = time.monotonic()
        sink = hooks.open_sink(announced_size(self._last_text))
        try:
            size = self._receive(data, sink, hooks.progress)
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self._close(data)
        self._await_final_reply(control)
        return PullResult(size_bytes=size, seconds=seconds)

    def _await_final_reply(self, control: socket.socket) -> None:
        try:
            if self.request.dead_control:
                self._stop.wait(self.request.reply_timeout_s)
                raise TimeoutError
            self._expect(self._reply(control), refused="I/O error", verb="reading")
        except TimeoutError as error:
            raise CopyError("reading", "Timed out") from error
        with contextlib.suppress(OSError, FtpProtocolError, CopyError):
            self._send(control, "QUIT")

    def _login(self, control: socket.socket) -> None:
        self._expect(self._reply(control), refused="Connection refused by remote host")
        self._send(control, f"USER {self.request.user}")
        reply = self._reply(control)
        if reply.code == 331:
            self._send(control, f"PASS {self.request.password}")
            reply = self._reply(control)
        self._expect(reply, refused="Incorrect Login/Password")
        self._send(control, "TYPE I")
        self._expect(self._reply(control), refused="Protocol error")

    def _open_data(self, control: socket.socket) -> socket.socket:
        """Open the file and the data connection."""
        if not self.request.passive:
            return self._open_active(control)
        data = self._connect(self._passive_address(control))
        data.settimeout(self.request.reply_timeout_s)
        receive_window.before_data(data, self.request.tcp.window_bytes)
        self._retrieve(control)
        self._expect_opened(control)
        return data

    def _passive_address(self, control: socket.socket) -> tuple[str, int]:
        if self.request.extended_passive:
            self._send(control, "EPSV")
            reply = self._reply(control)
            if reply.code == 229:
                return control.getpeername()[0], extended_passive_port(reply.text)
        self._send(control, "PASV")
        reply = self._reply(control)
        self._expect(reply, refused="Protocol error")
        return passive_address(reply.text)

    def _open_active(self, control: socket.socket) -> socket.socket:
        """Listen for the server: some connect at PORT, some at RETR, so the options hold over both."""
        listener = self._listen()
        host, port = listener.getsockname()
        self._keep(listener, host, (control.getpeername()[0], 0))
        with GATE.opening(self.request.tcp.syn_options):
            self._send(control, f"PORT {host.replace('.', ',')},{port // 256},{port % 256}")
            self._expect(self._reply(control), refused="Protocol error")
            self._retrieve(control)
            select.select([listener], (), (), LONGEST_HOLD_S)
        self._expect_opened(control)
        data, peer = listener.accept()
        data.settimeout(self.request.reply_timeout_s)
        self._keep(data, data.getsockname(), peer)
        receive_window.before_data(data, self.request.tcp.window_bytes)
        return data

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        receive_window.before_connect(listener, self.request.tcp.window_bytes)
        listener.bind((self.request.source_address, 0))
        listener.listen(1)
        listener.settimeout(self.request.reply_timeout_s)
        return listener

    def _retrieve(self, control: socket.socket) -> None:
        self._send(control, f"RETR {self.request.url.path}")

    def _expect_opened(self, control: socket.socket) -> None:
        self._expect(self._reply(control), refused="No such file or directory", preliminary=True)

    def _receive(self, data: socket.socket, sink: Sink, progress: Callable[[int], None]) -> int:
        size = 0
        self._stop.wait(self.request.silent_start_s)
        while chunk := data.recv(_CHUNK_BYTES):
            if not size:
                receive_window.after_first_data(data, self.request.tcp.window_bytes)
            sink.write(chunk)
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        if self._stop.is_set():
            raise AbortedError
        return size

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

    def _expect(self, reply: Reply, *, refused: str, verb: str = "opening", preliminary: bool = False) -> None:
        self._last_text = reply.text
        if not (reply.is_preliminary if preliminary else reply.is_completion):
            if "ermission denied" in reply.text:
                refused = "Permission denied"
            raise CopyError(verb, refused)

    def _keep(self, connection: socket.socket, local: tuple[str, int] | str, peer: tuple[str, int]) -> None:
        """Remember a socket for `abort` and the table; called again when its addresses are known."""
        local = (local, 0) if isinstance(local, str) else local
        with self._lock:
            for entry in [each for each in self._open if each[0] is connection]:
                self._open.remove(entry)
                self._connections.remove(entry[1])
            self._open.append((connection, self._connections.add(local, peer)))

    def _close(self, connection: socket.socket) -> None:
        with self._lock:
            for entry in [each for each in self._open if each[0] is connection]:
                self._open.remove(entry)
                self._connections.remove(entry[1])
        connection.close()

    def _close_all(self) -> None:
        for connection, _ in list(self._open):
            self._close(connection)
