"""A server opens when what clients may log in with is known: a client that comes before waits, and is let in."""

from __future__ import annotations

import base64
import contextlib
import ftplib
import http.client
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import paramiko
import pytest

from flashferry.api import DepotOptions, ServeOptions, serve
from flashferry.depot.daemon import Depot
from flashferry.depot.offering.publishing import Publisher
from flashferry.fileserver import FileServer, ServerSettings
from ftpserver import ftp_listener
from tests.component.httpserver.conftest import make_certificate
from tests.patience import PATIENCE_S

USER, WORD, IMAGE = "lab", "Bench-2026.word", "a.bin"
TRANSPORTS = ("ftp", "http", "https", "sftp")


def _ftp(line: socket.socket) -> None:
    client = ftplib.FTP()
    client.sock, client.af, client.file = line, line.family, line.makefile("r", encoding="utf-8")
    with contextlib.closing(client):
        client.getresp()
        client.login(USER, WORD)


def _http(line: socket.socket) -> None:
    client = http.client.HTTPConnection("127.0.0.1")
    client.sock = line
    word = base64.b64encode(f"{USER}:{WORD}".encode()).decode()
    with contextlib.closing(client):
        client.request("HEAD", f"/{IMAGE}", headers={"Authorization": f"Basic {word}"})
        assert client.getresponse().status in (200, 404)


def _https(line: socket.socket) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _http(context.wrap_socket(line))


def _sftp(line: socket.socket) -> None:
    with contextlib.closing(paramiko.Transport(line)) as client:
        client.connect(username=USER, password=WORD)
        assert client.is_authenticated()


LOG_IN: dict[str, Callable[[socket.socket], None]] = dict(zip(TRANSPORTS, (_ftp, _http, _https, _sftp), strict=True))


def _connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def _assert_waits(server: FileServer, lines: list[socket.socket]) -> None:
    """Check that no client is greeted: each process has had two turns of its loop since they came."""
    for _ in range(2):
        server.set_site_cap("elsewhere", 10**6)
    assert select.select(lines, (), (), 0)[0] == []


@pytest.fixture
def listening(tmp_path: Path) -> dict[str, object]:
    """Options of a server of four transports on loopback."""
    certificate, key = make_certificate(tmp_path)
    return {
        "transports": TRANSPORTS,
        "listen": "127.0.0.1",
        "port": 0,
        "other_ports": {"http": 0, "https": 0, "ssh": 0},
        "certificate": certificate,
        "key": key,
        "state": tmp_path / "state",
    }


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with an image."""
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / IMAGE).write_bytes(os.urandom(10_000))
    return folder


def test_a_client_waits_until_the_images_are_hashed(listening: dict[str, object], images: Path) -> None:
    """By each transport, with the fixed login of `serve`: it is let in once the first tickets are issued."""
    options = ServeOptions(images=images, user=USER, **listening)  # type: ignore[arg-type]
    with serve(options, password=WORD) as serving, contextlib.ExitStack() as closing:
        server = serving.server
        lines = [closing.enter_context(_connected(server.port_of(name))) for name in TRANSPORTS]
        _assert_waits(server, lines)
        tickets = serving.tickets()
        _assert_waits(server, lines)
        tickets.renew()
        for log_in, line in zip(LOG_IN.values(), lines, strict=True):
            log_in(line)
        assert server.unattributed_failures == ()


def test_a_port_that_is_taken_is_an_error_before_anything_is_hashed(listening: dict[str, object], images: Path) -> None:
    """It is bound from the start: another server cannot have it meanwhile."""
    options = ServeOptions(images=images, **listening)  # type: ignore[arg-type]
    with serve(options) as first:
        taken = first.server.port_of("ftp")
        again = ServeOptions(images=images, **(listening | {"port": taken}))  # type: ignore[arg-type]
        with pytest.raises(Exception, match=r"in use"), serve(again):
            pass


def test_a_depot_opens_when_the_logins_of_its_sites_are_known(
    listening: dict[str, object], images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site's depot that comes before waits, and is not refused."""
    mirrors = tmp_path / "mirrors.toml"
    mirrors.touch(mode=0o600)
    mirrors.write_text(f'[sites.ams]\nuser = "{USER}"\npassword = "{WORD}"\n')
    lines: list[socket.socket] = []
    begin = Publisher.start

    def start(publisher: Publisher) -> None:
        server = publisher._server
        lines.extend(closing.enter_context(_connected(server.port_of(name))) for name in TRANSPORTS)
        _assert_waits(server, lines)
        begin(publisher)

    monkeypatch.setattr(Publisher, "start", start)
    options = DepotOptions(catalogue=images, mirrors=mirrors, **listening)  # type: ignore[arg-type]
    with contextlib.ExitStack() as closing, Depot(options) as depot:
        for log_in, line in zip(LOG_IN.values(), lines, strict=True):
            log_in(line)
        assert depot.server.unattributed_failures == ()


@pytest.fixture
def server(images: Path) -> Iterator[FileServer]:
    """A server that is started and not open."""
    settings = ServerSettings(image_paths=(images,), listeners=(ftp_listener(listen_address="127.0.0.1"),))
    with contextlib.closing(FileServer(settings, restarts=1)) as made:
        made.start()
        yield made


def test_a_server_that_is_not_open_can_be_ended(server: FileServer) -> None:
    """A client that waits is cut off, and nothing hangs."""
    with _connected(server.port) as line:
        assert server.drain() == 0
        with contextlib.suppress(ConnectionResetError):
            assert line.recv(1) == b""
