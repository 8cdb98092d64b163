"""A real server process on loopback that serves HTTP and HTTPS, and clients that speak to it byte by byte."""

import base64
import contextlib
import datetime
import http.client
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from flashferry.fileserver import (
    EventKind,
    FileServer,
    Limits,
    SenderProfile,
    ServerEvent,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferState,
)
from flashferry.httpserver import http_listener, https_listener
from ftpserver import ftp_listener

IMAGE = "csr1000v-universalk9.16.11.01.SPA.bin"
OTHER = "other.bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a client was answered."""

    status: int
    fields: dict[str, str]
    body: bytes


@dataclass
class Bench:
    """A server, its image, and what a test needs to reach it."""

    server: FileServer
    content: bytes
    directory: Path
    trust: ssl.SSLContext
    scheme: str = "http"
    image_name: str = IMAGE
    other_name: str = OTHER
    events: list[ServerEvent] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.server.port_of(self.scheme)

    def ticket(self, image_name: str = IMAGE, **more: Any) -> Ticket:
        return self.server.issue_ticket(TicketRequest(image_name=image_name, **more))

    def connect(self, source: str = "127.0.0.1", receive_buffer: int | None = None) -> socket.socket:
        """Connect, and shake hands where it is HTTPS."""
        plain = socket.socket()
        if receive_buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(20)
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

    def until(self, ticket: Ticket, wanted: Callable[[TransferProgress], bool]) -> TransferProgress:
        """Wait until a snapshot is as wanted; fail after twenty seconds with what it was."""
        deadline = time.monotonic() + 20
        progress = self.server.progress(ticket.ticket_id)
        while not wanted(progress):
            assert time.monotonic() < deadline, f"never came about; last seen: {progress}"
            time.sleep(0.01)
            progress = self.server.progress(ticket.ticket_id)
        return progress

    def delivered(self, ticket: Ticket) -> TransferProgress:
        return self.until(ticket, lambda seen: seen.state is TransferState.DELIVERED)

    def failed(self, ticket: Ticket) -> TransferProgress:
        return self.until(ticket, lambda seen: seen.state is TransferState.FAILED and seen.record is not None)

    def heard(self, kind: EventKind, text: str = "") -> ServerEvent:
        """Wait until an event is heard, and return it."""
        deadline = time.monotonic() + 20
        while True:
            for event in tuple(self.events):
                if event.kind is kind and text in event.text:
                    return event
            assert time.monotonic() < deadline, f"no event {kind} {text!r}; heard: {self.events}"
            time.sleep(0.01)

    def descriptors(self) -> int:
        """Count what the server's process has open."""
        return len(list(Path(f"/proc/{self.server.pid}/fd").iterdir()))

    def memory_kb(self) -> int:
        """Return the resident memory of the server's process in KiB."""
        status = Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0])

    @staticmethod
    def settles(condition: Callable[[], bool]) -> bool:
        """Look again and again for up to twenty seconds until a condition holds."""
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        return condition()


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
    """A server of FTP, HTTP and HTTPS with short limits; options change its settings."""
    directory = folder / "images"
    directory.mkdir()
    content = os.urandom(options.pop("size", 300_000))
    (directory / IMAGE).write_bytes(content)
    (directory / OTHER).write_bytes(b"not for you")
    limits = {"failed_login_delay_s": 0.05, "failed_logins": 3, **options.pop("limits", {})}
    profile = {"stall_after_s": 0.2, **options.pop("profile", {})}
    settings = ServerSettings(
        image_paths=(directory,),
        listeners=(
            http_listener(listen_address="127.0.0.1"),
            https_listener(listen_address="127.0.0.1", certificate=certificate[0], key=certificate[1]),
            ftp_listener(listen_address="127.0.0.1"),
        ),
        sample_interval_s=options.pop("sample_interval_s", 0.05),
        limits=Limits(**limits),
        profile=SenderProfile(**profile),
        **options,
    )
    trust = ssl.create_default_context(cafile=str(certificate[0]))
    with FileServer(settings) as server:
        bench = Bench(server=server, content=content, directory=directory, trust=trust)
        server.events(bench.events.append)
        yield bench
        assert not [note for note in server.notices if "internal error" in note], server.notices


@pytest.fixture
def bench(tmp_path: Path, certificate: tuple[Path, Path], request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server, spoken to in clear; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    with running(tmp_path, certificate, **dict(getattr(request, "param", {}))) as found:
        yield found


@pytest.fixture(params=["http", "https"])
def either(tmp_path: Path, certificate: tuple[Path, Path], request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The same, once in clear and once by TLS."""
    with running(tmp_path, certificate) as found:
        found.scheme = request.param
        yield found
