"""Servers for real clients, and the table of what came of them.

`pytest tests/component/clients --client-table docs/server-clients.md` writes the results between that file's marks.
"""

import dataclasses
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import (
    FileServer,
    Limits,
    ListenerSettings,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
)
from flashferry.httpserver import http_listener, https_listener
from ftpserver import ftp_listener
from tests.component.clients.starting import LARGE, SMALL
from tests.patience import PATIENCE_S

SIZES_BYTES = {SMALL: 400_000, LARGE: 4_000_000}
COLUMNS = {
    "clients": ("PASV", "EPSV", "PORT", "EPRT", "resume", "abort"),
    "http clients": ("HTTP", "HTTPS", "resume", "abort", "refused"),
}
"""Columns of each table, by the name of its marks."""
VERSION_COMMANDS = {
    "curl": ["curl", "--version"],
    "wget": ["wget", "--version"],
    "lftp": ["lftp", "--version"],
    "ncftpget": ["ncftpget", "--version"],
    "tnftp": ["tnftp", "-?"],
    "aria2c": ["aria2c", "--version"],
    "busybox": ["busybox", "--help"],
}


@dataclass
class Site:
    """A server on one loopback address and what it serves."""

    server: FileServer
    address: str
    digests: dict[str, str]
    authority: Path | None = None

    def ticket(self, image_name: str, **more: Any) -> Ticket:
        return self.server.issue_ticket(TicketRequest(image_name=image_name, **more))

    def final(self, ticket: Ticket) -> TransferProgress:
        progress = self.server.wait_final(ticket.ticket_id, PATIENCE_S)
        assert progress.state.is_final, progress
        return progress

    def until_flowing(self, ticket: Ticket) -> None:
        """Wait until some of the image was acknowledged, but fail if all of it was."""
        for _ in range(500):
            progress = self.server.wait(ticket.ticket_id, PATIENCE_S)
            if progress.bytes_acked:
                assert not progress.state.is_final, progress
                return
        raise AssertionError("no byte was ever acknowledged")


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(autouse=True)
def ctrl_c_counts() -> Iterator[None]:
    """Take Ctrl-C ourselves: where a shell runs us in the background it is ignored, and clients would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("images")
    source = random.Random(3)
    for name, size_bytes in SIZES_BYTES.items():
        (directory / name).write_bytes(source.randbytes(size_bytes))
    return directory


def _site(images: Path, address: str, listeners: tuple[ListenerSettings, ...] = ()) -> Iterator[Site]:
    settings = ServerSettings(
        image_paths=(images,),
        listeners=listeners or (ftp_listener(listen_address=address),),
        sample_interval_s=0.05,
        limits=Limits(failed_login_delay_s=0.05),
    )
    digests = {name: hashlib.sha512((images / name).read_bytes()).hexdigest() for name in SIZES_BYTES}
    with FileServer(settings) as server:
        yield Site(server=server, address=address, digests=digests)
        assert not [note for note in server.notices if "internal error" in note], server.notices


@pytest.fixture(scope="session")
def ipv4_site(images: Path) -> Iterator[Site]:
    yield from _site(images, "127.0.0.1")


@pytest.fixture(scope="session")
def ipv6_site(images: Path) -> Iterator[Site]:
    if not _has_ipv6():
        pytest.skip("this host has no IPv6 loopback address")
    yield from _site(images, "::1")


@pytest.fixture(scope="session")
def http_site(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server of HTTP and HTTPS, with a certificate as an operator would make one."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "certificate.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "5", "-subj", "/CN=ferry"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, capture_output=True, check=True)
    key.chmod(0o600)
    listeners = (
        http_listener(listen_address="127.0.0.1"),
        https_listener(listen_address="127.0.0.1", certificate=certificate, key=key),
    )
    for site in _site(images, "127.0.0.1", listeners):
        yield dataclasses.replace(site, authority=certificate)


# The table of results.


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--client-table", type=Path, help="write the results of real clients between the marks of a file")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("client_table", default=None)
    if path is not None:
        config.pluginmanager.register(Table(path), "client-table")


class Table:
    """Collects a cell per test that names its client and column."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._cells: dict[str, dict[tuple[str, str], list[str]]] = {name: {} for name in COLUMNS}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        named = dict(report.user_properties)
        if "client" not in named or (report.when != "call" and report.outcome == "passed"):
            return
        what = named.get("version", "yes")
        word = {"passed": what, "failed": f"**not {what}**", "skipped": "not run"}[report.outcome]
        cells = self._cells["http clients" if named.get("table") == "http" else "clients"]
        words = cells.setdefault((named["client"], named["column"]), [])
        if word not in words:
            words.append(word)

    def pytest_sessionfinish(self) -> None:
        for name, cells in self._cells.items():
            if cells:
                self._write(name, cells)

    def _write(self, name: str, found: dict[tuple[str, str], list[str]]) -> None:
        columns = COLUMNS[name]
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        lines = [f"| client | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
        for client in dict.fromkeys(client for client, _ in found):
            cells = [", ".join(found.get((client, column), "-")) for column in columns]
            lines.append(f"| {_versioned(client)} | {' | '.join(cells)} |")
        before, _, rest = self._path.read_text().partition(begin)
        _, _, after = rest.partition(end)
        table = "\n".join(lines)
        self._path.write_text(f"{before}{begin}\n{table}\n{end}{after}")


def _versioned(client: str) -> str:
    command = VERSION_COMMANDS.get(client)
    if command is None or shutil.which(command[0]) is None:
        return client
    shown = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    words = (shown.stdout + shown.stderr).replace(",", " ").split()
    version = next((word for word in words if word.strip("v")[:1].isdigit() and ("." in word or len(word) == 8)), "")
    return f"{client} {version}".strip()
