"""Real clients fetch, resume and abort, in every mode each of them knows; one that is not installed is skipped."""

import contextlib
import ftplib
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import Ticket, TransferState
from tests.component.clients.starting import HAVE_BYTES, LARGE, RESUMES_AT_BYTES, SMALL, finish, start_at
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

if TYPE_CHECKING:
    from conftest import Site

MODES = ("PASV", "EPSV", "PORT", "EPRT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What a client is to do."""

    address: str
    port: int
    ticket: Ticket
    target: Path
    mode: str
    resume: bool = False

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"ftp://{host}:{self.port}/{self.ticket.image_name}"

    @property
    def active(self) -> bool:
        return self.mode in ("PORT", "EPRT")

    @property
    def extended(self) -> bool:
        return self.mode in ("EPSV", "EPRT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a client is told: its arguments and what it reads."""

    arguments: list[str]
    script: str = ""


def curl(fetch: Fetch) -> Order:
    arguments = ["curl", "-q", "-sS", "-u", f"{fetch.ticket.username}:{fetch.ticket.password}", "-o", str(fetch.target)]
    arguments += ["-P", fetch.address] if fetch.active else []
    arguments += [] if fetch.extended else ["--disable-eprt" if fetch.active else "--disable-epsv"]
    arguments += ["-C", "-"] if fetch.resume else []
    return Order(arguments=[*arguments, fetch.url])


def wget(fetch: Fetch) -> Order:
    user = [f"--ftp-user={fetch.ticket.username}", f"--ftp-password={fetch.ticket.password}"]
    arguments = ["wget", "--no-config", "-q", "--tries=1", *user, "-P", str(fetch.target.parent)]
    arguments += ["--no-passive-ftp"] if fetch.active else []
    arguments += ["-c"] if fetch.resume else []
    return Order(arguments=[*arguments, fetch.url])


def lftp(fetch: Fetch) -> Order:
    settings = [
        "set net:max-retries 1",
        f"set ftp:passive-mode {'no' if fetch.active else 'yes'}",
        f"set ftp:prefer-epsv {'yes' if fetch.extended else 'no'}",
    ]
    host, _, path = fetch.url.removeprefix("ftp://").rpartition("/")
    login = f"open -u {fetch.ticket.username},{fetch.ticket.password} ftp://{host}"
    get = f"get {'-c ' if fetch.resume else ''}{path} -o {fetch.target}"
    return Order(arguments=["lftp", "--norc", "-c", "; ".join([*settings, login, get])])


def ncftpget(fetch: Fetch) -> Order:
    arguments = ["ncftpget", "-V", "-u", fetch.ticket.username, "-p", fetch.ticket.password, "-P", str(fetch.port)]
    arguments += ["-r", "0", "-E" if fetch.active else "-F", "-z" if fetch.resume else "-Z"]
    return Order(arguments=[*arguments, fetch.address, str(fetch.target.parent), fetch.ticket.image_name])


def tnftp(fetch: Fetch) -> Order:
    lines = [
        *(["epsv4 off"] if ":" not in fetch.address and not fetch.extended else []),
        f"open {fetch.address} {fetch.port}",
        f"user {fetch.ticket.username} {fetch.ticket.password}",
        "binary",
        f"{'reget' if fetch.resume else 'get'} {fetch.ticket.image_name} {fetch.target}",
        "bye",
    ]
    return Order(
        arguments=["tnftp", "-n", "-i", "-V", *(["-A"] if fetch.active else [])], script="\n".join(lines) + "\n"
    )


def aria2c(fetch: Fetch) -> Order:
    user = [f"--ftp-user={fetch.ticket.username}", f"--ftp-passwd={fetch.ticket.password}"]
    arguments = ["aria2c", "--no-conf", "-q", "-x1", "-s1", "-m1", "--file-allocation=none", "--async-dns=false", *user]
    arguments += [f"--ftp-pasv={'false' if fetch.active else 'true'}", "-d", str(fetch.target.parent)]
    return Order(arguments=[*arguments, "-o", fetch.target.name, *(["-c"] if fetch.resume else []), fetch.url])


def busybox(fetch: Fetch) -> Order:
    arguments = ["busybox", "ftpget", "-u", fetch.ticket.username, "-p", fetch.ticket.password, "-P", str(fetch.port)]
    arguments += ["-c"] if fetch.resume else []
    return Order(arguments=[*arguments, fetch.address, str(fetch.target), fetch.ticket.image_name])


COMMANDS: dict[str, Callable[[Fetch], Order]] = {
    "curl": curl,
    "wget": wget,
    "lftp": lftp,
    "ncftpget": ncftpget,
    "tnftp": tnftp,
    "aria2c": aria2c,
    "busybox": busybox,
}
# Which mode a client uses over which address; what it does not know is left out (see docs/server-clients.md).
OVER_IPV4 = {
    "curl": MODES,
    "wget": ("PASV", "PORT"),
    "lftp": ("PASV", "EPSV", "PORT"),
    "ncftpget": ("PASV", "PORT"),
    "tnftp": MODES,
    "aria2c": ("PASV", "PORT"),
    "busybox": ("EPSV",),
    "ftplib": ("PASV", "PORT"),
}
OVER_IPV6 = {
    "curl": ("EPSV", "EPRT"),
    "wget": ("EPSV", "EPRT"),
    "lftp": ("EPSV", "EPRT"),
    "tnftp": ("EPSV", "EPRT"),
    "aria2c": ("EPSV", "EPRT"),
    "busybox": ("EPSV",),
    "ftplib": ("EPSV", "EPRT"),
}
FETCHES = [
    pytest.param(client, mode, version, id=f"{client}-{mode}-IPv{version}")
    for version, table in ((4, OVER_IPV4), (6, OVER_IPV6))
    for client, modes in table.items()
    for mode in modes
]


def start(client: str, fetch: Fetch) -> subprocess.Popen[str]:
    """Start a client with an empty home, so that nobody's settings matter."""
    order = COMMANDS[client](fetch)
    process = start_at(fetch.target.parent, client, order.arguments, stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(order.script)
    process.stdin.flush()
    return process


def ftplib_fetch(fetch: Fetch) -> None:
    """Fetch with Python's own client, which chooses the extended commands over IPv6 alone."""
    with ftplib.FTP() as client, fetch.target.open("ab" if fetch.resume else "wb") as file:
        client.connect(fetch.address, fetch.port, timeout=PATIENCE_S)
        client.login(fetch.ticket.username, fetch.ticket.password)
        client.set_pasv(not fetch.active)
        client.retrbinary(f"RETR {fetch.ticket.image_name}", file.write, rest=file.tell() or None)


def run(client: str, fetch: Fetch) -> str:
    """Have a client do it; return what it said."""
    if client == "ftplib":
        ftplib_fetch(fetch)
        return ""
    return finish(start(client, fetch))


def digest(path: Path) -> str:
    return hashlib.sha512(path.read_bytes()).hexdigest() if path.exists() else "no file"


def commands_of(site: "Site", ticket: Ticket) -> list[str]:
    """Return the names of the commands of a ticket's last transfer, in order."""
    record = site.final(ticket).record
    assert record is not None
    return [line.split()[1] for line in record.commands if "->" not in line]


@pytest.mark.parametrize(("client", "mode", "version"), FETCHES)
def test_a_client_fetches(
    client: str,
    mode: str,
    version: int,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    """The file a client wrote is the image, its data connection came about as asked, and the ticket is delivered."""
    record_property("client", client)
    record_property("column", mode)
    record_property("version", f"IPv{version}")
    site: Site = request.getfixturevalue(f"ipv{version}_site")
    ticket = site.ticket(SMALL)
    fetch = Fetch(address=site.address, port=site.server.port, ticket=ticket, target=tmp_path / SMALL, mode=mode)
    said = run(client, fetch)
    assert digest(fetch.target) == site.digests[SMALL], said
    assert [name for name in commands_of(site, ticket) if name in MODES][-1] == mode
    assert site.final(ticket).state is TransferState.DELIVERED


@pytest.mark.parametrize("client", [*COMMANDS, "ftplib"])
def test_a_client_resumes(
    client: str, tmp_path: Path, images: Path, ipv4_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """A client with the first part of the image gets the rest alone, and its file is the image."""
    record_property("client", client)
    record_property("column", "resume")
    ticket = ipv4_site.ticket(SMALL)
    target = tmp_path / SMALL
    target.write_bytes((images / SMALL).read_bytes()[:HAVE_BYTES])
    fetch = Fetch(
        address=ipv4_site.address, port=ipv4_site.server.port, ticket=ticket, target=target, mode="PASV", resume=True
    )
    said = run(client, fetch)
    assert digest(target) == ipv4_site.digests[SMALL], said
    record = ipv4_site.final(ticket).record
    assert record is not None
    from_bytes = RESUMES_AT_BYTES.get(client, HAVE_BYTES)
    assert (record.offset_bytes, record.bytes_acked) == (from_bytes, 400_000 - from_bytes), said


@pytest.mark.parametrize("client", list(COMMANDS))
def test_a_client_interrupted_in_mid_transfer_can_fetch_again(
    client: str, tmp_path: Path, ipv4_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """Ctrl-C in a client fails that transfer with a reason; the same ticket then delivers the whole image."""
    record_property("client", client)
    record_property("column", "abort")
    ticket = ipv4_site.ticket(LARGE, cap_bytes_per_s=500_000)
    fetch = Fetch(
        address=ipv4_site.address, port=ipv4_site.server.port, ticket=ticket, target=tmp_path / LARGE, mode="PASV"
    )
    process = start(client, fetch)
    ipv4_site.until_flowing(ticket)
    os.killpg(process.pid, signal.SIGINT)
    said = finish(process)
    failed = ipv4_site.final(ticket)
    assert failed.state is TransferState.FAILED, said
    assert failed.last_error
    assert 0 < failed.bytes_acked < failed.size_bytes
    ipv4_site.server.set_cap(ticket.ticket_id, None)
    fetch.target.unlink(missing_ok=True)
    said = run(client, fetch)
    assert digest(fetch.target) == ipv4_site.digests[LARGE], said


def test_ftplib_aborts_in_mid_transfer_and_fetches_again(
    tmp_path: Path, ipv4_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """ABOR by Python's client ends the transfer as its wish, and the same session may fetch once more."""
    record_property("client", "ftplib")
    record_property("column", "abort")
    ticket = ipv4_site.ticket(LARGE, cap_bytes_per_s=500_000)
    with ftplib.FTP() as client:
        client.connect(ipv4_site.address, ipv4_site.server.port, timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        client.voidcmd("TYPE I")
        data = client.transfercmd(f"RETR {LARGE}")
        with contextlib.closing(data):
            ipv4_site.until_flowing(ticket)
            assert client.abort().startswith("426")
        assert client.voidresp().startswith("226")
        failed = ipv4_site.final(ticket)
        assert (failed.state, failed.last_error) == (TransferState.FAILED, "aborted by the client (ABOR)")
        ipv4_site.server.set_cap(ticket.ticket_id, None)
        pieces: list[bytes] = []
        client.retrbinary(f"RETR {LARGE}", pieces.append)
    assert hashlib.sha512(b"".join(pieces)).hexdigest() == ipv4_site.digests[LARGE]
