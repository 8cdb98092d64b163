"""The SCP server (`ip scp server enable`): files of the device's file systems by their IOS names.

Facts: the client names ``flash:/x`` or ``flash:x``; without the configuration line the answer is
``Administratively disabled.``, and a user below privilege 15 reads ``Privilege denied.`` (facts 1; the first text is
that of public tools' issues). The connection has the receive window of the configuration and the file is written at the
flash's speed, as in a copy by FTP; the SYN's options are those of Linux.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncssh

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.tcp_settings import tcp_settings

if TYPE_CHECKING:
    from flashferry.lab.standin.device import Device


class DeviceFiles(asyncssh.SFTPServer):
    """The files of a device, for one SCP session."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], device: Device) -> None:
        super().__init__(channel)
        self._device = device
        self._user = str(channel.get_extra_info("username"))
        self._flash = device.flash
        self._socket = channel.get_extra_info("socket")
        self._window_bytes = tcp_settings(device.running, device.platform.tcp).window_bytes
        self._has_data = False

    def map_path(self, path: bytes) -> bytes:
        """Return where the host keeps a file.

        Raises:
            SFTPError: The server is off, the user may not, or there is no such file system.
        """
        self._check()
        prefix, colon, name = path.decode("latin-1").lstrip("/").partition(":")
        flash = self._device.file_system(prefix) if colon else self._device.flash
        if flash is None:
            raise asyncssh.SFTPNoSuchFile("Bad filename")
        self._flash = flash
        name = (name if colon else prefix).lstrip("/")
        return str(flash.path(name) if name else flash.root).encode()

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        """Write a piece at the flash's speed, as far as there is room.

        Raises:
            SFTPError: The flash is full.
        """
        if not self._has_data:
            receive_window.after_first_data(self._socket, self._window_bytes)
            self._has_data = True
        receive_window.acknowledge(self._socket)
        if self._device.faults.flash_full or len(data) > self._flash.free_bytes:
            raise asyncssh.SFTPFailure("No space left on device")
        rate = self._device.faults.slow_flash_bytes_per_s or self._flash.figures.write_bytes_per_s
        await asyncio.sleep(len(data) / rate)
        written = super().write(file_obj, offset, data)
        assert isinstance(written, int)
        return written

    def _check(self) -> None:
        if self._device.running.find("ip scp server enable") is None:
            raise asyncssh.SFTPPermissionDenied("Administratively disabled.")
        if self._device.privilege_of(self._user) < 15:
            raise asyncssh.SFTPPermissionDenied("Privilege denied.")
