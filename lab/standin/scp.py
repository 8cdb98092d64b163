"""The SCP server (`ip scp server enable`): files of the device's file systems by their IOS names.

Facts: the client names ``flash:/x`` or ``flash:x``; without the configuration line the answer is
``Administratively disabled.``, and a user below privilege 15 reads ``Privilege denied.`` (facts 1; the first text is
that of public tools' issues).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncssh

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from lab.standin.device import Device


class DeviceFiles(asyncssh.SFTPServer):
    """The files of a device, for one SCP session."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], device: Device) -> None:
        super().__init__(channel)
        self._device = device
        self._user = str(channel.get_extra_info("username"))
        self._flash = device.flash

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

    def write(self, file_obj: object, offset: int, data: bytes) -> int | Awaitable[int]:
        """Write a piece, as far as there is room.

        Raises:
            SFTPError: The flash is full.
        """
        if self._device.faults.flash_full or len(data) > self._flash.free_bytes:
            raise asyncssh.SFTPFailure("No space left on device")
        return super().write(file_obj, offset, data)

    def _check(self) -> None:
        if self._device.running.find("ip scp server enable") is None:
            raise asyncssh.SFTPPermissionDenied("Administratively disabled.")
        if self._device.privilege_of(self._user) < 15:
            raise asyncssh.SFTPPermissionDenied("Privilege denied.")
