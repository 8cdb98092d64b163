"""A message broker: the distribution's redis-server on loopback or in a lab's namespace.

Its append-only file survives `kill -9` of the process. With certificates it speaks TLS only and asks every client for
one. In redis.conf of 7.0 ``port 0`` closes the plain port, and a password in the file is not in the process list.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from flashferry.lab import helper
from flashferry.lab.authority import Authority, ServerCertificate
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import enter_namespace, in_namespace

PROGRAM = "redis-server"
PORT = 6379
_START_S = 20.0
_STOP_S = 10.0
_POLL_S = 0.02
_ANSWER_S = 5.0
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700
_LONGEST_LOG_BYTES = 65536


def missing_broker() -> str:
    """Return why no broker can be started here, in a sentence; empty where one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed; install the distribution's package (Debian and Ubuntu: {PROGRAM})."
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerTls:
    """PEM files of TLS: the authority, the server's certificate and key, and a client's."""

    ca: Path
    server: ServerCertificate
    client: ServerCertificate


def broker_tls(authority: Authority, folder: Path, address: str) -> BrokerTls:
    """Write certificates of an authority for a broker at `address` and its clients into a new folder."""
    folder.mkdir(mode=_FOLDER_MODE)
    (folder / "ca.pem").write_text(authority.pem, encoding="ascii")
    return BrokerTls(
        ca=folder / "ca.pem",
        server=authority.issue(folder, (address,)),
        client=authority.issue_client(folder, "client"),
    )


@dataclass(slots=True, kw_only=True)
class Broker:
    """A redis-server with a folder for configuration, data and log; it can be killed and started again.

    `port` 0 takes a free one; `namespace_pid` is a process in its namespace, None for the caller's; without `tls` it
    speaks clear text.
    """

    folder: Path
    address: str = "127.0.0.1"
    port: int = 0
    namespace_pid: int | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(18), repr=False)
    tls: BrokerTls | None = None
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address with the login, as Celery and redis-py take it; with TLS the files come besides."""
        scheme = "redis" if self.tls is None else "rediss"
        return f"{scheme}://:{self.password}@{self.address}:{self.port}/0"

    @property
    def pid(self) -> int:
        """Its process. Raises LabError: it does not run."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it answers. Raises LabError: no redis-server, it runs already, or no answer."""
        if reason := missing_broker():
            raise LabError(reason)
        if self.is_running:
            raise LabError(f"The broker at {self.address}:{self.port} runs already (process {self.pid}).")
        self.folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        with self._namespace():
            self.port = self.port or _free_port(self.address)
        _write(self.folder / "redis.conf", self._configuration())
        tie = threading.current_thread() is threading.main_thread()
        command = ["-m", __name__, str(os.getpid()), str(int(tie)), str(self.namespace_pid or 0)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", *command, str(self.folder / "redis.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._await_answer()

    def kill9(self) -> None:
        """Kill it by SIGKILL. Raises LabError: it does not run."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End it in order, if it runs."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill9()

    def ask(self, *words: str) -> bytes:
        """Send a command on a new connection; return the answer's first piece (RESP). Raises OSError: no answer."""
        with self._namespace(), self._connected() as connection:
            connection.sendall(_request("AUTH", self.password))
            connection.recv(512)
            connection.sendall(_request(*words))
            return connection.recv(65536)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"The broker at {self.address}:{self.port} does not run; start it.")
        return self._process

    def _namespace(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self.namespace_pid is None else in_namespace(self.namespace_pid)

    def _configuration(self) -> str:
        lines = [
            f"bind {self.address}",
            f"dir {self.folder}",
            f"logfile {self.folder / 'redis.log'}",
            f"requirepass {self.password}",
            "appendonly yes",
            'save ""',
            "daemonize no",
            "maxmemory-policy noeviction",
        ]
        if self.tls is None:
            return "\n".join([*lines, f"port {self.port}", ""])
        files = {
            "tls-cert-file": self.tls.server.certificate,
            "tls-key-file": self.tls.server.key,
            "tls-ca-cert-file": self.tls.ca,
        }
        lines += ["port 0", f"tls-port {self.port}", "tls-auth-clients yes", 'tls-protocols "TLSv1.2 TLSv1.3"']
        return "\n".join([*lines, *(f"{key} {path}" for key, path in files.items()), ""])

    @contextlib.contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        with socket.create_connection((self.address, self.port), _ANSWER_S) as plain:
            if self.tls is None:
                yield plain
                return
            context = ssl.create_default_context(cafile=str(self.tls.ca))
            context.load_cert_chain(self.tls.client.certificate, self.tls.client.key)
            with context.wrap_socket(plain, server_hostname=self.address) as connection:
                yield connection

    def _await_answer(self) -> None:
        """Wait until it has read its data back and answers."""
        deadline_s = time.monotonic() + _START_S
        while not self._answers():
            if not self.is_running or time.monotonic() > deadline_s:
                self.stop()
                raise LabError(f"The broker at {self.address}:{self.port} did not start: {self._last_line()}.")
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            return self.ask("PING").startswith(b"+PONG")
        except OSError:
            return False

    def _last_line(self) -> str:
        try:
            log = (self.folder / "redis.log").read_bytes()[-_LONGEST_LOG_BYTES:].decode(errors="replace")
        except FileNotFoundError:
            log = ""
        return log.strip().rpartition("\n")[2] or "it gave no reason"


@contextlib.contextmanager
def running_broker(broker: Broker) -> Iterator[Broker]:
    """Start a broker for a with block. Raises LabError: as `Broker.start`."""
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _request(*words: str) -> bytes:
    """Return a command as Redis reads it (RESP: an array of bulk strings)."""
    parts = [f"*{len(words)}\r\n".encode()]
    for word in words:
        content = word.encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(content), content))
    return b"".join(parts)


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "w", encoding="utf-8") as file:
        file.write(text)


def main() -> NoReturn:
    """Become redis-server in a namespace, to end with its owner: OWNER TIE NAMESPACE CONFIGURATION."""
    owner, tie, namespace, configuration = sys.argv[1:]
    if int(tie):
        helper.end_with_owner()
    if os.getppid() != int(owner):
        sys.exit("the owner is gone")
    if int(namespace):
        enter_namespace(int(namespace))
    os.execvp(PROGRAM, [PROGRAM, configuration])  # noqa: S606 - becoming that program is the purpose


if __name__ == "__main__":
    main()
