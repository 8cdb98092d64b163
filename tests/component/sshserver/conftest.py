"""A real server process on loopback that serves SSH, and the clients of others that speak to it."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import paramiko
import pytest

from flashferry.fileserver import Ticket, TransferProgress
from flashferry.sshserver import ssh_listener
from ftpserver import ftp_listener
from tests.component.benches import IMAGE, ServerBench, serving
from tests.needs import lacking
from tests.patience import PATIENCE_S


def needs(command: str) -> None:
    """Skip, or fail in CI, where a client is not installed."""
    if shutil.which(command) is None:
        lacking(f"{command} is not installed (openssh-client)")


@dataclass(kw_only=True)
class Bench(ServerBench):
    """A server, its image, and what a test needs to reach it."""

    folder: Path
    keys: Path

    @property
    def port(self) -> int:
        return self.server.port_of("scp")

    @property
    def pid(self) -> int:
        """That of SSH."""
        return self.server.pids["ssh"]

    def openssh(
        self, command: Sequence[str], ticket: Ticket, *options: str, name: str = IMAGE, target: str = "got.bin"
    ) -> subprocess.CompletedProcess[str]:
        """Run scp or sftp of OpenSSH; the password comes from a program of its own, for there is no terminal."""
        needs(command[0])
        (self.folder / target).unlink(missing_ok=True)
        return subprocess.run(
            self.openssh_line(command, ticket, *options, name=name, target=target),
            env=self.askpass(ticket),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def openssh_line(
        self, command: Sequence[str], ticket: Ticket, *options: str, name: str = IMAGE, target: str = "got.bin"
    ) -> list[str]:
        settings = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "NumberOfPasswordPrompts=1")
        common = [word for setting in (*settings, *options) for word in ("-o", setting)]
        source = f"{ticket.username}@127.0.0.1:{name}"
        return [*command, "-F", "none", "-P", str(self.port), *common, source, str(self.folder / target)]

    def askpass(self, ticket: Ticket) -> dict[str, str]:
        script = self.folder / "askpass.sh"
        script.write_text('#!/bin/sh\necho "$TICKET_PASSWORD"\n')
        script.chmod(0o700)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "DISPLAY": "none",
            "SSH_ASKPASS": str(script),
            "SSH_ASKPASS_REQUIRE": "force",
            "TICKET_PASSWORD": ticket.password,
        }

    def got(self, target: str = "got.bin") -> bytes:
        path = self.folder / target
        return path.read_bytes() if path.exists() else b""

    def paramiko(self, ticket: Ticket, **more: Any) -> paramiko.Transport:
        transport = paramiko.Transport(("127.0.0.1", self.port))
        for name, value in more.items():
            setattr(transport.get_security_options(), name, value)
        try:
            transport.connect(username=ticket.username, password=ticket.password)
        except BaseException:
            transport.close()
            raise
        return transport

    async def connect(self, ticket: Ticket, **more: Any) -> asyncssh.SSHClientConnection:
        return await asyncssh.connect(
            "127.0.0.1",
            self.port,
            username=ticket.username,
            **{"password": ticket.password, "known_hosts": None, "config": None, "client_keys": None, **more},
        )

    async def sink(self, connection: asyncssh.SSHClientConnection, **more: Any) -> "Sink":
        return Sink(await connection.create_process(f"scp -f {self.image_name}", encoding=None, **more))

    def delivered(self, ticket: Ticket) -> TransferProgress:
        """Wait until a ticket is delivered, whole, whatever became of a try before."""
        progress = super().delivered(ticket)
        assert progress.record is not None
        assert progress.record.bytes_acked == progress.record.size_bytes == len(self.content)
        return progress

    def raw(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S, source_address=(source, 0))


class Sink:
    """`scp -f` by hand on an asyncssh client, to be as slow or as rude as a test wants."""

    def __init__(self, process: "asyncssh.SSHClientProcess[bytes]") -> None:
        self.process = process

    def say(self, answer: bytes = b"\0") -> None:
        self.process.stdin.write(answer)

    async def header(self) -> bytes:
        self.say()
        return await self.process.stdout.readline()

    async def body(self, size: int) -> bytes:
        self.say()
        return await self.process.stdout.readexactly(size + 1)


@contextlib.contextmanager
def running(folder: Path, host_keys: Path, **options: Any) -> Iterator[Bench]:
    """Run a server in a folder; options change its settings.

    With `ftp` it serves FTP as well, in a process of its own, which most tests need not wait for.
    """
    listeners = [ssh_listener(host_keys=host_keys, listen_address="127.0.0.1")]
    if options.pop("ftp", False):
        listeners.append(ftp_listener(listen_address="127.0.0.1"))
    with serving(folder, tuple(listeners), options, profile={"mss_bytes": 1400}) as found:
        yield Bench(**vars(found), folder=folder, keys=host_keys)


@pytest.fixture(scope="session")
def host_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys for all tests: an RSA key takes a while to be made."""
    keys = tmp_path_factory.mktemp("state") / "keys"
    ssh_listener(host_keys=keys)
    return keys


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, host_keys: Path) -> Iterator[Bench]:
    """A server for all tests of a module that leave it as they found it: each takes 0.5 s of a processor."""
    folder = tmp_path_factory.mktemp("shared")
    with running(folder, host_keys) as found:
        yield found


@pytest.fixture
def bench(tmp_path: Path, host_keys: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    with running(tmp_path, host_keys, **dict(getattr(request, "param", {}))) as found:
        yield found
