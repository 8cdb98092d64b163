"""The receiving end of an SSH channel as a device keeps it: what comes is consumed first, then the window opens again.

asyncssh tops its window up when a packet is delivered, at half of it. Here the rule is a figure of the release, and the
time that a device takes to decrypt and to write is spent before: while it lasts nothing is read, so that the channel's
window and TCP's close on the wire by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import asyncssh
from asyncssh.channel import SSHClientChannel
from asyncssh.constants import MSG_CHANNEL_WINDOW_ADJUST
from asyncssh.packet import UInt32

from flashferry.lab.standin import device_tcp
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.ftp_client import AbortedError, Pull, PullHooks, TransferRequest, WordedTransfer
from flashferry.lab.standin.server_url import PullResult
from flashferry.lab.standin.ssh_client.incoming import (
    NO_SPACE,
    IncomingFile,
    ScpProtocolError,
    ScpRemoteError,
    ScpSink,
    SftpReader,
    SinkRefusedError,
    SshFaults,
)
from flashferry.lab.standin.ssh_client.login import Login, Operator, SshFailedError, log_in
from flashferry.lab.standin.ssh_client.settings import is_due

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from flashferry.lab.standin.connections import ConnectionTable
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


_FAREWELL_S = 5.0
_POLL_S = 0.25


class Screen(Operator, Protocol):
    """What a copy over SSH needs of its session beside the hooks; all are called in the copy's thread."""

    def announce(self, line: str) -> None:
        """Show what the server said of the file."""

    def log(self, text: str) -> None:
        """Log a message of the device."""


@dataclass(slots=True, kw_only=True)
class SshPlan:
    """What a copy over SSH needs beyond its request."""

    settings: SshSettings
    login: Login
    screen: Screen
    faults: SshFaults = field(default_factory=SshFaults)


class SshPull(WordedTransfer, Pull):
    """One download; `speak` is what SCP and SFTP do in their own way.

    Args:
        request: Which file; user and password are the plan's.
        connections: The device's table of connections.
        stop: Set by `abort`; shared with the flash's pace.
        plan: What SSH needs.
    """

    def __init__(
        self, request: TransferRequest, connections: ConnectionTable, stop: threading.Event, plan: SshPlan
    ) -> None:  # fmt: skip
        super().__init__(request, connections, stop)
        self.plan = plan
        self.stop = stop

    def _fetch(self, hooks: PullHooks) -> PullResult:
        started_s = time.monotonic()
        connection = self._connect((self.request.address, self.request.url.port))
        self._stage = "dialogue"
        device_tcp.before_dialogue(connection, self.request.tcp.window_bytes)
        connection.setblocking(False)
        file = IncomingFile(self.request, hooks, self.plan.screen.announce, self.stop, self.plan.faults)
        try:
            asyncio.run(self._copy(connection, file))
        except SshFailedError as error:
            if self.stop.is_set():
                raise AbortedError from error
            if error.syslog:
                self.plan.screen.log(error.syslog)
            raise self.failed(error.situation) from error
        finally:
            file.close()
        try:
            file.check()
        except SinkRefusedError as error:
            raise self.failed("sink_error") from error
        ended_s = file.finished_s or time.monotonic()
        return PullResult(size_bytes=file.size_bytes, seconds=ended_s - started_s - self.plan.login.waited_s)

    def name_of_loss(self) -> str:
        """Make no difference: whatever it was, SSH says the same."""
        return "connection_lost"

    async def _copy(self, connection: socket.socket, file: IncomingFile) -> None:
        patience_s = self.request.reply_timeout_s
        login = await log_in(connection, self.plan.login, self.plan.settings, patience_s=patience_s, stop=self.stop)
        try:
            read_in_small_pieces(login)
            cipher = str(login.get_extra_info("recv_cipher"))
            file.comes_by(connection, self.plan.settings.crypto_bytes_per_s.get(cipher))
            await self._fetch_file(login, connection, file)
        finally:
            with self._lock:
                self._forget(connection)  # before asyncio closes it: what it carried is read from the socket
            login.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(login.wait_closed(), _FAREWELL_S)

    async def _fetch_file(self, login: asyncssh.SSHClientConnection, tcp: socket.socket, file: IncomingFile) -> None:
        channel = DeviceChannel(login, self.plan.settings)
        talk = self._talk(channel, file)
        patience_s = self.request.reply_timeout_s
        session = FileSession(talk.feed)
        file.on_end = session.finish
        file.on_channel_end = channel.give_up
        file.on_rekey = lambda: ask_for_keys(login)
        file.on_break = lambda: tcp.shutdown(socket.SHUT_RDWR)
        if self.plan.faults.breaks_on_rekey:
            on_key_exchange(login, file.on_break)
        try:
            await asyncio.wait_for(self._ask_for(channel, session), patience_s)
            talk.start()
            self._stage = "file"
            while not session.done.done():
                await asyncio.wait({session.done}, timeout=_POLL_S)
                if not session.done.done() and time.monotonic() - file.came_s > patience_s:
                    raise TimeoutError
            session.done.result()
        except NoSpaceError:
            talk.refuse(NO_SPACE)
            raise
        except (asyncssh.Error, ChannelClosedError, ScpProtocolError, ScpRemoteError) as error:
            raise _as_failure(error) from error
        finally:
            session.leave()
            channel.write_eof()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(channel.wait_closed(), _FAREWELL_S)

    @abstractmethod
    async def _ask_for(self, channel: DeviceChannel, session: FileSession) -> None: ...

    @abstractmethod
    def _talk(self, channel: DeviceChannel, file: IncomingFile) -> ScpSink | SftpReader: ...


class ScpPull(SshPull):
    """One download by ``scp -f``."""

    async def _ask_for(self, channel: DeviceChannel, session: FileSession) -> None:
        await channel.request(session, command=f"scp -f {self.request.url.path}", subsystem=None)

    def _talk(self, channel: DeviceChannel, file: IncomingFile) -> ScpSink:
        return ScpSink(channel.write, file)


class SftpPull(SshPull):
    """One download by SFTP."""

    async def _ask_for(self, channel: DeviceChannel, session: FileSession) -> None:
        await channel.request(session, command=None, subsystem="sftp")

    def _talk(self, channel: DeviceChannel, file: IncomingFile) -> SftpReader:
        own = self.plan.settings
        return SftpReader(
            self.request.url.path, channel.write, file, requests=own.sftp_requests, read_bytes=own.packet_bytes
        )  # fmt: skip


def _as_failure(error: Exception) -> SshFailedError:
    if isinstance(error, ScpRemoteError):
        return SshFailedError("channel_closed" if error.is_late else "server_error")
    if isinstance(error, ScpProtocolError):
        return SshFailedError("protocol_error")
    if isinstance(error, asyncssh.ChannelOpenError):
        return SshFailedError("channel_refused")
    if isinstance(error, ChannelClosedError):
        return SshFailedError("channel_closed")
    return SshFailedError("connection_lost")
