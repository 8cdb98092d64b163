"""The SSH side: a listener per device, a vty per session."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.commands import build_trees
from flashferry.lab.standin.config_text import banner_text
from flashferry.lab.standin.grammar import Node
from flashferry.lab.standin.listener import Listener
from flashferry.lab.standin.scp import DeviceFiles, open_channels_as
from flashferry.lab.standin.tcp_settings import tcp_settings
from flashferry.lab.standin.terminal import Terminal
from flashferry.lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device

_HOST_KEY_BITS = 2048
_LEGACY: dict[str, Any] = {
    "kex_algs": ["diffie-hellman-group14-sha1", "diffie-hellman-group-exchange-sha1", "diffie-hellman-group1-sha1"],
    "encryption_algs": ["aes128-ctr", "aes192-ctr", "aes256-ctr", "aes128-cbc", "3des-cbc", "aes192-cbc", "aes256-cbc"],
    "mac_algs": ["hmac-sha1", "hmac-sha1-96"],
}
"""What IOS 15 offers (IOSv; paramiko 5 has none of these key exchanges left). Its host key signs with SHA-1 only."""

Trees = tuple[Node[Command], Node[Command]]


class _Server(asyncssh.SSHServer):
    """Logs a user in against the device's running configuration."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._connection: asyncssh.SSHServerConnection | None = None
        self._tcb: str | None = None
        self.vty: int | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        """Take a vty line; with none free the connection is dropped at once, before any SSH."""
        self._connection = conn
        peer = conn.get_extra_info("peername")
        self.vty = self._device.take_vty("", peer[0])
        if self.vty is None:
            conn.abort()
            return
        own = tcp_settings(self._device.running, self._device.platform.tcp)
        connection = conn.get_extra_info("socket")
        receive_window.before_dialogue(connection, own.window_bytes)
        open_channels_as(self._device, conn)
        self._tcb = self._device.connections.add(
            conn.get_extra_info("sockname"), peer, live=connection, window_bytes=own.window_bytes,
            options=own.syn_options,
        )  # fmt: skip
        if self._device.listener is not None:
            self._device.listener.joined(conn)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Give the vty line back."""
        if self.vty is not None:
            self._device.vtys.pop(self.vty, None)
        if self._tcb is not None:
            self._device.connections.remove(self._tcb)
        if self._device.listener is not None and self._connection is not None:
            self._device.listener.left(self._connection)

    def begin_auth(self, _username: str) -> bool:
        """A password is always asked; the login banner comes before it."""
        line = self._device.running.find("banner login")
        if line is not None and self._connection is not None:
            self._connection.send_auth_banner(banner_text(line.text).strip("\n") + "\r\n")
        return True

    def password_auth_supported(self) -> bool:
        """Passwords are the way in."""
        return True

    def validate_password(self, username: str, password: str) -> bool:
        """Ask the device."""
        fits = self._device.password_fits(username, password)
        if fits and self.vty is not None and self._connection is not None:
            self._device.vtys[self.vty] = (username, self._connection.get_extra_info("peername")[0])
            self._connection.set_extra_info(vty=self.vty)
        return fits


class _SshChannel:
    """Adapts an SSH process to what a terminal reads and writes."""

    def __init__(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        self._process = process

    async def read(self) -> bytes:
        """Return the next bytes; a resized window or a break signal is no input."""
        while True:
            try:
                return await self._process.stdin.read(4096)
            except (asyncssh.TerminalSizeChanged, asyncssh.BreakReceived, asyncssh.SignalReceived):
                continue
            except (asyncssh.Error, OSError):
                return b""

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._process.stdout.write(data)

    def abort(self) -> None:
        """Cut the TCP connection."""
        self._process.channel.get_connection().abort()


async def _serve_session(device: Device, trees: Trees, process: asyncssh.SSHServerProcess[bytes]) -> None:
    terminal = Terminal(_SshChannel(process), longest_line=device.platform.line_limit_chars)
    vty = Vty(
        device, terminal,
        number=process.get_extra_info("vty", 0),
        user=process.get_extra_info("username"),
        peer=process.get_extra_info("peername")[0],
        trees=trees,
        rows=process.get_terminal_size()[1] if process.term_type else 0,
    )  # fmt: skip
    pump = asyncio.ensure_future(terminal.pump())
    try:
        await vty.run()
    finally:
        pump.cancel()
        process.exit(0)
        process.channel.get_connection().close()


async def make_host_key() -> asyncssh.SSHKey:
    """Make an RSA host key, the kind that IOS-XE has by default."""
    return await asyncio.to_thread(asyncssh.generate_private_key, "ssh-rsa", key_size=_HOST_KEY_BITS)


def _key_pair(device: Device, key: asyncssh.SSHKey) -> asyncssh.SSHKeyPair:
    """Return the key with the signatures it offers: legacy SSH knows ``ssh-rsa`` only."""
    pair: asyncssh.SSHKeyPair = asyncssh.load_keypairs([key])[0]
    if device.platform.has_legacy_ssh:
        pair.host_key_algorithms = (b"ssh-rsa",)
    return pair


async def listen(device: Device, key: asyncssh.SSHKey) -> Listener:
    """Serve a device on its own address."""
    trees = build_trees(device.platform)

    async def session(process: asyncssh.SSHServerProcess[bytes]) -> None:
        await _serve_session(device, trees, process)

    async def open_port(key: asyncssh.SSHKey, port: socket.socket) -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            sock=port,
            server_factory=lambda: _Server(device),
            server_host_keys=[_key_pair(device, key)],
            server_version="Cisco-1.25",
            process_factory=session,
            sftp_factory=lambda channel: DeviceFiles(channel, device),
            allow_scp=True,
            encoding=None,
            line_editor=False,
            login_timeout=120,
            keepalive_interval=0,
            **(_LEGACY if device.platform.has_legacy_ssh else {}),
        )

    device.listener = Listener(device, key, open_port)
    await device.listener.start()
    return device.listener
