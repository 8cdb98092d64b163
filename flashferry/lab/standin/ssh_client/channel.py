"""The receiving end of an SSH channel as a device keeps it: what comes is consumed first, then the window opens again.

asyncssh tops its window up when a packet is delivered, at half of it. Here the rule is a figure of the release, and the
time that a device takes to decrypt and to write is spent before: while it lasts nothing is read, so that the channel's
window and TCP's close on the wire by themselves.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import asyncssh
from asyncssh.channel import SSHClientChannel
from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST
from asyncssh.packet import UInt32

from flashferry.lab.standin.ssh_client.window_model import is_due

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.lab.standin.ssh_client.settings import SshSettings

_READ_BYTES = 16384
"""As much as is taken from the socket at a time: what a slow cipher has not paid for yet waits in the kernel."""


class FileSession(asyncssh.SSHClientSession[bytes]):
    """One channel: each piece goes to ``take``, and ``done`` ends with what ends it.

    Args:
        take: Called with every piece that comes; what it raises ends the channel.
    """

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Take a piece; what comes on the error channel is of no interest."""
        if datatype is not None or self.done.done():
            return
        try:
            self._take(data)
        except Exception as error:  # noqa: BLE001 - asyncssh would log it and close; the copy wants it
            self.done.set_exception(error)

    def finish(self) -> None:
        """Say that all is there."""
        if not self.done.done():
            self.done.set_result(None)

    def leave(self) -> None:
        """Take nothing more, and let no caller wait for how it ended."""
        if not self.done.cancel() and not self.done.cancelled():
            self.done.exception()

    def eof_received(self) -> bool:
        """Keep the sending half: the sink still has its answer to give."""
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the channel is gone: too early, unless all is there."""
        if not self.done.done():
            self.done.set_exception(exc or ChannelClosedError())


class ChannelClosedError(Exception):
    """The channel was closed before the file was there."""


class DeviceChannel(SSHClientChannel[bytes]):
    """A channel whose window opens by the rule of the release."""

    def __init__(self, connection: asyncssh.SSHClientConnection, ssh: SshSettings) -> None:
        loop = asyncio.get_running_loop()
        connection._update_recv_pktlen(ssh.packet_bytes)  # noqa: SLF001 - as its create_session does
        super().__init__(connection, loop, "strict", None, "strict", ssh.window_bytes, ssh.packet_bytes)
        self._ssh = ssh

    def _deliver_data(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Consume a piece, then open the window if that is due."""
        if self._session is not None:
            self._session.data_received(data, datatype)
        used = self._init_recv_window - self._recv_window
        if is_due(
            self._ssh.refill, used_bytes=used, window_bytes=self._init_recv_window, packet_bytes=self._recv_pktsize
        ):
            self.send_packet(MSG_CHANNEL_WINDOW_ADJUST, UInt32(used))
            self._recv_window = self._init_recv_window

    def give_up(self) -> None:
        """Close the channel in the midst of it.

        Raises ChannelClosedError: always: nothing of what comes still counts.
        """
        self.abort()
        raise ChannelClosedError

    async def request(self, session: FileSession, *, command: str | None, subsystem: str | None) -> None:
        """Open the channel and ask for a command or a subsystem.

        Raises:
            asyncssh.ChannelOpenError: The server refused either.
        """
        await self.create(
            lambda: session, command, subsystem, {}, False, None, None, {}, False, None, None, False, False
        )  # fmt: skip


def read_in_small_pieces(connection: asyncssh.SSHClientConnection) -> None:
    """Take no more from the socket at a time than a device works off at once."""
    transport = connection._transport  # noqa: SLF001 - there is no other way to it
    transport.max_size = _READ_BYTES  # type: ignore[union-attr] # of asyncio's selector transport


def ask_for_keys(connection: asyncssh.SSHClientConnection) -> None:
    """Ask the server for new keys (RFC 4253 9), as a client does after so many bytes or so much time."""
    connection._send_kexinit()  # noqa: SLF001 - asyncssh does it by itself only, by what it has sent
    connection._kexinit_sent = True  # noqa: SLF001 - as its send_packet does


def on_key_exchange(connection: asyncssh.SSHClientConnection, then: Callable[[], None]) -> None:
    """Call ``then`` in place of the client's part in any further key exchange, from either side."""
    connection._send_kexinit = then  # type: ignore[method-assign] # noqa: SLF001 - there is no other way to notice it
