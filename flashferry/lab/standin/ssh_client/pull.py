"""A download over SSH: login, channel and file.

KEXINIT (RFC 4253 7.1) is message 20, a cookie of 16 bytes, and ten lists of names: key exchanges, host keys, ciphers,
MACs and compressions, the latter three for each direction, and languages. The first of the client's list that the
server has is taken. A cipher that authenticates by itself (GCM, ChaCha20-Poly1305) needs no MAC.

asyncssh tops its window up when a packet is delivered, at half of it. Here what comes is consumed first, then the
window opens again by a rule of the release. While a device decrypts and writes, nothing is read, so that the channel's
window and TCP's close on the wire by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

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
)
from flashferry.lab.standin.ssh_client.settings import is_due

if TYPE_CHECKING:
    import socket
    import threading
    from collections.abc import Callable

    from asyncssh.auth import KbdIntPrompts, KbdIntResponse

    from flashferry.lab.standin.connections import ConnectionTable
    from flashferry.lab.standin.copy_download import SshCopy
    from flashferry.lab.standin.faults import Faults
    from flashferry.lab.standin.ssh_client.settings import HostKeyPolicy, SshSettings

_FIRST_LIST = 17


def name_lists(payload: bytes) -> list[list[str]]:
    """Return the ten lists of a KEXINIT; an empty list where it is none."""
    if len(payload) < _FIRST_LIST or payload[0] != 20:
        return []
    lists, at = [], _FIRST_LIST
    for _ in range(10):
        length = struct.unpack_from("!I", payload, at)[0]
        lists.append(payload[at + 4 : at + 4 + length].decode("ascii", "replace").split(","))
        at += 4 + length
    return lists


def no_match(ours: SshSettings, payload: bytes) -> str:
    """Return what is logged where client and server have nothing in common; empty where they do.

    The sentence is that of %SSH-3-NO_MATCH of a C2960C 15.2, there for key exchange, cipher and mac; for a host key the
    word is the stand-in's own.
    """
    lists = name_lists(payload)
    if not lists:
        return ""
    kex, host_keys, _, ciphers, _, macs = lists[:6]
    cipher = next((name for name in ours.encryption if name in ciphers), "")
    authenticates = "gcm" in cipher or "poly1305" in cipher
    for kind, client, server in (
        ("kex algorithm", ours.kex, kex),
        ("hostkey algorithm", ours.host_keys, host_keys),
        ("cipher", ours.encryption, ciphers),
        ("mac", () if authenticates else ours.mac, macs),
    ):
        if client and not set(client) & set(server):
            found = f"client {','.join(client)} server {','.join(server)}"
            return f"%SSH-3-NO_MATCH: No matching {kind} found: {found}"
    return ""


Verdict = Literal["take", "ask", "changed", "unknown"]


class KnownHosts:
    """The keys that a device has seen, by server; used from the threads of its copies."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[tuple[str, int], bytes] = {}

    def key_of(self, server: tuple[str, int]) -> bytes | None:
        """Return the key that is remembered of a server."""
        with self._lock:
            return self._keys.get(server)

    def remember(self, server: tuple[str, int], key: bytes) -> None:
        """Keep the first key of a server; one that is there stays."""
        with self._lock:
            self._keys.setdefault(server, key)

    def forget(self) -> None:
        """Forget them all."""
        with self._lock:
            self._keys.clear()


def judge(policy: HostKeyPolicy, *, is_strict: bool, known: bytes | None, seen: bytes) -> Verdict:
    """Return what a device does about a key that it sees, by its policy, `is_strict`, and the key that it knows."""
    if known == seen:
        return "take"
    if known is None:
        if is_strict:
            return "unknown"
        return "ask" if policy == "ask" else "take"
    return "take" if policy == "any" and not is_strict else "changed"


_POLL_S = 0.25


class SshFailedError(Exception):
    """SSH went wrong: the name of a text of the platform, and what is logged beside it, if anything."""

    def __init__(self, situation: str, *, syslog: str = "") -> None:
        super().__init__(situation)
        self.situation = situation
        self.syslog = syslog


@dataclass(slots=True, kw_only=True)
class Login:
    """Login of a copy; `password` None asks the operator, and `waited_s` is how long that took."""

    user: str
    password: str | None = field(repr=False)
    server: tuple[str, int]
    known_hosts: KnownHosts
    operator: SshCopy
    waited_s: float = 0.0


class _Client(asyncssh.SSHClient):
    """Answers what the server and the protocol ask."""

    def __init__(self, login: Login, ssh: SshSettings) -> None:
        self._login = login
        self._ssh = ssh
        self._tries = 0
        self._is_interactive = False
        self._connection: asyncssh.SSHClientConnection | None = None
        self.refused: str | None = None

    def connection_made(self, conn: asyncssh.SSHClientConnection) -> None:
        """Keep the connection."""
        self._connection = conn

    def server_kexinit(self) -> bytes:
        """Return the server's KEXINIT; empty where none has come."""
        connection = self._connection
        return connection._server_kexinit if connection is not None else b""  # noqa: SLF001 - it stands nowhere else

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        """Judge the server's key, and remember the first one."""
        del host, addr, port
        seen, hosts, server = key.public_data, self._login.known_hosts, self._login.server
        known = hosts.key_of(server)
        verdict = judge(self._ssh.host_key_policy, is_strict=self._ssh.is_strict, known=known, seen=seen)
        if verdict == "ask":
            start_s = time.monotonic()
            verdict = "take" if self._login.operator.takes_key(key.get_fingerprint()) else "unknown"
            self._login.waited_s += time.monotonic() - start_s
        if verdict != "take":
            self.refused = f"host_key_{verdict}"
            return False
        hosts.remember(server, seen)
        return True

    def password_auth_requested(self) -> str | None:
        """Give the password: one that is configured once, else as often as the release asks."""
        if self._is_interactive:
            return None
        return self._next_password()

    def kbdint_auth_requested(self) -> str | None:
        """Take part where passwords are not what the server wants."""
        if self._tries:
            return None
        self._is_interactive = True
        return ""

    def kbdint_challenge_received(
        self, name: str, instructions: str, lang: str, prompts: KbdIntPrompts
    ) -> KbdIntResponse | None:
        """Answer the one question that a password answers."""
        del name, instructions, lang
        if not prompts:
            return []
        password = self._next_password()
        return None if password is None else [password] * len(prompts)

    def _next_password(self) -> str | None:
        login, self._tries = self._login, self._tries + 1
        if login.password is not None:
            return login.password if self._tries == 1 else None
        if self._tries > self._ssh.password_prompts:
            return None
        start_s = time.monotonic()
        try:
            return login.operator.password()
        finally:
            login.waited_s += time.monotonic() - start_s


async def log_in(
    connection: socket.socket, login: Login, ssh: SshSettings, *, patience_s: float, stop: threading.Event
) -> asyncssh.SSHClientConnection:
    """Return an SSH connection over an open socket, which belongs to the connection from then on.

    The server has `patience_s` to answer, the operator as long as they take.
    Raises SshFailedError: it did not come about; TimeoutError: the server does not answer.
    """
    client = _Client(login, ssh)
    task = asyncio.ensure_future(asyncssh.connect(sock=connection, **_options(client, login, ssh)))
    start_s = time.monotonic()
    while not task.done():
        await asyncio.wait({task}, timeout=_POLL_S)
        if stop.is_set() or time.monotonic() - start_s - login.waited_s > patience_s:
            break
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        raise TimeoutError
    try:
        return task.result()
    except (asyncssh.Error, OSError) as error:
        raise _failure(error, client, ssh) from error


def _options(client: _Client, login: Login, ssh: SshSettings) -> dict[str, Any]:
    return {
        "config": None,
        "client_factory": lambda: client,
        "client_version": "Cisco-1.25",
        "username": login.user,
        "client_keys": None,
        "agent_path": None,
        "gss_host": None,
        "known_hosts": ([], [], []),
        "preferred_auth": "password,keyboard-interactive",
        "kex_algs": list(ssh.kex),
        "encryption_algs": list(ssh.encryption),
        "mac_algs": list(ssh.mac),
        "server_host_key_algs": list(ssh.host_keys),
        "compression_algs": None,
        "rekey_bytes": 2**50,  # the device never asks for new keys (`no ip ssh rekey`, CSR1000V 16.8.1)
        "rekey_seconds": 0,
        "login_timeout": 0,
        "keepalive_interval": 0,
    }


def _failure(error: Exception, client: _Client, ssh: SshSettings) -> SshFailedError:
    if client.refused is not None:
        return SshFailedError(client.refused)
    if isinstance(error, asyncssh.PermissionDenied):
        return SshFailedError("wrong_password")
    # A server that is quicker closes the connection before asyncssh has compared the lists.
    logged = no_match(ssh, client.server_kexinit())
    if logged:
        return SshFailedError("no_common_algorithm", syslog=logged)
    if isinstance(error, asyncssh.ProtocolError):
        return SshFailedError("protocol_error")
    return SshFailedError("connection_lost")


_READ_BYTES = 16384
"""As much as is taken from the socket at a time: what a slow cipher has not paid for yet waits in the kernel."""


class FileSession(asyncssh.SSHClientSession[bytes]):
    """One channel: each piece goes to `take`, whose error ends the channel; `done` ends with what ended it."""

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

        Raises asyncssh.ChannelOpenError: the server refused either.
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


@dataclass(slots=True, kw_only=True)
class SshPlan:
    """What a copy over SSH needs beyond its request."""

    settings: SshSettings
    login: Login
    screen: SshCopy
    faults: Faults


class SshPull(WordedTransfer, Pull):
    """One download, by user and password of the plan; SCP and SFTP differ in what they ask for and how they talk."""

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
        if self.plan.faults.ssh_breaks_on_rekey:
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
