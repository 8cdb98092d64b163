"""A real download by SCP or SFTP over real TCP: the device's own receive window outside, the channel's window inside.

The clock runs from the first SYN to the closed file, login included (4 bytes in 3.444 s by SCP and in 0.348 s by FTP,
on the same ASR903); that it stands while the operator is asked for a password is an assumption.
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

from flashferry.lab.standin import receive_window
from flashferry.lab.standin.flash import NoSpaceError
from flashferry.lab.standin.ftp_pull import Pull
from flashferry.lab.standin.ftp_request import AbortedError, PullHooks, TransferRequest
from flashferry.lab.standin.ftp_transfer import WordedTransfer
from flashferry.lab.standin.results import PullResult
from flashferry.lab.standin.ssh_client.channel import (
    ChannelClosedError,
    DeviceChannel,
    FileSession,
    ask_for_keys,
    on_key_exchange,
    read_in_small_pieces,
)
from flashferry.lab.standin.ssh_client.incoming import NO_SPACE, IncomingFile, SinkRefusedError, SshFaults
from flashferry.lab.standin.ssh_client.login import Login, Operator, SshFailedError, log_in
from flashferry.lab.standin.ssh_client.scp_sink import ScpProtocolError, ScpRemoteError, ScpSink
from flashferry.lab.standin.ssh_client.sftp_reader import SftpReader

if TYPE_CHECKING:
    import threading

    from flashferry.lab.standin.connections import ConnectionTable
    from flashferry.lab.standin.ssh_client.settings import SshSettings

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
        receive_window.before_dialogue(connection, self.request.tcp.window_bytes)
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
