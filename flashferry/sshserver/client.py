"""SSH connection of one client: admission, login, and time limits.

Facts
-----

- The algorithms offered to a client depend on the tickets for its address, because they are negotiated before login.
- A password is accepted by the method `password` and by `keyboard-interactive`, which asyncssh maps to it; `none` is
  refused, with the list of these two. Public keys of clients are not accepted.
- A client may send several logins without waiting for replies, so failures are counted before the delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.fileserver import sockets
from flashferry.fileserver.client_session import CommandLog, Visitor
from flashferry.fileserver.protocol import BACKLOG, ServingContext
from flashferry.fileserver.ticket_accounts import Refusal, plain_address
from flashferry.sshserver.algorithms import TRANSPORTS, algorithms_for
from flashferry.sshserver.connection import Connection, attach, channel_of, options_for
from flashferry.sshserver.host_keys import load_host_keys
from flashferry.sshserver.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.protocol import ServingContext
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.images.image import ImageFile
    from flashferry.tcp.syn import SynOptions

_MOST_CHANNELS = 4
_BUSY = "Service not available, try later."


class SshClient(Visitor, asyncssh.SSHServer):
    """One client's connection, as the ticket service and asyncssh see it.

    Args:
        accepted: Its socket.
        address: The client's address in plain form.
        listener: The listener that accepted it.
        context: Shared objects of the file server.
        options: Algorithms to offer.
    """

    def __init__(
        self,
        accepted: socket.socket,
        address: str,
        listener: SshListener,
        context: ServingContext,
        options: asyncssh.SSHServerConnectionOptions,
    ) -> None:
        self.client_address = address
        self.control_syn: SynOptions | None = sockets.saved_syn(accepted)
        self.command_log = CommandLog()
        self.socket = accepted
        self.context = context
        self.base_acked_bytes = 0
        self.connection = Connection(context.loop.asyncio, options, self, self._on_space)
        self._listener = listener
        self._sessions: list[Session] = []
        self._attempts = 0
        self._is_let_in = self._is_gone = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._began_s = self._busy_s = self.tickets.clock()

    @property
    def tickets(self) -> TicketService:
        """The server's ticket service."""
        return self.context.tickets

    @property
    def settings(self) -> ServerSettings:
        """The server's settings."""
        return self.context.settings

    # Admission.

    def enter(self) -> bool:
        """Count the client, and return whether the limits on sessions admit it. Undone by `leave`."""
        if not self.take_place():
            return False
        sockets.set_keepalive(self.socket)
        if self.settings.profile.dscp:
            sockets.set_dscp(self.socket, self.settings.profile.dscp)
        info = sockets.read_info(self.socket)
        self.base_acked_bytes = (info.bytes_acked or 0) if info is not None else 0
        self.tickets.connected(self.client_address, self.control_syn, TRANSPORTS)
        self.call_later("login", self.settings.limits.login_deadline_s, self._login_overdue)
        return True

    def evict(self) -> None:
        """Close the connection at once, in favour of another client."""
        self.send_off(_BUSY)
        self.leave()

    def send_off(self, why: str) -> None:
        """Send the reason to the client, and close."""
        if self.connection.is_open:
            self.connection.disconnect(asyncssh.DISC_BY_APPLICATION, why)
        elif not self.connection.was_made:
            # The connection is not set up yet; if it was made already, it is being aborted.
            self.connection.refuse()

    def leave(self) -> None:
        """Remove the client from all counts. Idempotent."""
        self.leave_place()
        # Cancelled, because each timer would keep the objects of a client that has disconnected.
        for timer in self._timers.values():
            timer.cancel()
        self._listener.forget(self)

    def call_later(self, name: str, seconds: float, what: Callable[[], None]) -> None:
        """Call a function after some seconds, unless the client leaves before. Replaces a timer of the same name."""
        before = self._timers.pop(name, None)
        if before is not None:
            before.cancel()
        self._timers[name] = self.context.loop.asyncio.call_later(seconds, what)

    def _login_overdue(self) -> None:
        if not (self._is_let_in or self._is_gone):
            self.send_off("Login took too long.")

    # Called by asyncssh.

    def connection_lost(self, _exc: Exception | None) -> None:
        """Clean up, and report why the connection failed if it did not just end."""
        self._is_gone = True
        for session in tuple(self._sessions):
            session.lost()
        if self.connection.wants_group_exchange:
            self._listener.offer_group_exchange(self.client_address)
        if self.connection.no_match:
            # With both lists: the reader sees what the device would need.
            self.tickets.note_trouble(self.client_address, f"SSH: {self.connection.no_match}", TRANSPORTS)
        self.leave_account()
        self.leave()

    def begin_auth(self, _username: str) -> bool:
        """Require authentication of every user."""
        return True

    def password_auth_supported(self) -> bool:
        """Accept passwords, those of tickets and fixed logins."""
        return True

    async def validate_password(self, username: str, password: str) -> bool:
        """Compare the password with that of the ticket or fixed login; it is not kept."""
        limits = self.settings.limits
        if self._attempts >= limits.failed_logins or self._is_let_in:
            self.send_off("Too many logins.")
            return False
        result = self.tickets.login(username, password, self.client_address, TRANSPORTS)
        if not isinstance(result, Refusal):
            self._let_in(result)
            return True
        self._attempts += 1
        self.note("login refused")
        await asyncio.sleep(limits.failed_login_delay_s)
        if self._attempts >= limits.failed_logins:
            self.send_off("Too many failed logins.")
        return False

    def session_requested(self) -> Any:
        """Create a session for a client that has logged in, up to `_MOST_CHANNELS`."""
        if not self._is_let_in or len(self._sessions) >= _MOST_CHANNELS:
            return False
        session = Session(self)
        self._sessions.append(session)
        return channel_of(self.connection), session

    # What its login allows.

    def _let_in(self, result: Account | FixedGrant) -> None:
        self._is_let_in = True
        self.note(f"client {self.connection.client_version}, cipher {self.connection.cipher}")
        self.log_in(result)
        self.stays_busy()
        self._check_idle()

    def account_for(self, image: ImageFile, transport: str) -> Account | None:
        """Return the account of a new transfer; None if the ticket does not allow it, or one is running.

        With a fixed login each transfer gets a new account.
        """
        if self.is_transferring:
            return None
        if self.fixed is not None:
            return self.account_of(image)
        account = self.account
        if account is None or account.refusal(self.tickets.clock()) is not None:
            return None
        return account if account.grant.request.is_for((transport,)) else None

    # Called by the ticket service.

    def yield_to_newer(self, reason: str) -> None:
        """End its transfer and the connection: within a file SSH has no other means to end a transfer."""
        if self.is_transferring and not self._is_gone:
            for session in tuple(self._sessions):
                session.yield_to_newer(reason)

    def send_away(self, reason: str) -> None:
        """End its transfer and the connection."""
        if self.is_transferring and not self._is_gone:
            for session in tuple(self._sessions):
                session.cut(reason)
        if not self._is_gone:
            self.send_off("Ticket withdrawn.")

    # Life of a connection.

    @property
    def is_transferring(self) -> bool:
        """Whether a transfer was granted that has not ended."""
        return any(session.is_transferring for session in self._sessions)

    @property
    def waits_to_send(self) -> bool:
        """Whether a transfer was granted that has not started."""
        return any(session.waits_to_send for session in self._sessions)

    def close(self, reason: str) -> None:
        """Close at once; the reason is recorded for a running transfer."""
        for session in tuple(self._sessions):
            session.cut(reason)
        self.send_off("Server is going down.")

    def forget(self, session: Session) -> None:
        """Remove a session that has ended."""
        self._sessions.remove(session)

    def stays_busy(self) -> None:
        """Restart the idle timer, because the client did something."""
        self._busy_s = self.tickets.clock()

    def _check_idle(self) -> None:
        if self._is_gone:
            return
        idle_s = self.settings.limits.idle_s
        quiet_s = 0.0 if self.is_transferring else self.tickets.clock() - self._busy_s
        if quiet_s >= idle_s:
            self.send_off("Nothing asked for too long.")
        else:
            self.call_later("idle", idle_s - quiet_s, self._check_idle)

    def note(self, text: str) -> None:
        """Add a line to the log kept with the transfer's record."""
        self.command_log.add(self.tickets.clock() - self._began_s, text)

    def _on_space(self) -> None:
        for session in tuple(self._sessions):
            session.on_space()


_PAUSE_S = 0.5
_MOST_REMEMBERED = 4096
_ACCEPTED_AT_ONCE = 32


class SshListener:
    """SSH on one listening socket, see `flashferry.fileserver.protocol`.

    Args:
        listening: Bound socket; clients that connect before `open` wait in its queue.
        context: Shared objects of the file server.
        options: `host_keys`, the folder of the host keys.

    Raises:
        ValueError: The options are of another form, or a host key cannot be used.
    """

    NEEDS_ASYNCIO = True

    def __init__(self, listening: socket.socket, context: ServingContext, options: Mapping[str, object]) -> None:
        folder = options.get("host_keys")
        if not isinstance(folder, bytes):
            raise ValueError(f"host_keys: expected a folder, found {folder!r}")  # noqa: TRY004 - see ProtocolFactory
        _quieten()
        self._host_keys = load_host_keys(Path(os.fsdecode(folder)))
        self._context = context
        self._loop: asyncio.AbstractEventLoop = context.loop.asyncio
        self._clients: dict[SshClient, asyncio.Task[None] | None] = {}
        # Addresses, the oldest entry first.
        self._group_exchange: dict[str, None] = {}
        self._listening: socket.socket | None = listening
        if context.settings.profile.mss_bytes is not None:
            # Set before the TCP handshake, because the MSS is sent in the SYN-ACK.
            sockets.set_mss(listening, context.settings.profile.mss_bytes)

    def open(self) -> None:
        """Start accepting sessions."""
        if self._listening is not None:
            self._listening.setblocking(False)
            self._listening.listen(BACKLOG)
            self._loop.add_reader(self._listening.fileno(), self._accept)

    @property
    def transfers_to_come(self) -> int:
        """Number of granted transfers that wait until the client is ready."""
        return sum(client.waits_to_send for client in self._clients)

    def drain(self) -> None:
        """Stop accepting sessions, and close idle ones."""
        self._stop_listening()
        for client in tuple(self._clients):
            if not client.is_transferring:
                client.send_off("Server is going down.")

    def close(self, reason: str) -> None:
        """Close the listening socket and every session at once."""
        self._stop_listening()
        for client in tuple(self._clients):
            client.close(reason)

    def forget(self, client: SshClient) -> None:
        """Remove a client that has disconnected."""
        self._clients.pop(client, None)

    def offer_group_exchange(self, address: str) -> None:
        """Offer group exchange to an address from now on, because a client there has no other common key exchange."""
        self._group_exchange[address] = None
        if len(self._group_exchange) > _MOST_REMEMBERED:
            del self._group_exchange[next(iter(self._group_exchange))]

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._listening is None:
                return
            try:
                accepted, place = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No descriptors or memory left: stop accepting for a while; clients wait in the queue.
                self._loop.remove_reader(self._listening.fileno())
                self._loop.call_later(_PAUSE_S, self._listen_again)
                return
            accepted.setblocking(False)
            self._serve(accepted, str(plain_address(place[0])))

    def _listen_again(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _serve(self, accepted: socket.socket, address: str) -> None:
        tickets = self._context.tickets
        try:
            algorithms = algorithms_for(tickets.ssh_offers(address), group_exchange=address in self._group_exchange)
            options = options_for(algorithms, self._host_keys)
        except ValueError as error:
            tickets.note_trouble(address, f"SSH: {error}", TRANSPORTS)
            accepted.close()
            return
        client = SshClient(accepted, address, self, self._context, options)
        self._clients[client] = None
        if client.enter():
            self._clients[client] = self._loop.create_task(self._attach(client, accepted))
        else:
            client.leave()
            with contextlib.suppress(OSError):
                # Lines before the version are allowed (RFC 4253 4.2).
                accepted.send(b"Service not available, try later.\r\n")
            accepted.close()

    async def _attach(self, client: SshClient, accepted: socket.socket) -> None:
        try:
            await attach(client.connection, accepted)
        except (OSError, ValueError):
            client.leave()
            accepted.close()
        else:
            if client.connection.is_refused:
                client.leave()


def _quieten() -> None:
    """Disable asyncssh's log, which has user names, and cryptography's warnings about legacy algorithms.

    Legacy algorithms are offered on purpose.
    """
    logging.getLogger("asyncssh").setLevel(logging.CRITICAL + 1)
    warnings.filterwarnings("ignore", message=".*(FFDH|Diffie-Hellman|TripleDES|has been moved).*")
