"""The servers under measurement, each behind the same few questions. All listen on 127.0.0.1 alone."""

import contextlib
import importlib.metadata
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from benchmarks.procfs import descendants, pss_bytes
from benchmarks.workers import MeasureFailed
from flashferry.fileserver import FileServer, Limits, ListenerSettings, ServerSettings, TicketRequest
from ftpserver import ftp_listener

ROOT = Path(__file__).parent.parent
HOST = "127.0.0.1"
_START_S = 10.0
_STOP_S = 10.0
_REAPER = Path(__file__).with_name("reaper.py")
_ANONYMOUS = ("anonymous", "benchmark")


class Subject(Protocol):
    """A running server."""

    name: str
    port: int
    pid: int
    resting_descendants: int

    def credentials(self, image_name: str, count: int) -> list[tuple[str, str]]:
        """Return users and passwords for so many sessions."""

    def memory_bytes(self, *, anonymous: bool) -> int:
        """Return the proportional set size of all its processes, see `procfs.pss_bytes`."""

    def close(self) -> None:
        """Stop it and everything it started."""


class Ours:
    """flashferry's server: default profile, sampling at 1 Hz with every reading streamed to the parent."""

    name = "flashferry"
    resting_descendants = 0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        settings = ServerSettings(
            image_paths=(directory,),
            listeners=(self.listener(),),
            stream_samples=True,
            limits=Limits(login_deadline_s=120.0),
        )
        self._server = FileServer(settings).__enter__()
        self.port, self.pid = self._server.port, self._server.pid

    def listener(self) -> ListenerSettings:
        """Return what it listens with."""
        return ftp_listener(listen_address=HOST)

    def credentials(self, image_name: str, count: int) -> list[tuple[str, str]]:
        """Issue a ticket per session."""
        tickets = [self._server.issue_ticket(TicketRequest(image_name=image_name)) for _ in range(count)]
        return [(ticket.username, ticket.password) for ticket in tickets]

    def memory_bytes(self, *, anonymous: bool) -> int:
        """Return the memory of the serving process; what the parent keeps of each ticket is not in it."""
        return pss_bytes(self.pid, anonymous=anonymous)

    def close(self) -> None:
        """Stop it."""
        self._server.close()


class SubjectProcess:
    """A server that is a process of its own, with its descendants, below a reaper (see `benchmarks.reaper`)."""

    port: int
    resting_descendants = 1

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_REAPER), *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.pid = self._process.pid

    def credentials(self, image_name: str, count: int) -> list[tuple[str, str]]:  # noqa: ARG002 - open to all
        """Return the anonymous user."""
        return [_ANONYMOUS] * count

    def memory_bytes(self, *, anonymous: bool) -> int:
        """Return the memory of all below the reaper."""
        return sum(pss_bytes(child, anonymous=anonymous) for child in descendants(self.pid))

    def close(self) -> None:
        """Stop it and its descendants; the reaper then ends by itself."""
        deadline_s = time.monotonic() + _STOP_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            for pid in descendants(self.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def await_port(self, name: str) -> None:
        """Wait until it listens.

        Raises:
            MeasureFailed: It does not in time.
        """
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            time.sleep(0.05)
        self.close()
        raise MeasureFailed(f"{name} did not listen on port {self.port} within {_START_S:g} s")

    def first_line(self, *, start_s: float = _START_S) -> str:
        """Return what it prints first.

        Raises:
            MeasureFailed: It printed nothing in time.
        """
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], start_s)[0]:
            self.close()
            raise MeasureFailed(f"a server did not come up within {start_s:g} s")
        return self._process.stdout.readline().decode().strip()


class OursWithParent(SubjectProcess):
    """The same with the process that started it, both counted."""

    name = "flashferry and its parent"
    resting_descendants = 2

    def __init__(self, directory: Path) -> None:
        super().__init__([sys.executable, "-m", "benchmarks.own_server", str(directory), *_ANONYMOUS])
        # All files are hashed before it is up.
        self.port = int(self.first_line(start_s=120.0))


class StockPyftpdlib(SubjectProcess):
    """pyftpdlib as it is shipped."""

    name = "pyftpdlib"

    def __init__(self, directory: Path) -> None:
        super().__init__([sys.executable, "-m", "benchmarks.stock_pyftpdlib", str(directory)])
        line = self.first_line()
        if not line.isdigit():
            self.close()
            raise MeasureFailed(f"pyftpdlib: expected its port, found {line!r}; is it installed?")
        self.port = int(line)


class Vsftpd(SubjectProcess):
    """vsftpd of the distribution under a configuration of its own, stand-alone, in the foreground."""

    name = "vsftpd"

    def __init__(self, directory: Path) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="ferry-vsftpd-")
        scratch = Path(self._scratch.name)
        # Its unprivileged process must be able to enter both, and refuses a scratch directory it could write to.
        scratch.chmod(0o755)
        empty = scratch / "empty"
        empty.mkdir(mode=0o755)
        self.port = free_port()
        configuration = scratch / "vsftpd.conf"
        configuration.write_text(vsftpd_configuration(directory, empty, self.port))
        super().__init__([str(shutil.which("vsftpd", path=WITH_SBIN)), str(configuration)])
        self.await_port("vsftpd")

    def close(self) -> None:
        """Stop it, its sessions, and remove its configuration."""
        super().close()
        self._scratch.cleanup()


WITH_SBIN = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


def vsftpd_configuration(directory: Path, empty: Path, port: int) -> str:
    """Return a vsftpd configuration: anonymous, read-only, loopback, without its limits on sessions."""
    options = {
        "listen": "YES",
        "listen_ipv6": "NO",
        "listen_address": HOST,
        "listen_port": port,
        "background": "NO",
        "anonymous_enable": "YES",
        "anon_root": directory,
        "secure_chroot_dir": empty,
        "xferlog_enable": "NO",
        "max_clients": 0,
        "max_per_ip": 0,
        **({} if os.geteuid() == 0 else {"run_as_launching_user": "YES"}),
    }
    return "".join(f"{name}={value}\n" for name, value in options.items())


def available() -> "tuple[dict[str, Callable[[Path], Subject]], list[str]]":
    """Return the servers that can be measured here, and a notice for each that cannot."""
    makers: dict[str, Callable[[Path], Subject]] = {kind.name: kind for kind in (Ours, OursWithParent, StockPyftpdlib)}
    if shutil.which("vsftpd", path=WITH_SBIN) is None:
        return makers, ["vsftpd is not installed and was left out; install it (apt install vsftpd)"]
    return {**makers, Vsftpd.name: Vsftpd}, []


def versions() -> dict[str, str]:
    """Return the version of each server that is there."""
    found = {Ours.name: importlib.metadata.version("flashferry"), "pyftpdlib": importlib.metadata.version("pyftpdlib")}
    if path := shutil.which("vsftpd", path=WITH_SBIN):
        # It writes its version to standard input, of all places, if that is writable.
        ours, theirs = socket.socketpair()
        with ours, theirs:
            end = theirs.fileno()
            subprocess.run([path, "-v"], stdin=end, stdout=end, stderr=end, timeout=5, check=False)
            ours.settimeout(1)
            with contextlib.suppress(OSError):
                found["vsftpd"] = ours.recv(200).decode().strip().removeprefix("vsftpd: version ")
    return found


def free_port() -> int:
    """Return a port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
