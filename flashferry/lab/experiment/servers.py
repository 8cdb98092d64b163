"""The servers of the experiment, in the core namespace: the distribution's vsftpd and ours.

Facts
-----

- vsftpd sets no congestion control: its connections get that of the host, or of the route (ip-route(8), `congctl`).
- A namespace of its own may have one of the host's allowed ones as its default (sysctl); others are refused with EPERM
  there, and a route may still name them. Both hold for connections accepted from then on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

import asyncssh

from flashferry.fileserver import FileServer, Limits, SenderProfile, ServerSettings, TicketRequest, TransferRecord
from flashferry.lab.errors import LabError
from flashferry.lab.helper import end_with_owner
from flashferry.lab.namespaces import set_sysctl
from flashferry.lab.world import DeviceAccess
from flashferry.transports import USUAL
from flashferry.transports.transport import ListenOptions

_START_S = 10.0
_WITH_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
_VSFTPD_PORT = 21
_ANONYMOUS = ("anonymous", "experiment")
_FINAL_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Where a file is to be had."""

    address: str
    port: int
    name: str
    user: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def url(self) -> str:
        """As a router's `copy` takes it; it holds the password."""
        return f"ftp://{self.user}:{self.password}@{self.address}:{self.port}/{self.name}"


class Running(Protocol):
    """A server that runs."""

    port: int

    def offer(self, name: str, cap_bytes_per_s: int | None, link_bytes_per_s: int | None) -> Offer:
        """Return where a client gets a file of its folder; the cap and the link's rate are for ours."""

    def record(self) -> TransferRecord | None:
        """Return the server's own account of the last copy; None where it keeps none."""


def vsftpd_path() -> str | None:
    """Return where vsftpd is; None where it is not installed."""
    return shutil.which("vsftpd", path=_WITH_SBIN)


def vsftpd_version() -> str | None:
    """Return its version; None where it is not installed."""
    path = vsftpd_path()
    if path is None:
        return None
    # It writes its version to standard input, of all places, if that is writable.
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end = theirs.fileno()
        subprocess.run([path, "-v"], stdin=end, stdout=end, stderr=end, timeout=5, check=False)
        ours.settimeout(1)
        with contextlib.suppress(OSError):
            return ours.recv(200).decode().strip().removeprefix("vsftpd: version ")
    return "unknown"


def set_host_control(network: str, interface: str, control: str) -> None:
    """Give the calling thread's namespace a congestion control for all that names none, towards a site.

    Raises LabError: the kernel has no such one.
    """
    route = ["route", "replace", network, "dev", interface]
    try:
        set_sysctl("net/ipv4/tcp_congestion_control", control)
        words = route
    except OSError:
        words = [*route, "congctl", control]
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip() or "no reason given"
        raise LabError(f"The kernel gave no host-wide {control} ({reason}); load its module (modprobe tcp_{control}).")


class Vsftpd:
    """vsftpd under the distribution's defaults, but for what lets anybody fetch from one folder."""

    def __init__(self, folder: Path, address: str, scratch: Path) -> None:
        self.port = _VSFTPD_PORT
        self._address = address
        empty = scratch / "empty"
        empty.mkdir(mode=0o755, exist_ok=True)
        configuration = scratch / "vsftpd.conf"
        configuration.write_text(_vsftpd_configuration(folder, empty, address), encoding="ascii")
        self.process = subprocess.Popen(
            [str(vsftpd_path()), str(configuration)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,  # its sessions are processes that outlive it, and end with the group
            # One call, and no other thread holds a lock that it needs.
            preexec_fn=partial(end_with_owner, signal.SIGKILL),  # noqa: PLW1509
        )  # fmt: skip

    def await_port(self) -> None:
        """Wait until it listens. Raises LabError: it does not."""
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self._address, self.port), timeout=1):
                return
            time.sleep(0.05)
        raise LabError(f"vsftpd did not listen on {self._address} port {self.port} within {_START_S:g} s.")

    def offer(
        self,
        name: str,
        cap_bytes_per_s: int | None,  # noqa: ARG002 - it knows no cap
        link_bytes_per_s: int | None,  # noqa: ARG002 - and judges nothing
    ) -> Offer:
        """Return where a client gets a file."""
        return Offer(address=self._address, port=self.port, name=name, user=_ANONYMOUS[0], password=_ANONYMOUS[1])

    def record(self) -> None:
        """Return nothing: it keeps no account."""
        return


@contextlib.contextmanager
def running_vsftpd(folder: Path, address: str) -> Iterator[Vsftpd]:
    """Run vsftpd in the caller's namespace. Raises LabError: it did not come up."""
    with tempfile.TemporaryDirectory(prefix="flashferry-vsftpd-") as name:
        # Its unprivileged process must be able to enter.
        Path(name).chmod(0o755)
        server = Vsftpd(folder, address, Path(name))
        try:
            server.await_port()
            yield server
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()


class Ours:
    """Our server with a profile."""

    def __init__(self, server: FileServer, address: str) -> None:
        self.port = server.port
        self._server, self._address = server, address
        self._ticket_id = ""

    def offer(self, name: str, cap_bytes_per_s: int | None, link_bytes_per_s: int | None) -> Offer:
        """Issue a ticket."""
        ticket = self._server.issue_ticket(
            TicketRequest(image_name=name, cap_bytes_per_s=cap_bytes_per_s, link_bytes_per_s=link_bytes_per_s, tries=1)
        )
        self._ticket_id = ticket.ticket_id
        return Offer(
            address=self._address, port=self.port, name=name, user=ticket.username, password=ticket.password
        )  # fmt: skip

    def record(self) -> TransferRecord | None:
        """Return the record of the ticket issued last."""
        return self._server.wait_final(self._ticket_id, _FINAL_S).record


@contextlib.contextmanager
def running_ours(folder: Path, address: str, control: str, digests: Path) -> Iterator[Ours]:
    """Run our server in the caller's namespace."""
    settings = ServerSettings(
        image_paths=(folder,),
        listeners=(USUAL.listener(ListenOptions(address=address, port=0)),),
        profile=SenderProfile(congestion_control=control),
        limits=Limits(login_deadline_s=120.0),
        hash_cache_path=digests,
    )
    with FileServer(settings) as server:
        yield Ours(server, address)


def _vsftpd_configuration(folder: Path, empty: Path, address: str) -> str:
    options = {
        "listen": "YES",
        "listen_ipv6": "NO",
        "listen_address": address,
        "listen_port": _VSFTPD_PORT,
        "background": "NO",
        "anonymous_enable": "YES",
        "anon_root": folder,
        "secure_chroot_dir": empty,
        "xferlog_enable": "NO",
        **({} if os.geteuid() == 0 else {"run_as_launching_user": "YES"}),
    }
    return "".join(f"{name}={value}\n" for name, value in options.items())


_RESULT = re.compile(r"(\d+) bytes copied in ([\d.]+) secs? \((\d+) bytes/sec\)")
_LINE_S = 60.0
_LOGIN_S = 120.0
_TARGET = "experiment.bin"
_REMOVE = f"delete /force flash:{_TARGET}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What the device's own result line says."""

    size_bytes: int
    seconds: float
    rate_bytes_per_s: int


class Session:
    """A session with a device in privileged mode."""

    def __init__(self, process: asyncssh.SSHClientProcess[str], prompt: str) -> None:
        self._process = process
        self._prompt = re.compile(rf"{re.escape(prompt[:16])}[^\s#]*#$")

    async def run(self, line: str, *, timeout_s: float = _LINE_S) -> str:
        """Type a line and return what is shown up to the next prompt; questions are answered with Enter."""
        self._process.stdin.write(line + "\n")
        return await self.until_prompt(timeout_s)

    async def until_prompt(self, timeout_s: float = _LINE_S) -> str:
        """Return what is shown up to the next prompt."""
        shown = ""
        async with asyncio.timeout(timeout_s):
            while not self._prompt.search(shown):
                piece = await self._process.stdout.read(65536)
                if not piece:
                    raise LabError(f"The device closed the session: {shown[-200:]}")
                shown += piece
                if re.search(r"\]\? $|\[confirm\]$", shown):
                    self._process.stdin.write("\n")
        return shown

    async def configure(self, *lines: str) -> None:
        """Enter configuration lines. Raises LabError: the device refused one; its own words are given."""
        for line in ("configure terminal", *lines, "end"):
            shown = await self.run(line)
            if "%" in shown:
                raise LabError(f"{line}: {shown.strip()}")

    async def copy(self, url: str, target: str = "null:", *, timeout_s: float) -> Copied:
        """Copy a file and return the device's result. Raises LabError: it shows none; the URL is left out."""
        shown = await self.run(f"copy {url} {target}", timeout_s=timeout_s)
        found = _RESULT.search(shown)
        if found is None:
            # The device echoes the URL, and there is a login in it.
            raise LabError(f"no result line: {shown.replace(url, 'URL')[-300:].strip()}")
        return Copied(size_bytes=int(found[1]), seconds=float(found[2]), rate_bytes_per_s=int(found[3]))


@contextlib.asynccontextmanager
async def session(device: DeviceAccess) -> AsyncIterator[Session]:
    """Log in to a device."""
    async with (
        asyncssh.connect(
            device.address, device.port, username=device.username, password=device.password, known_hosts=None,
            config=None, client_keys=None, login_timeout=_LOGIN_S,
        ) as connection,
        connection.create_process(term_type="vt100", term_size=(511, 1000)) as process,
    ):  # fmt: skip
        opened = Session(process, device.name)
        await opened.until_prompt()
        await opened.run("terminal length 0")
        yield opened


def copy_to_flash(device: DeviceAccess, lines: tuple[str, ...], url: str, *, timeout_s: float) -> Copied:
    """Set exactly these `ip tcp` lines, copy a file to flash and remove it again.

    Raises LabError: the device refused a line or the copy; its own words are given, the URL left out.
    """
    try:
        return asyncio.run(_copy(device, lines, url, timeout_s))
    except TimeoutError:
        raise LabError(f"{device.name}: the copy was not done within {timeout_s:.0f} s.") from None
    except (OSError, asyncssh.Error) as error:
        raise LabError(f"{device.name}: the session failed: {error}.") from error


async def _copy(device: DeviceAccess, lines: tuple[str, ...], url: str, timeout_s: float) -> Copied:
    async with session(device) as opened:
        try:
            await opened.configure("no ip tcp window-size", "no ip tcp selective-ack", *lines)
            try:
                copied = await opened.copy(url, f"flash:{_TARGET}", timeout_s=timeout_s)
            except LabError:
                await opened.run(_REMOVE)
                raise
            await opened.run(_REMOVE)
        except LabError as error:
            raise LabError(f"{device.name}: {error}") from None
        return copied
