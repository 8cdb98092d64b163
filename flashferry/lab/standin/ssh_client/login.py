"""What two sides of a key exchange have in common, and what IOS logs where that is nothing.

Facts (RFC 4253 7.1)
-----
KEXINIT is message 20, a cookie of 16 bytes, and ten lists of names: key exchanges, host keys, ciphers, MACs and
compressions, the latter three for each direction, and languages. The first of the client's list that the server has is
taken.
A cipher that authenticates by itself (GCM, ChaCha20-Poly1305) needs no MAC.
"""

from __future__ import annotations

import asyncio
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

import asyncssh

if TYPE_CHECKING:
    import socket
    import threading

    from asyncssh.auth import KbdIntPrompts, KbdIntResponse

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


class Operator(Protocol):
    """The operator at the device; both calls wait for an answer, in the copy's thread."""

    def password(self) -> str | None:
        """Ask for the password; None where there is no answer."""

    def takes_key(self, fingerprint: str) -> bool:
        """Ask whether to go on with a server whose key is not known."""


@dataclass(slots=True, kw_only=True)
class Login:
    """Login of a copy; `password` None asks the operator, and `waited_s` is how long that took."""

    user: str
    password: str | None = field(repr=False)
    server: tuple[str, int]
    known_hosts: KnownHosts
    operator: Operator
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
    """Return an SSH connection over an open socket.

    Args:
        connection: The socket, which belongs to the connection from then on.
        login: As whom.
        ssh: The lists that are offered, in their order.
        patience_s: How long the server may take; the operator may take longer.
        stop: Set where the copy is given up.

    Raises:
        SshFailedError: It did not come about.
        TimeoutError: The server does not answer.
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
