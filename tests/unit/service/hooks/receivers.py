"""Receivers on loopback: of HTTP, of mail, of syslog; each keeps what it was given."""

from __future__ import annotations

import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.patience import PATIENCE_S


@dataclass
class Received:
    """What came: path, headers in small letters, body; and what is answered, the last one for ever, with a body."""

    url: str = ""
    came: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(204, {})])
    body: bytes = b""

    def answer(self) -> tuple[int, dict[str, str]]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def web_receiver() -> Iterator[Received]:
    """Yield a receiver of webhooks."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.came.append((self.path, {key.lower(): value for key, value in self.headers.items()}, body))
            status, headers = received.answer()
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(received.body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        received.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Hostile:
    """A server that answers each connection as a test says.

    Attributes:
        port: Where it listens on loopback.
        opened: Connections that came.
        ended: Those that the other side has ended, or that were answered to the end.
        sent_bytes: What was sent by all of them.
        is_over: Set when the test has ended.
    """

    port: int = 0
    opened: int = 0
    ended: int = 0
    sent_bytes: int = 0
    is_over: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def hostile_receiver(pieces: Callable[[], Iterable[bytes]], *, every_s: float = 0.0) -> Iterator[Hostile]:
    """Yield a server that sends pieces by each connection, one after another.

    Args:
        pieces: What is sent by a connection; may have no end.
        every_s: The pause after each piece.
    """
    hostile = Hostile()
    lock = threading.Lock()

    def serve(line: socket.socket) -> None:
        with suppress(OSError), line:
            for piece in pieces():
                line.sendall(piece)
                with lock:
                    hostile.sent_bytes += len(piece)
                if hostile.is_over.wait(every_s):
                    break
            line.shutdown(socket.SHUT_WR)
            while line.recv(65536):
                pass
        with lock:
            hostile.ended += 1

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        hostile.port = listener.getsockname()[1]

        def take() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with lock:
                    hostile.opened += 1
                threading.Thread(target=serve, args=(line,), daemon=True).start()

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield hostile
        finally:
            hostile.is_over.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


class _Mail(socketserver.StreamRequestHandler):
    """As much of RFC 5321 as smtplib wants."""

    def handle(self) -> None:
        server = self.server
        assert isinstance(server, _MailServer)
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word in (b"RCPT", b"MAIL"):
                server.envelope.append(line.decode().strip())
                self.wfile.write(server.recipient_answer if word == b"RCPT" else b"250 ok\r\n")
            elif word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                message = b""
                while (part := self.rfile.readline()) != b".\r\n":
                    message += part
                server.messages.append(message)
                self.wfile.write(b"250 taken\r\n")
            elif word == b"QUIT":
                self.wfile.write(b"221 bye\r\n")
                return
            else:
                self.wfile.write(b"250 ok\r\n")


class _MailServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    recipient_answer = b"250 ok\r\n"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Mail)
        self.messages: list[bytes] = []
        self.envelope: list[str] = []


@contextmanager
def mail_receiver() -> Iterator[_MailServer]:
    """Yield a server that takes mail."""
    with _MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def udp_receiver() -> Iterator[socket.socket]:
    """Yield a bound socket that takes syslog by UDP."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE_S)
        yield receiver


@contextmanager
def unix_receiver(path: Path) -> Iterator[socket.socket]:
    """Yield a bound socket of the kind of /dev/log."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.settimeout(PATIENCE_S)
        yield receiver


@contextmanager
def tcp_receiver() -> Iterator[tuple[int, list[bytes]]]:
    """Yield a port that takes syslog by TCP, and what came by each connection."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(PATIENCE_S)
                    parts = []
                    while part := connection.recv(65536):
                        parts.append(part)
                    came.append(b"".join(parts))

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield listener.getsockname()[1], came
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def certificate(folder: Path, name: str, address: str) -> Path:
    """Make a certificate for an address, signed by itself, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = serialization.PrivateFormat.PKCS8
    path = folder / f"{name}.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
    )
    return path


@contextmanager
def tls_receiver(pem: Path, *, ends: str = "in order", wants: Path | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """Yield a port that takes syslog by TLS, and what came by each connection.

    Args:
        pem: Its certificate and key.
        ends: How it ends a connection of which it has read a message: `in order`, `at once` without output of TLS, or
            `late`, when its sender has gone.
        wants: It wants a certificate of its sender that one of these has issued.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    if wants is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(wants)
    came: list[bytes] = []

    def serve(line: socket.socket) -> None:
        line.settimeout(PATIENCE_S)
        with suppress(OSError), context.wrap_socket(line, server_side=True) as connection:
            parts = [connection.recv(65536)]
            length, _, _ = parts[0].partition(b" ")
            while sum(map(len, parts)) < len(length) + 1 + int(length):
                parts.append(connection.recv(65536))
            came.append(b"".join(parts))
            if ends == "in order":
                connection.unwrap()
            elif ends == "late":
                connection.recv(1)
            else:
                # Read to its end, or what the sender still says would have the kernel reset it.
                left = connection.detach()
                with socket.socket(fileno=left) as bare:
                    bare.shutdown(socket.SHUT_WR)
                    while bare.recv(4096):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            while True:
                try:
                    line, _ = listener.accept()
                except OSError:
                    return
                with line:
                    serve(line)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield listener.getsockname()[1], came
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
