"""Real clients of HTTP fetch, resume and abort, in clear and by TLS; one that is not installed is skipped."""

import contextlib
import hashlib
import os
import shutil
import signal
import ssl
import subprocess
import urllib.request
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """What a client is to do."""

    url: str
    ticket: Ticket
    target: Path
    authority: Path | None
    resume: bool = False


def curl(fetch: Fetch) -> list[str]:
    user = f"{fetch.ticket.username}:{fetch.ticket.password}"
    trust = ["--cacert", str(fetch.authority)] if fetch.authority else []
    more = ["-C", "-"] if fetch.resume else []
    return ["curl", "-q", "-sS", "--fail", "-u", user, *trust, *more, "-o", str(fetch.target), fetch.url]


def wget(fetch: Fetch) -> list[str]:
    user = [f"--user={fetch.ticket.username}", f"--password={fetch.ticket.password}"]
    trust = [f"--ca-certificate={fetch.authority}"] if fetch.authority else []
    more = ["-c"] if fetch.resume else []
    return ["wget", "--no-config", "-q", "--tries=1", *user, *trust, *more, "-P", str(fetch.target.parent), fetch.url]


def aria2c(fetch: Fetch) -> list[str]:
    user = [f"--http-user={fetch.ticket.username}", f"--http-passwd={fetch.ticket.password}"]
    trust = [f"--ca-certificate={fetch.authority}"] if fetch.authority else []
    more = ["-c"] if fetch.resume else []
    command = ["aria2c", "--no-conf", "-q", "-x1", "-s1", "-m1", "--file-allocation=none", "--async-dns=false"]
    where = ["-d", str(fetch.target.parent), "-o", fetch.target.name]
    return [*command, *user, *trust, *more, *where, fetch.url]


COMMANDS: dict[str, Callable[[Fetch], list[str]]] = {"curl": curl, "wget": wget, "aria2c": aria2c}
CLIENTS = [*COMMANDS, "urllib"]


def by_urllib(fetch: Fetch) -> str:
    """Fetch with Python's own client, which asks without credentials first and answers the challenge."""
    passwords = urllib.request.HTTPPasswordMgrWithDefaultRealm()
    passwords.add_password(None, fetch.url, fetch.ticket.username, fetch.ticket.password)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.HTTPBasicAuthHandler(passwords)]
    if fetch.authority:
        trust = ssl.create_default_context(cafile=str(fetch.authority))
        handlers.append(urllib.request.HTTPSHandler(context=trust))
    request = urllib.request.Request(fetch.url)
    if fetch.resume:
        request.add_header("Range", f"bytes={fetch.target.stat().st_size}-")
    opener = urllib.request.build_opener(*handlers)
    with opener.open(request, timeout=PATIENCE_S) as answer, fetch.target.open("ab" if fetch.resume else "wb") as file:
        shutil.copyfileobj(answer, file)
    return ""


def start(client: str, fetch: Fetch) -> subprocess.Popen[str]:
    """Start a client with an empty home, so that nobody's settings matter."""
    return start_at(fetch.target.parent, client, COMMANDS[client](fetch), stdin=subprocess.DEVNULL)


def run(client: str, fetch: Fetch) -> str:
    """Have a client do it; return what it said."""
    if client == "urllib":
        return by_urllib(fetch)
    return finish(start(client, fetch))


def digest(path: Path) -> str:
    return hashlib.sha512(path.read_bytes()).hexdigest() if path.exists() else "no file"


def fetch_of(site: "Site", scheme: str, ticket: Ticket, target: Path, *, resume: bool = False) -> Fetch:
    url = f"{scheme}://{site.address}:{site.server.port_of(scheme)}/{ticket.image_name}"
    authority = site.authority if scheme == "https" else None
    return Fetch(url=url, ticket=ticket, target=target, authority=authority, resume=resume)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_fetches(
    client: str, scheme: str, tmp_path: Path, http_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """The file a client wrote is the image, and the ticket is delivered, by what was asked for."""
    for name, value in (("table", "http"), ("client", client), ("column", scheme.upper())):
        record_property(name, value)
    ticket = http_site.ticket(SMALL)
    fetch = fetch_of(http_site, scheme, ticket, tmp_path / SMALL)
    said = run(client, fetch)
    assert digest(fetch.target) == http_site.digests[SMALL], said
    found = http_site.final(ticket)
    assert found.state is TransferState.DELIVERED
    assert found.record is not None
    assert found.record.transport == scheme
    assert client.removesuffix("2c") in found.record.client.lower()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_resumes(
    client: str,
    scheme: str,
    tmp_path: Path,
    images: Path,
    http_site: "Site",
    record_property: Callable[[str, object], None],
) -> None:
    """A client with the first part of the image gets the rest alone, and its file is the image."""
    for name, value in (("table", "http"), ("client", client), ("column", "resume")):
        record_property(name, value)
    ticket = http_site.ticket(SMALL)
    target = tmp_path / SMALL
    target.write_bytes((images / SMALL).read_bytes()[:HAVE_BYTES])
    said = run(client, fetch_of(http_site, scheme, ticket, target, resume=True))
    assert digest(target) == http_site.digests[SMALL], said
    record = http_site.final(ticket).record
    assert record is not None
    from_bytes = RESUMES_AT_BYTES.get(client, HAVE_BYTES)
    assert (record.offset_bytes, record.bytes_acked) == (from_bytes, 400_000 - from_bytes), said


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("client", list(COMMANDS))
def test_a_client_interrupted_in_mid_transfer_can_fetch_again(
    client: str, scheme: str, tmp_path: Path, http_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """Ctrl-C in a client fails that transfer with a reason; the same ticket then delivers the whole image."""
    for name, value in (("table", "http"), ("client", client), ("column", "abort")):
        record_property(name, value)
    ticket = http_site.ticket(LARGE, cap_bytes_per_s=500_000)
    fetch = fetch_of(http_site, scheme, ticket, tmp_path / LARGE)
    process = start(client, fetch)
    http_site.until_flowing(ticket)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=PATIENCE_S)[0]
    failed = http_site.final(ticket)
    assert failed.state is TransferState.FAILED, said
    assert failed.last_error
    assert 0 < failed.bytes_acked < failed.size_bytes
    http_site.server.set_cap(ticket.ticket_id, None)
    for left in tmp_path.iterdir():
        with contextlib.suppress(OSError):
            left.unlink()
    said = run(client, fetch)
    assert digest(fetch.target) == http_site.digests[LARGE], said


@pytest.mark.parametrize("client", list(COMMANDS))
def test_a_client_without_a_ticket_gets_no_file(
    client: str, tmp_path: Path, http_site: "Site", record_property: Callable[[str, object], None]
) -> None:
    """Wrong credentials end in an error of the client's, and no file of that name has a byte."""
    for name, value in (("table", "http"), ("client", client), ("column", "refused")):
        record_property(name, value)
    wrong = Ticket(ticket_id="", username="nobody", password="x" * 16, image_name=SMALL)
    fetch = fetch_of(http_site, "http", wrong, tmp_path / SMALL)
    process = start(client, fetch)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert not fetch.target.exists() or not fetch.target.stat().st_size
