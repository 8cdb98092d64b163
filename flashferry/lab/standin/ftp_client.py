"""Transfers of a device: FTP (RFC 959), and what HTTP and SSH share with it."""

from __future__ import annotations

import base64
import contextlib
import errno
import re
import select
import socket
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from email.utils import format_datetime
from typing import TYPE_CHECKING, Protocol

from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.connections import bind_to, open_connection
from flashferry.lab.standin.device_tcp import GATE, LONGEST_HOLD_S
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.receiver import PacedReceiver
from flashferry.lab.standin.server_url import DEFAULT_PORTS, PullResult

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime
    from typing import BinaryIO

    from flashferry.lab.standin.connections import ConnectionTable
    from flashferry.lab.standin.device_tcp import TcpSettings
    from flashferry.lab.standin.http_client import TlsStream
    from flashferry.lab.standin.receiver import ReceiverFigures
    from flashferry.lab.standin.server_url import ServerUrl, Wording

_PASV = re.compile(r"(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)")
_EPSV = re.compile(r"\(\|\|\|(\d{1,5})\|\)")
_SIZE = re.compile(r"\((\d+) bytes")
_LONGEST_LINE_BYTES = 8192


class FtpProtocolError(Exception):
    """The server said something that is not FTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A whole reply: codes 1yz say that something starts, 2yz that it is done."""

    code: int
    text: str


class ReplyReader:
    """Turns bytes of the control connection into replies (RFC 959 4.2)."""

    def __init__(self) -> None:
        self._buffer = b""
        self._lines: list[str] = []

    def feed(self, data: bytes) -> list[Reply]:
        """Take bytes and return the replies that are now whole.

        Raises FtpProtocolError: a line has no code, or is too long.
        """
        self._buffer += data
        *lines, self._buffer = self._buffer.split(b"\n")
        if len(self._buffer) > _LONGEST_LINE_BYTES:
            raise FtpProtocolError("a reply line is too long")
        return [reply for line in lines if (reply := self._line(line.decode("latin-1").rstrip("\r")))]

    def _line(self, line: str) -> Reply | None:
        if not self._lines and not re.match(r"[1-5]\d\d[ -]", line + " "):
            raise FtpProtocolError("a reply does not begin with a code")
        self._lines.append(line)
        code = self._lines[0][:3]
        if not line.startswith(code) or line[3:4] == "-":
            return None
        text = "\n".join(self._lines)
        self._lines = []
        return Reply(code=int(code), text=text[4:])


def passive_address(text: str) -> tuple[str, int]:
    """Return host and port of a 227 reply. Raises FtpProtocolError: there is no address in it."""
    found = _PASV.search(text)
    numbers = [int(each) for each in found.groups()] if found else []
    if len(numbers) != 6 or max(numbers) > 255:
        raise FtpProtocolError("a 227 reply without an address")
    return ".".join(map(str, numbers[:4])), numbers[4] * 256 + numbers[5]


def extended_passive_port(text: str) -> int:
    """Return the port of a 229 reply (RFC 2428). Raises FtpProtocolError: there is no port in it."""
    found = _EPSV.search(text)
    if found is None or not 0 < int(found[1]) < 65536:
        raise FtpProtocolError("a 229 reply without a port")
    return int(found[1])


def announced_size(text: str) -> int | None:
    """Return the size that a 150 reply names, if it does (RFC 959 leaves its text free)."""
    found = _SIZE.search(text)
    return int(found[1]) if found else None


NO_ROUTE = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL)
"""Nothing comes back: no route, or from a source address without a route back."""


class Sink(Protocol):
    """Where the file goes."""

    def write(self, chunk: bytes) -> None:
        """Write a piece."""

    def close(self) -> None:
        """Finish the file."""


class CopyError(Exception):
    """The copy failed: the words of ``%Error VERB url (REASON)``; ``guess`` names a text never seen on a device."""

    def __init__(self, verb: str, reason: str, *, guess: str = "") -> None:
        super().__init__(f"{verb}: {reason}")
        self.verb = verb
        self.reason = reason
        self.guess = guess

    @classmethod
    def worded(cls, wording: Wording) -> CopyError:
        """Return an error whose words are data of the platform."""
        return cls(wording.verb, wording.reason, guess=wording.name if wording.unknown else "")


class AbortedError(Exception):
    """The copy was stopped from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRequest:
    """File, login and TCP of a copy.

    Attributes:
        passive: The server listens for the data connection; with `extended_passive` EPSV before PASV (RFC 2428).
        silent_start_s: No data is read for so long, as a fault; with `dead_control` no final reply is seen.
        resolved: The host's address where the URL names it.
        trusted: Certificates (DER) of trusted authorities, for HTTPS.
        decrypts_bytes_per_s: Rate of HTTPS decryption, a model; None for the host's.
        receiver: How the process reads what a copy by FTP brings, a model; None for as fast as it comes.
    """

    url: ServerUrl
    user: str
    password: str = field(repr=False)
    source_address: str
    tcp: TcpSettings
    reply_timeout_s: float
    passive: bool = True
    extended_passive: bool = False
    silent_start_s: float = 0.0
    dead_control: bool = False
    resolved: str = ""
    texts: Mapping[str, Wording] = field(default_factory=dict)
    clock_offset_s: float = 0.0
    trusted: tuple[bytes, ...] = ()
    decrypts_bytes_per_s: float | None = None
    block_bytes: int = 512
    receiver: ReceiverFigures | None = None

    @property
    def address(self) -> str:
        """Where the server is."""
        return self.resolved or self.url.host


@dataclass(slots=True, kw_only=True)
class PullHooks:
    """Callbacks of a pull, all in its thread.

    `may_begin` returns False to end the copy; `open_sink` takes the announced size and may raise NoSpaceError.
    """

    may_begin: Callable[[], bool]
    open_sink: Callable[[int | None], Sink]
    progress: Callable[[int], None]


def as_copy_error(error: Exception) -> CopyError:
    """Return the device's words; those for refused and reset connections are unconfirmed (facts 4.4)."""
    if isinstance(error, CopyError):
        return error
    if isinstance(error, ConnectionRefusedError):
        return CopyError("opening", "Connection refused by remote host")
    if isinstance(error, TimeoutError) or getattr(error, "errno", None) in NO_ROUTE:
        return CopyError("opening", "Timed out")
    if isinstance(error, FtpProtocolError):
        return CopyError("opening", "Protocol error")
    return CopyError("reading", "I/O error")


END = b"\r\n\r\n"
"""Where a head ends."""

_WORDS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class HttpProtocolError(Exception):
    """The server said something that is not HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The head of an answer: its code, the length it announces (None for none), and whether it is chunked."""

    code: int
    length_bytes: int | None
    is_chunked: bool

    @property
    def failure(self) -> str:
        """The name of the text for an answer that brings no file; empty for one that does."""
        if 200 <= self.code < 300:
            return "chunked" if self.is_chunked else ""
        return _WORDS.get(self.code, "redirected" if 300 <= self.code < 400 else "server_error")


def request_head(request: TransferRequest, method: str, now: datetime, *, length_bytes: int | None = None) -> bytes:
    """Return the head of a GET, or of a PUT with a length, at the device's time (UTC).

    Without a user no login is sent.
    """
    url = request.url
    port = f":{url.port}" if url.port != DEFAULT_PORTS[url.scheme] else ""
    lines = [f"{method} /{url.path} HTTP/1.1", "User-Agent: cisco-IOS", f"Host: {url.host}{port}"]
    if request.user:
        login = f"{request.user}:{request.password}".encode("latin-1", "replace")
        lines.append(f"Authorization: Basic {base64.b64encode(login).decode()}")
    lines.append(f"Date: {format_datetime(now, usegmt=True)}")
    if length_bytes is not None:
        lines.append(f"Content-Length: {length_bytes}")
    lines.append("Connection: close")
    return "\r\n".join(lines).encode("latin-1", "replace") + END


def read_head(head: bytes) -> Answer:
    """Read an answer's head, without the empty line that ends it. Raises HttpProtocolError: it is none."""
    status, *lines = head.decode("latin-1").split("\r\n")
    words = status.split()
    if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdecimal():
        raise HttpProtocolError
    named = {key.strip().lower(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    length = named.get("content-length", "")
    return Answer(
        code=int(words[1]),
        length_bytes=int(length) if length.isdecimal() else None,
        is_chunked="chunked" in named.get("transfer-encoding", "").lower(),
    )


CHUNK_BYTES = 65536


class Transfer:
    """One file over FTP, in a thread of its own; `stop` is set by `abort` and shared with the flash's pace."""

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
        is_exact = self.request.receiver is not None
        device_tcp.before_data(data, self.request.tcp.window_bytes, head_comes_first=is_exact)
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
        if reply.code // 100 != (1 if preliminary else 2):
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
        device_tcp.before_data(data, self.request.tcp.window_bytes)
        return data

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        device_tcp.before_connect(listener, self.request.tcp)
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
    """A transfer by a client whose words are data; see `flashferry.lab.standin.server_url`.

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


class Pull(Transfer):
    """One download."""

    def run(self, hooks: PullHooks) -> PullResult:
        """Fetch the file.

        Raises CopyError: it failed; the words are those the device prints; AbortedError: `abort` was called.
        """
        with self.device_words():
            return self._fetch(hooks)

    def _fetch(self, hooks: PullHooks) -> PullResult:
        control = self.log_in()
        data = self.open_data(control, f"RETR {self.request.url.path}", refused="No such file or directory")
        if not hooks.may_begin():
            raise AbortedError
        opened_s = time.monotonic()
        sink = hooks.open_sink(announced_size(self.last_text))
        try:
            size = self._receive(data, sink, hooks.progress)
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self.close(data)
        self.end(control, verb="reading")
        return PullResult(size_bytes=size, seconds=seconds)

    def _receive(self, data: socket.socket, sink: Sink, progress: Callable[[int], None]) -> int:
        size = 0
        self._stop.wait(self.request.silent_start_s)
        if self.request.receiver is not None:
            return self._receive_at_pace(data, self.request.receiver, sink, progress)
        while chunk := data.recv(CHUNK_BYTES):
            if not size:
                device_tcp.after_first_data(data, self.request.tcp.window_bytes)
            device_tcp.acknowledge(data)
            sink.write(chunk)
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        if self._stop.is_set():
            raise AbortedError
        return size

    def _receive_at_pace(
        self, data: socket.socket, figures: ReceiverFigures, sink: Sink, progress: Callable[[int], None]
    ) -> int:
        size = 0

        def take(chunk: bytes) -> None:
            nonlocal size
            sink.write(chunk)
            size += len(chunk)
            progress(size)

        receiver = PacedReceiver(data, self.request.tcp.window_bytes, figures)
        receiver.receive(self._stop, take, self.request.reply_timeout_s)
        if self._stop.is_set():
            raise AbortedError
        return size


class Push(Transfer):
    """One upload."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file; `opened` and `progress` (with the bytes so far) are called in this thread.

        Raises CopyError: it failed; the words are those the device prints; AbortedError: `abort` was called.
        """
        with self.device_words():
            control = self.log_in()
            command = f"STOR {self.request.url.path}"
            data = self.open_data(control, command, refused="Permission denied", verb="writing")
            opened()
            opened_s = time.monotonic()
            size = self._send_all(data, source, progress)
            self.close(data)
            self.end(control, verb="writing")
            return PullResult(size_bytes=size, seconds=time.monotonic() - opened_s)

    def _send_all(self, data: socket.socket, source: BinaryIO, progress: Callable[[int], None]) -> int:
        try:
            size = self._send_body(data, source, progress)
        except OSError as error:
            raise CopyError("writing", "I/O error") from error
        data.shutdown(socket.SHUT_WR)
        return size

    def _send_body(self, stream: socket.socket | TlsStream, source: BinaryIO, progress: Callable[[int], None]) -> int:
        size = 0
        while chunk := source.read(CHUNK_BYTES):
            stream.sendall(chunk)
            size += len(chunk)
            progress(size)
            if self._stop.is_set():
                raise AbortedError
        return size
