"""A real server process on loopback that serves SSH beside FTP, and the clients of others that speak to it."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncssh
import paramiko
import pytest

from flashferry.fileserver import (
    FileServer,
    Limits,
    SenderProfile,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferState,
)
from flashferry.sshserver import ssh_listener
from ftpserver import ftp_listener

IMAGE = "csr1000v-universalk9.16.11.01.SPA.bin"


def needs(command: str) -> None:
    """Skip, or fail in CI, where a client is not installed."""
    if shutil.which(command) is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{command} is not installed (openssh-client)")


@dataclass
class Bench:
    """A server, its image, and what a test needs to reach it."""

    server: FileServer
    folder: Path
    content: bytes
    keys: Path
    image_name: str = IMAGE

    def ticket(self, image_name: str = IMAGE, **more: Any) -> Ticket:
        return self.server.issue_ticket(TicketRequest(image_name=image_name, **more))

    @property
    def port(self) -> int:
        return self.server.port_of("scp")

    @property
    def pid(self) -> int:
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
            timeout=60,
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

    def final(self, ticket: Ticket) -> TransferProgress:
        progress = self.server.wait_final(ticket.ticket_id, 20)
        assert progress.state.is_final, progress
        return progress

    def delivered(self, ticket: Ticket) -> TransferProgress:
        progress = self.final(ticket)
        assert progress.state is TransferState.DELIVERED, progress.last_error
        assert progress.record is not None
        assert progress.record.bytes_acked == progress.record.size_bytes == len(self.content)
        return progress

    def until(self, ticket: Ticket, wanted: Callable[[TransferProgress], bool]) -> TransferProgress:
        deadline = time.monotonic() + 20
        progress = self.server.progress(ticket.ticket_id)
        while not wanted(progress):
            assert time.monotonic() < deadline, f"never came about; last seen: {progress}"
            if progress.state.is_final:
                time.sleep(0.01)
            progress = self.server.wait(ticket.ticket_id, 5)
        return progress

    @staticmethod
    def settles(condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + 20
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.02)
        return condition()

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    def raw(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(source, 0))


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


@pytest.fixture(scope="session")
def host_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys for all tests: an RSA key takes a while to be made."""
    keys = tmp_path_factory.mktemp("state") / "keys"
    ssh_listener(host_keys=keys)
    return keys


@pytest.fixture
def bench(tmp_path: Path, host_keys: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A server with short limits; `@pytest.mark.parametrize("bench", [{...}], indirect=True)` changes settings."""
    options: dict[str, Any] = dict(getattr(request, "param", {}))
    images = tmp_path / "images"
    images.mkdir()
    content = os.urandom(options.pop("size", 300_000))
    (images / IMAGE).write_bytes(content)
    (images / "other.bin").write_bytes(b"not for you")
    limits = {"failed_login_delay_s": 0.05, "failed_logins": 3, **options.pop("limits", {})}
    profile = {"stall_after_s": 0.2, "mss_bytes": 1400, **options.pop("profile", {})}
    settings = ServerSettings(
        image_paths=(images,),
        listeners=(
            ssh_listener(host_keys=host_keys, listen_address="127.0.0.1"),
            ftp_listener(listen_address="127.0.0.1"),
        ),
        sample_interval_s=options.pop("sample_interval_s", 0.05),
        limits=Limits(**limits),
        profile=SenderProfile(**profile),
        **options,
    )
    with FileServer(settings) as server:
        yield Bench(server=server, folder=tmp_path, content=content, keys=host_keys)
        assert not [note for note in server.notices if "internal error" in note], server.notices
