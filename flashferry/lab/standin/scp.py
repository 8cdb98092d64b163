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
import time
from typing import TYPE_CHECKING

import asyncssh
from asyncssh.channel import SSHServerChannel

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.holding import allowed_bytes, hold
from flashferry.lab.standin.ssh_client.settings import ssh_settings
from flashferry.lab.standin.tcp_settings import tcp_settings

if TYPE_CHECKING:
    from asyncssh.packet import SSHPacket

    from flashferry.lab.standin.device import Device

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
        self._check()
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
            receive_window.after_first_data(self._socket, self._window_bytes)
            self._has_data = True
        receive_window.acknowledge(self._socket)
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

    def _check(self) -> None:
        running = self._device.running
        if running.find("ip scp server enable") is None:
            raise asyncssh.SFTPPermissionDenied("Administratively disabled.")
        has_exec = running.find("aaa new-model") is None or running.find("aaa authorization exec") is not None
        if self._device.privilege_of(self._user) < 15 or not has_exec:
            raise asyncssh.SFTPPermissionDenied("Privilege denied.")
