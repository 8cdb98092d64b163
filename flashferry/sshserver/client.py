"""One client of SSH: whether it may come in, what its login allows, and how long it may stay.

Facts
-----

- The addresses of a client's tickets decide what is offered to it, and that is before it names a user.
- Three ways lead to a password: the method of that name, `keyboard-interactive`, which asyncssh turns into the same,
  and `none`, which is refused and lists the other two. Keys of clients are not asked for.
- A client may send one login after the other without waiting for an answer, so failures are counted before the delay.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Any

import asyncssh

from flashferry.fileserver import sockets
from flashferry.fileserver.client_session import Visitor
from flashferry.fileserver.ticket_accounts import Refusal
from flashferry.sshserver.algorithms import TRANSPORTS
from flashferry.sshserver.connection import Connection, channel_of
from flashferry.sshserver.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.protocol import ServingContext
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.images.image import ImageFile
    from flashferry.sshserver.protocol import SshListener
    from flashferry.tcp.syn import SynOptions

_LOG_LINES = 120
_MOST_CHANNELS = 4
_BUSY = "Service not available, try later."


class SshClient(Visitor, asyncssh.SSHServer):
    """One client's connection, as the ticket service and asyncssh see it.

    Args:
        accepted: Its socket.
        address: Where it comes from, for people and records.
        listener: Where it came in.
        context: What it works with.
        options: What is offered to it.
    """

    def __init__(
        self,
        accepted: socket.socket,
        address: str,
        listener: "SshListener",
        context: "ServingContext",
        options: asyncssh.SSHServerConnectionOptions,
    ) -> None:
        self.client_address = address
        self.control_syn: SynOptions | None = sockets.saved_syn(accepted)
        self.command_log: list[str] = []
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
    def tickets(self) -> "TicketService":
        """The server's ticket service."""
        return self.context.tickets

    @property
    def settings(self) -> "ServerSettings":
        """How the server runs."""
        return self.context.settings

    # Coming in.

    def enter(self) -> bool:
        """Take a place, if there is one; return whether it may stay. What counts it is undone by `leave`."""
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
        """Give the place up, now."""
        self.send_off(_BUSY)
        self.leave()

    def send_off(self, why: str) -> None:
        """Say why, and close."""
        if self.connection.is_open:
            self.connection.disconnect(asyncssh.DISC_BY_APPLICATION, why)
        elif not self.connection.was_made:
            # Accepted a moment ago, and not served yet; else it is being aborted.
            self.connection.refuse()

    def leave(self) -> None:
        """Take it off the books; twice is harmless."""
        self.leave_place()
        # Not left to run out: each would keep all of a client that is gone.
        for timer in self._timers.values():
            timer.cancel()
        self._listener.forget(self)

    def call_later(self, name: str, seconds: float, what: "Callable[[], None]") -> None:
        """Call something after some seconds, unless the client is gone by then, or the same was asked for anew."""
        before = self._timers.pop(name, None)
        if before is not None:
            before.cancel()
        self._timers[name] = self.context.loop.asyncio.call_later(seconds, what)

    def _login_overdue(self) -> None:
        if not (self._is_let_in or self._is_gone):
            self.send_off("Login took too long.")

    # What asyncssh calls.

    def connection_lost(self, _exc: Exception | None) -> None:
        """Settle what is left, and report why it failed, where there is more than that it ended."""
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
        """Have every user prove who it is."""
        return True

    def password_auth_supported(self) -> bool:
        """Take passwords, of tickets and fixed logins."""
        return True

    async def validate_password(self, username: str, password: str) -> bool:
        """Compare a password with that of the ticket or fixed login; neither is kept."""
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
        """Give a session to whom logged in; a handful is enough for any client."""
        if not self._is_let_in or len(self._sessions) >= _MOST_CHANNELS:
            return False
        session = Session(self)
        self._sessions.append(session)
        return channel_of(self.connection), session

    # What its login allows.

    def _let_in(self, result: "Account | FixedGrant") -> None:
        self._is_let_in = True
        self.note(f"client {self.connection.client_version}, cipher {self.connection.cipher}")
        self.log_in(result)
        self.stays_busy()
        self._check_idle()

    def account_for(self, image: "ImageFile", transport: str) -> "Account | None":
        """Return the account that a transfer begins under; None where the ticket is not good for it, or one is on.

        Under a fixed login it is a new one for each transfer.
        """
        if self.is_transferring:
            return None
        if self.fixed is not None:
            return self.account_of(image)
        account = self.account
        if account is None or account.refusal(self.tickets.clock()) is not None:
            return None
        return account if account.grant.request.is_for((transport,)) else None

    # What the ticket service calls.

    def yield_to_newer(self, reason: str) -> None:
        """End its transfer; with SSH that ends the connection: there is no other word for it within a file."""
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
        """Whether a transfer was granted to it that has not come to its end."""
        return any(session.is_transferring for session in self._sessions)

    @property
    def waits_to_send(self) -> bool:
        """Whether one was granted that has not started."""
        return any(session.waits_to_send for session in self._sessions)

    def close(self, reason: str) -> None:
        """End at once, with a reason for what is under way."""
        for session in tuple(self._sessions):
            session.cut(reason)
        self.send_off("Server is going down.")

    def forget(self, session: "Session") -> None:
        """Drop a session that has ended."""
        self._sessions.remove(session)

    def stays_busy(self) -> None:
        """Note that the client did something."""
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
        """Keep a line for the record of the transfer."""
        if len(self.command_log) >= _LOG_LINES:
            del self.command_log[0]
        self.command_log.append(f"{self.tickets.clock() - self._began_s:.3f} {text}")

    def _on_space(self) -> None:
        for session in tuple(self._sessions):
            session.on_space()
