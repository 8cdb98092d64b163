"""The SCP server (`ip scp server enable`): files of the device's file systems by their IOS names.

Facts: the client names ``flash:/x`` or ``flash:x``; without the configuration line the answer is
``Administratively disabled.``, and a user below privilege 15, or one whom AAA gives no exec, reads ``Privilege
denied.`` (facts 1 and 2.4; the first text is that of public tools' issues). There is no SFTP: OpenSSH 9 needs ``scp
-O``. The connection has the receive window of the configuration, the channel that of `ip ssh bulk-mode` and `ip ssh
window-size`, and what comes is decrypted at the model's speed and written at the flash's, as in a copy; of the
SYN's options the window scale is that of the configuration, the others are those of Linux.
"""

from __future__ import annotations

import asyncio
import functools
import socket
import time
from typing import TYPE_CHECKING, Any

import asyncssh
from asyncssh.channel import SSHServerChannel
from asyncssh.constants import MSG_IGNORE

from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.commands import build_trees
from flashferry.lab.standin.configuration import banner_text
from flashferry.lab.standin.device_tcp import tcp_settings
from flashferry.lab.standin.faults import allowed_bytes, hold
from flashferry.lab.standin.grammar import Node, login_level
from flashferry.lab.standin.ssh_client.settings import ssh_settings
from flashferry.lab.standin.terminal import Terminal
from flashferry.lab.standin.vty import Command, Vty

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    import asyncssh
    from asyncssh.packet import SSHPacket, SSHPacketLogger

    from flashferry.lab.standin.device import Device
    from flashferry.lab.standin.device_tcp import TcpSettings

_OWED_S = 0.002
"""A wait too short to be kept is owed, not slept: sleeping rounds up and would slow the device."""


class DeviceServerChannel(SSHServerChannel[bytes]):
    """A channel of the device's SSH server, which knows no subsystem."""

    def _process_subsystem_request(self, packet: SSHPacket) -> bool:
        """Refuse SFTP, whatever asyncssh could do."""
        packet.get_string()
        packet.check_end()
        return False


def open_channels_as(device: Device, connection: asyncssh.SSHServerConnection) -> None:
    """Give the channels of a new connection the window that is configured now; asyncssh refills it at the half."""
    own = ssh_settings(device.running, device.platform.ssh_client)
    connection._window, connection._max_pktsize = own.window_bytes, own.packet_bytes  # noqa: SLF001 - set per server only
    connection.create_server_channel = functools.partial(_channel, connection)  # type: ignore[method-assign]
    _send_no_ignored(connection)


def _send_no_ignored(connection: asyncssh.SSHServerConnection) -> None:
    """Have a connection send no SSH_MSG_IGNORE: asyncssh sends one before each packet, IOS does not (its issue 561).

    They guard CBC ciphers (RFC 4251, section 9.3.1); a client has twice as many packets to read.
    """
    send = connection.send_packet

    def send_packet(pkttype: int, *args: bytes, handler: SSHPacketLogger | None = None) -> None:
        if pkttype != MSG_IGNORE:
            send(pkttype, *args, handler=handler)

    vars(connection)["send_packet"] = send_packet


def _channel(
    connection: asyncssh.SSHServerConnection, _encoding: str | None, errors: str, window: int, max_pktsize: int
) -> DeviceServerChannel:
    """Make a channel, as asyncssh's own method does."""
    connection._update_recv_pktlen(max_pktsize)  # noqa: SLF001 - the same
    loop = asyncio.get_running_loop()
    return DeviceServerChannel(connection, loop, True, False, False, 0, 1024, None, errors, window, max_pktsize)


class DeviceFiles(asyncssh.SFTPServer):
    """The files of a device, for one SCP session."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], device: Device) -> None:
        super().__init__(channel)
        self._device = device
        self._own_channel = channel
        self._user = str(channel.get_extra_info("username"))
        self._flash = device.flash
        self._socket = channel.get_extra_info("socket")
        self._cipher = str(channel.get_extra_info("recv_cipher"))
        self._window_bytes = tcp_settings(device.running, device.platform.tcp).window_bytes
        self._has_data = False
        self._is_full = False
        self._free_at_s = 0.0
        self._name = ""

    def map_path(self, path: bytes) -> bytes:
        """Return where the host keeps a file.

        Raises SFTPError: the server is off, the user may not, or there is no such file system.
        """
        running = self._device.running
        if running.find("ip scp server enable") is None:
            raise asyncssh.SFTPPermissionDenied("Administratively disabled.")
        if login_level(running, self._user, int(self._own_channel.get_extra_info("vty", 0))) < 15:
            raise asyncssh.SFTPPermissionDenied("Privilege denied.")
        prefix, colon, name = path.decode("latin-1").lstrip("/").partition(":")
        flash = self._device.file_system(prefix) if colon else self._device.flash
        if flash is None:
            raise asyncssh.SFTPNoSuchFile("Bad filename")
        self._flash = flash
        self._name = (name if colon else prefix).lstrip("/")
        return str(flash.path(self._name) if self._name else flash.root).encode()

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write a piece at the device's speed, as far as there is room. Raises SFTPError: the flash is full."""
        if not self._has_data:
            device_tcp.after_first_data(self._socket, self._window_bytes)
            self._has_data = True
        device_tcp.acknowledge(self._socket)
        limit = self._device.faults.disk_full_after_bytes
        is_beyond = limit is not None and offset + len(data) > limit
        if self._device.faults.flash_full or is_beyond or len(data) > self._flash.free_bytes:
            self._is_full = True
            raise asyncssh.SFTPFailure("No space left on device")
        await self._spend(len(data))
        taken = 0
        while taken < len(data):
            left_bytes = allowed_bytes(self._device, offset + taken)
            if left_bytes == 0:
                await self._hold(offset + taken)
                continue
            part = data[taken:] if left_bytes is None else data[taken : taken + left_bytes]
            written = super().write(file_obj, offset + taken, part)
            assert isinstance(written, int)
            taken += written
        return taken

    def close(self, file_obj: object) -> None:
        """Finish the file; one that did not fit does not stay."""
        super().close(file_obj)
        if self._is_full:
            self._flash.delete(self._name)

    async def _spend(self, size: int) -> None:
        """Take the time that the cipher's model and the flash take."""
        faults, platform = self._device.faults, self._device.platform
        speeds = {**platform.ssh_client.crypto_bytes_per_s, **platform.crypto_bytes_per_s}
        crypto = faults.ssh_crypto_bytes_per_s or speeds.get(self._cipher)
        flash = faults.slow_flash_bytes_per_s or self._flash.figures.write_bytes_per_s
        now_s = time.monotonic()
        took_s = size / flash + (size / crypto if crypto else 0.0)
        self._free_at_s = max(self._free_at_s, now_s) + took_s
        if self._free_at_s - now_s > _OWED_S:
            await asyncio.sleep(self._free_at_s - now_s)

    async def _hold(self, size_bytes: int) -> None:
        """Take nothing more until that is released, or the pusher is gone."""

        def is_held() -> bool:
            return allowed_bytes(self._device, size_bytes) == 0 and not self._own_channel.is_closing()

        await hold(self._device, f"copy at {size_bytes} bytes", is_held)
        if self._own_channel.is_closing():
            raise asyncssh.SFTPConnectionLost("the session is gone")


_RETRY_S = 0.05


class Listener:
    """Opens and closes the port of a device.

    With all vty lines in use IOS refuses the connection itself (RST to the SYN), so the port is closed, not answered
    and dropped. `open_port` listens with a host key on a socket that is bound.
    """

    def __init__(
        self, device: Device, key: asyncssh.SSHKey,
        open_port: Callable[[asyncssh.SSHKey, socket.socket], Awaitable[asyncssh.SSHAcceptor]],
    ) -> None:  # fmt: skip
        self._device = device
        self._open_port = open_port
        self._key = key
        self._acceptor: asyncssh.SSHAcceptor | None = None
        self._port: socket.socket | None = None
        self._is_up = True
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. Raises OSError: the address is not there or is taken."""
        self._port = self._bound()
        self._acceptor = await self._open_port(self._key, self._port)

    def follow_window(self) -> None:
        """Have new connections open with the window scale of the configuration as it is now."""
        if self._acceptor is not None and self._port is not None:
            device_tcp.before_connect(self._port, self._tcp)

    def joined(self, connection: asyncssh.SSHServerConnection) -> None:
        """Note a connection that has a vty line; the last free one closes the port."""
        self._connections.add(connection)
        self._follow()

    def left(self, connection: asyncssh.SSHServerConnection) -> None:
        """Note that a connection is gone; its vty line is free again."""
        self._connections.discard(connection)
        self._follow()

    def restart(self, seconds: float) -> None:
        """Drop every session, stay away for a while, and come back."""
        self._is_up = False
        self._device.shut_down()
        self.drop_connections()
        self._connections.clear()
        self._follow()
        self._spawn(self._come_back(seconds))

    def drop_connections(self) -> None:
        """Drop every session; new ones are taken as before."""
        for connection in list(self._connections):
            connection.abort()

    def use_key(self, key: asyncssh.SSHKey) -> None:
        """Take another host key for new connections."""
        self._key = key
        self.close()
        self._follow()

    def close(self) -> None:
        """Stop to listen."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = self._port = None

    @property
    def _is_requested(self) -> bool:
        return self._is_up and len(self._device.vtys) < self._device.platform.vty_lines

    async def _come_back(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if self._device.faults.hold_boot:
            await hold(self._device, "restart", lambda: self._device.faults.hold_boot)
        if not self._device.boot():
            return
        self._is_up = True
        self._follow()

    def _follow(self) -> None:
        if not self._is_requested:
            self.close()
        elif self._acceptor is None:
            self._spawn(self._reopen())

    async def _reopen(self) -> None:
        while self._is_requested and self._acceptor is None:
            try:
                port = self._bound()
                acceptor = await self._open_port(self._key, port)
            except OSError:  # the old port is not quite closed yet
                await asyncio.sleep(_RETRY_S)
                continue
            self._keep(acceptor, port)

    def _keep(self, acceptor: asyncssh.SSHAcceptor, port: socket.socket) -> None:
        """Keep a port that has opened, unless it is not needed any more."""
        if self._is_requested and self._acceptor is None:
            self._acceptor, self._port = acceptor, port
            self.follow_window()
        else:
            acceptor.close()

    def _bound(self) -> socket.socket:
        port = socket.socket()
        port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        device_tcp.before_connect(port, self._tcp)
        try:
            port.bind((self._device.settings.address, self._device.settings.port))
        except OSError:
            port.close()
            raise
        return port

    @property
    def _tcp(self) -> TcpSettings:
        return tcp_settings(self._device.running, self._device.platform.tcp)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


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
        device_tcp.before_dialogue(connection, own.window_bytes)
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
