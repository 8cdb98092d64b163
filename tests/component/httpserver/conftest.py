"""A real server process on loopback that serves HTTP and HTTPS, and clients that speak to it byte by byte."""

import base64
import contextlib
import datetime
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flashferry.fileserver import EventKind, ServerEvent, Ticket, TransferProgress, TransferState
from flashferry.httpserver import http_listener, https_listener
from ftpserver import ftp_listener
from tests.component.benches import IMAGE, ServerBench, serving
from tests.patience import PATIENCE_S, until


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client was answered."""

    status: int
    fields: dict[str, str]
    body: bytes


@dataclass(kw_only=True)
class Bench(ServerBench):
    """A server, its image, and what a test needs to reach it."""

    trust: ssl.SSLContext
    scheme: str = "http"
    events: list[ServerEvent] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port_of(self.scheme)

    def connect(self, source: str = "127.0.0.1", receive_buffer: int | None = None) -> socket.socket:
        """Connect, and shake hands where it is HTTPS."""
        plain = socket.socket()
        if receive_buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(PATIENCE_S)
        plain.bind((source, 0))
        try:
            plain.connect(("127.0.0.1", self.port))
            return self.trust.wrap_socket(plain, server_hostname="127.0.0.1") if self.scheme == "https" else plain
        except OSError:
            plain.close()
            raise

    @staticmethod
    def basic(username: str, password: str) -> str:
        return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()

    def head(self, ticket: Ticket | None, path: str = f"/{IMAGE}", method: str = "GET", **fields: str) -> bytes:
        """Return a request as IOS sends it."""
        named = {"User-Agent": "cisco-IOS", "Host": "127.0.0.1"}
        if ticket is not None:
            named["Authorization"] = self.basic(ticket.username, ticket.password)
        named |= {name.replace("_", "-"): value for name, value in fields.items()} | {"Connection": "close"}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def ask(self, ticket: Ticket | None, path: str = f"/{IMAGE}", method: str = "GET", **fields: str) -> Answer:
        """Send a request and return the whole answer."""
        return self.exchange(self.head(ticket, path, method, **fields), method=method)

    def exchange(self, request: bytes, *, method: str = "GET", source: str = "127.0.0.1") -> Answer:
        """Send bytes and return the whole answer, read by Python's own client."""
        with self.connect(source) as connection:
            connection.sendall(request)
            return self.answer(connection, method)

    @staticmethod
    def answer(connection: socket.socket, method: str = "GET") -> Answer:
        found = http.client.HTTPResponse(connection, method=method)
        with found:
            found.begin()
            return Answer(status=found.status, fields=dict(found.getheaders()), body=found.read())

    def failed(self, ticket: Ticket) -> TransferProgress:
        return self.until(ticket, lambda seen: seen.state is TransferState.FAILED and seen.record is not None)

    def heard(self, kind: EventKind, text: str = "") -> ServerEvent:
        """Wait until an event is heard, and return it."""

        def found() -> ServerEvent | None:
            return next((one for one in tuple(self.events) if one.kind is kind and text in one.text), None)

        event = until(found, lambda: f"event {kind} {text!r} among {self.events}")
        assert event is not None
        return event


def make_certificate(
    folder: Path,
    name: str = "certificate",
    *,
    names: tuple[str, ...] = ("127.0.0.1",),
    days: tuple[float, float] = (-1, 30),
    key_mode: int = 0o600,
) -> tuple[Path, Path]:
    """Make a certificate that signs itself, good between two days from now, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "flashferry test")])
    now = datetime.datetime.now(datetime.UTC)
    others: list[x509.GeneralName] = []
    for one in names:
        try:
            others.append(x509.IPAddress(ipaddress.ip_address(one)))
        except ValueError:
            others.append(x509.DNSName(one))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(named)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0]))
        .not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName(others), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / f"{name}.pem", folder / f"{name}.key"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.touch(mode=0o600)
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    key_path.chmod(key_mode)
    return certificate_path, key_path


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@contextlib.contextmanager
def running(folder: Path, certificate: tuple[Path, Path], **options: Any) -> Iterator[Bench]:
    """A server of FTP, HTTP and HTTPS; options change its settings."""
    listeners = (
        http_listener(listen_address="127.0.0.1"),
        https_listener(listen_address="127.0.0.1", certificate=certificate[0], key=certificate[1]),
        ftp_listener(listen_address="127.0.0.1"),
    )
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with serving(folder, listeners, options) as found:
        bench = Bench(**vars(found), trust=trust)
        found.server.events(bench.events.append)
        yield bench


@pytest.fixture
def bench(tmp_path: Path, certificate: tuple[Path, Path], request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server, spoken to in clear; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    with running(tmp_path, certificate, **dict(getattr(request, "param", {}))) as found:
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, certificate: tuple[Path, Path]) -> Iterator[Bench]:
    """The same for all tests of a module that leave it as they found it: a server takes 0.4 s of a processor."""
    with running(tmp_path_factory.mktemp("shared"), certificate) as found:
        yield found


@pytest.fixture(params=["http", "https"])
def either(tmp_path: Path, certificate: tuple[Path, Path], request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The same, once in clear and once by TLS."""
    with running(tmp_path, certificate, profile={"stall_after_s": 0.2}) as found:
        found.scheme = request.param
        yield found
