"""The servers of `benchmarks.transports_wan`, each as a device's `copy` reaches it: ours, nginx and OpenSSH's.

All run in the caller's network namespace. nginx and sshd set no congestion control: they get the host's, which is what
is compared. sshd knows accounts only, so it runs where `/etc/passwd` and `/etc/shadow` are copies with one account
more, in a mount namespace of its own; nothing of the host's is changed.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from flashferry.fileserver import FileServer, Limits, SenderProfile, ServerSettings, TicketRequest
from flashferry.fileserver.ticket_accounts import SshOffer
from flashferry.lab.errors import LabError
from flashferry.transports import transport_named
from flashferry.transports.transport import ListenOptions

_START_S = 10.0
_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
_HTTP_PORT, _SSH_PORT = 80, 22
_ACCOUNT = "labcopy"
_ACCOUNT_ID = 64321


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Where a device gets the file, as whom; an empty user logs in nowhere."""

    scheme: str
    address: str
    port: int
    path: str
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        """As `copy` takes it; it holds the password."""
        login = f"{self.user}:{self.password}@" if self.user else ""
        return f"{self.scheme}://{login}{self.address}:{self.port}/{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Who fetches: what ours is told of it.

    Attributes:
        address: Its address.
        link_bytes_per_s: What its link carries.
        is_legacy: Its SSH knows SHA-1 alone.
    """

    address: str
    link_bytes_per_s: float
    is_legacy: bool


class Served(Protocol):
    """A server that runs."""

    def offer(self, name: str, client: Client) -> Offer:
        """Return where a file of its folder is to be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A server with one account or none."""

    scheme: str
    address: str
    port: int
    folder: str = ""
    user: str = ""
    password: str = field(default="", repr=False)

    def offer(self, name: str, _client: Client) -> Offer:
        """Return where a file is."""
        path = f"{self.folder}/{name}" if self.folder else name
        return Offer(
            scheme=self.scheme, address=self.address, port=self.port, path=path, user=self.user, password=self.password
        )


class Ours:
    """Our file server, by one of its transports.

    Args:
        server: It.
        address: Where it listens.
        transport: By which.
        cap_share: A cap of this share of the link; None for no cap.
    """

    def __init__(self, server: FileServer, address: str, transport: str, cap_share: float | None) -> None:
        self._server, self._address, self._transport, self._cap_share = server, address, transport, cap_share

    def offer(self, name: str, client: Client) -> Offer:
        """Issue a ticket."""
        cap = None if self._cap_share is None else int(client.link_bytes_per_s * self._cap_share)
        has_ssh = self._transport in {"scp", "sftp"}
        ticket = self._server.issue_ticket(
            TicketRequest(
                image_name=name,
                cap_bytes_per_s=cap,
                source_addresses=(client.address,),
                link_bytes_per_s=int(client.link_bytes_per_s),
                tries=1,
                transports=(self._transport,),
                ssh=SshOffer(profile="legacy") if has_ssh and client.is_legacy else None,
            )
        )
        return Offer(
            scheme=self._transport,
            address=self._address,
            port=self._server.port_of(self._transport),
            path=name,
            user=ticket.username,
            password=ticket.password,
        )


@contextlib.contextmanager
def running_ours(folder: Path, address: str, transport: str, *, cap_share: float | None) -> Iterator[Ours]:
    """Run our server with its own congestion control."""
    with tempfile.TemporaryDirectory(prefix="flashferry-wan-") as scratch:
        keys = Path(scratch, "keys")
        keys.mkdir(mode=0o700)
        listener = transport_named(transport).listener(ListenOptions(address=address, port=0, host_keys=keys))
        settings = ServerSettings(
            image_paths=(folder,),
            listeners=(listener,),
            profile=SenderProfile(congestion_control="auto"),
            limits=Limits(login_deadline_s=120.0),
            hash_cache_path=Path(scratch, "digests.json"),
        )
        with FileServer(settings) as server:
            yield Ours(server, address, transport, cap_share)


@contextlib.contextmanager
def running_nginx(folder: Path, address: str) -> Iterator[Plain]:
    """Run nginx with sendfile and one worker.

    Raises:
        LabError: It is not installed or did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="flashferry-nginx-") as name:
        scratch = Path(name)
        configuration = scratch / "nginx.conf"
        configuration.write_text(_nginx_configuration(folder, address, scratch), encoding="ascii")
        with _running([_program("nginx"), "-p", name, "-c", str(configuration)], address, _HTTP_PORT, scratch):
            yield Plain(scheme="http", address=address, port=_HTTP_PORT)


@contextlib.contextmanager
def running_sshd(folder: Path, address: str) -> Iterator[Plain]:
    """Run OpenSSH's server with an account of its own that may log in by a password.

    Raises:
        LabError: It is not installed or did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="flashferry-sshd-") as name:
        scratch = Path(name)
        scratch.chmod(0o755)
        password = secrets.token_hex(12)
        _write_accounts(scratch, password, folder)
        keygen = [_program("ssh-keygen"), "-q", "-N", "", "-t", "rsa", "-b", "2048", "-f", str(scratch / "host_rsa")]
        subprocess.run(keygen, check=True)
        (scratch / "sshd_config").write_text(_sshd_configuration(address, scratch), encoding="ascii")
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where its unprivileged half lives (sshd(8))
        script = (
            'mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/shadow" /etc/shadow && '
            'exec "$2" -D -e -f "$1/sshd_config"'
        )
        inside = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", name, _program("sshd")]
        with _running(inside, address, _SSH_PORT, scratch):
            yield Plain(
                scheme="scp", address=address, port=_SSH_PORT, folder=str(folder), user=_ACCOUNT, password=password
            )


@contextlib.contextmanager
def _running(command: list[str], address: str, port: int, scratch: Path) -> Iterator[None]:
    """Run a program until the block ends; it has come up when it listens."""
    log = scratch / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline_s = time.monotonic() + _START_S
        while not _listens(address, port):
            if process.poll() is not None or time.monotonic() > deadline_s:
                said = log.read_text(errors="replace")[-300:].strip() or "it said nothing"
                raise LabError(f"{command[0]} does not listen on {address} port {port}: {said}")
            time.sleep(0.05)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _listens(address: str, port: int) -> bool:
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def _program(name: str) -> str:
    found = shutil.which(name, path=_SBIN)
    if found is None:
        raise LabError(f"{name} is not installed; on Debian: apt-get install nginx openssh-server.")
    return found


def version(program: str) -> str:
    """Return the version of nginx or sshd, as it says it itself; empty where it is not installed."""
    path = shutil.which(program, path=_SBIN)
    if path is None:
        return ""
    done = subprocess.run([path, "-v" if program == "nginx" else "-V"], capture_output=True, text=True, check=False)
    lines = (done.stderr + done.stdout).splitlines()
    said = next((line for line in lines if "nginx/" in line or "OpenSSH" in line), "")
    return said.partition("nginx version: ")[2] or said.partition(",")[0].strip()


def _nginx_configuration(folder: Path, address: str, scratch: Path) -> str:
    paths = "".join(
        f"  {kind}_temp_path {scratch}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return (
        f"user root;\nworker_processes 1;\ndaemon off;\npid {scratch}/pid;\nerror_log stderr;\n"
        "events { worker_connections 64; }\n"
        f"http {{\n{paths}  access_log off;\n  sendfile on;\n  tcp_nopush on;\n"
        f"  server {{ listen {address}:{_HTTP_PORT}; root {folder}; default_type application/octet-stream; }}\n}}\n"
    )


def _sshd_configuration(address: str, scratch: Path) -> str:
    return (
        f"Port {_SSH_PORT}\nListenAddress {address}\nHostKey {scratch}/host_rsa\nPidFile none\nUsePAM no\nUseDNS no\n"
        "PasswordAuthentication yes\nPubkeyAuthentication no\nStrictModes no\n"
        # What a client of XE 16 has.
        "KexAlgorithms +diffie-hellman-group14-sha1\nHostKeyAlgorithms +ssh-rsa\n"
    )


def _write_accounts(scratch: Path, password: str, home: Path) -> None:
    """Copy the host's accounts and add one, and sshd's own where it is missing."""
    done = subprocess.run(
        [_program("openssl"), "passwd", "-6", "-stdin"], input=password, capture_output=True, text=True, check=True
    )
    accounts = Path("/etc/passwd").read_text(encoding="utf-8")
    if "\nsshd:" not in accounts:
        accounts += "sshd:x:64322:65534::/run/sshd:/usr/sbin/nologin\n"
    accounts += f"{_ACCOUNT}:x:{_ACCOUNT_ID}:65534::{home}:/bin/sh\n"
    (scratch / "passwd").write_text(accounts, encoding="utf-8")
    shadow = scratch / "shadow"
    shadow.touch(mode=0o600)
    shadow.write_text(
        Path("/etc/shadow").read_text(encoding="utf-8") + f"{_ACCOUNT}:{done.stdout.strip()}:20000::::::\n"
    )
