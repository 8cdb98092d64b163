"""How a device logs in to an SSH server: its lists, its host keys, its passwords, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import asyncssh

from flashferry.lab.standin.ssh_client.kexinit import no_match
from flashferry.lab.standin.ssh_client.known_hosts import KnownHosts, judge

if TYPE_CHECKING:
    import socket
    import threading

    from asyncssh.auth import KbdIntPrompts, KbdIntResponse

    from flashferry.lab.standin.ssh_client.settings import SshSettings

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
    """As whom, to whom.

    Attributes:
        user: The name at the server.
        password: The password that the URL or the configuration has; None: the operator is asked.
        server: Host and port.
        known_hosts: The keys that the device has seen.
        operator: Who is asked.
        waited_s: How long the operator was waited for, which is not the copy's time.
    """

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
