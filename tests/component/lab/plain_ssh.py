"""A plain SSH server in the core, stock asyncssh: SCP and SFTP of one folder, lists and keys of a test's choice."""

import asyncio
import contextlib
import logging
import random
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from flashferry.lab.world import World, in_core

SSH_USER, SSH_WORD = "tester", "lab9word"

LEGACY = {
    "kex_algs": ["curve25519-sha256", "diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1"],
    "encryption_algs": ["aes128-ctr", "aes128-gcm@openssh.com", "aes128-cbc"],
    "mac_algs": ["hmac-sha1", "hmac-sha2-256"],
}
"""Lists in which the oldest platforms find something."""


@dataclass(slots=True, kw_only=True)
class PlainSsh:
    """A running server, its folder, and what it saw of its clients."""

    root: Path
    address: str
    port: int = 0
    commands: list[str] = field(default_factory=list)
    windows: list[tuple[int, int]] = field(default_factory=list)
    ciphers: list[str] = field(default_factory=list)

    def url(self, name: str, *, login: str = f"{SSH_USER}:{SSH_WORD}@", scheme: str = "scp") -> str:
        return f"{scheme}://{login}{self.address}:{self.port}/{name}"

    def add(self, name: str, size_bytes: int) -> bytes:
        content = random.Random(name).randbytes(size_bytes)
        (self.root / name).write_bytes(content)
        return content


class _Server(asyncssh.SSHServer):
    def begin_auth(self, _username: str) -> bool:
        return True

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == (SSH_USER, SSH_WORD)


def _listening(address: tuple[str, int], congestion: bytes) -> socket.socket:
    """Return a socket whose connections have this congestion control: BBR's pacing would slow a small window down."""
    listener = socket.socket()
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address)
    return listener


@contextlib.contextmanager
def plain_ssh(
    world: World, root: Path, *, congestion: bytes = b"cubic", port: int = 0, **options: Any
) -> Iterator[PlainSsh]:
    """Serve a folder in the core; options are those of `asyncssh.listen`."""
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL)
    own = PlainSsh(root=root, address=world.server_address)
    key = options.pop("server_host_keys", None) or [asyncssh.generate_private_key("ssh-rsa", key_size=2048)]
    ready, failed = threading.Event(), []
    loop = asyncio.new_event_loop()
    over = asyncio.Event()

    class Files(asyncssh.SFTPServer):
        def __init__(self, channel: Any) -> None:
            super().__init__(channel, chroot=str(root))
            connection = channel.get_connection()
            own.commands.append(channel.get_command() or channel.get_subsystem())
            own.windows.append((channel._send_window, channel._send_pktsize))
            own.ciphers.append(connection.get_extra_info("send_cipher"))

    async def serve() -> None:
        try:
            server = await asyncssh.listen(
                sock=_listening((own.address, port), congestion), server_factory=_Server, server_host_keys=key,
                sftp_factory=Files, allow_scp=True, **options,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 - told in the test's own thread
            failed.append(error)
            ready.set()
            return
        own.port = server.get_port()
        ready.set()
        await over.wait()
        server.close()

    async def end_tasks() -> None:
        left = asyncio.all_tasks(loop) - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def run() -> None:
        with in_core(world):
            loop.run_until_complete(serve())
            loop.run_until_complete(end_tasks())
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait()
    try:
        if failed:
            raise failed[0]
        yield own
    finally:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(over.set)
        thread.join()
