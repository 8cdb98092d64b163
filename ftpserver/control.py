"""The FTP control connection, its settings and commands."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

from flashferry.core.values import as_dict
from flashferry.fileserver import ListenerSettings, SettingsInvalid, sockets
from flashferry.fileserver.client_session import CommandLog, Visitor
from flashferry.fileserver.fixed_login import CommandBudget
from flashferry.fileserver.protocol import AsyncChat
from flashferry.fileserver.ticket_accounts import plain_address
from flashferry.fileserver.ticket_service import TicketService
from ftpserver.data import Fifo, FTPHandler, ImageChannel
from ftpserver.listeners import ActiveConnector, PassiveListener

if TYPE_CHECKING:
    import socket

    from flashferry.fileserver.settings import ServerSettings
    from flashferry.tcp.syn import SynOptions

PROTOCOL = "ftpserver.protocol:FtpListener"
"""Name by which the file server imports FTP."""

TRANSPORTS = ("ftp",)
"""Names of the transports served here, as in tickets."""


class FtpOptions(Struct, frozen=True, kw_only=True):
    """Options of a listener that are specific to FTP.

    Attributes:
        passive_ports: First and last port for passive data connections; None leaves the choice to the kernel.
        masquerade_address: IPv4 address to name in PASV replies behind NAT; None: the address of the control
            connection.
        masquerade_networks: Pairs of client network and address to name to clients from there; first match wins.

    Raises:
        SettingsInvalid: One of them is out of its range.
    """

    passive_ports: tuple[int, int] | None = None
    masquerade_address: str | None = None
    masquerade_networks: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.passive_ports is not None:
            first, last = self.passive_ports
            if not 1024 <= first <= last <= 65535:
                raise SettingsInvalid(
                    f"passive_ports: expected two ports from 1024 to 65535 in order, found {first} and {last}",
                    hint="Give a range that firewalls let through to this host",
                )
        if self.masquerade_address is not None:
            _require_ipv4("masquerade_address", self.masquerade_address)
        for network, address in self.masquerade_networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise SettingsInvalid(
                    f"masquerade_networks: expected networks as 10.0.0.0/8, found {error}",
                    hint="Write each as network and length, with no bits after the length",
                ) from None
            _require_ipv4(f"masquerade_networks {network}", address)


def ftp_listener(
    *,
    listen_address: str = "0.0.0.0",  # noqa: S104 - routers reach us by any interface; tickets decide who gets what
    port: int = 0,
    passive_ports: tuple[int, int] | None = None,
    masquerade_address: str | None = None,
    masquerade_networks: tuple[tuple[str, str], ...] = (),
) -> ListenerSettings:
    """Return a listener for FTP; see `ListenerSettings` and `FtpOptions`.

    Raises:
        SettingsInvalid: An argument is out of its range.
    """
    options = FtpOptions(
        passive_ports=passive_ports, masquerade_address=masquerade_address, masquerade_networks=masquerade_networks
    )
    return ListenerSettings(protocol=PROTOCOL, listen_address=listen_address, port=port, options=as_dict(options))


def _require_ipv4(name: str, text: str) -> None:
    try:
        version = ipaddress.ip_address(text).version
    except ValueError:
        raise SettingsInvalid(
            f"{name}: expected an IP address such as 192.0.2.1, found {text!r}", hint="Give an address, no name"
        ) from None
    if version != 4:
        raise SettingsInvalid(
            f"{name}: expected an IPv4 address, since PASV carries no other, found {text}",
            hint="Give the IPv4 address at which devices reach this host",
        )


_LONGEST_ARGUMENT = 100

# Name to (needs a login, argument: True required, False forbidden, None optional).
_TABLE: dict[str, tuple[bool, bool | None]] = {
    "ABOR": (True, False),
    # Treated as NOOP, which is allowed for servers that need no announcement of space (RFC 959 4.1.3).
    "ALLO": (True, True),
    "CWD": (True, None),
    "EPRT": (True, True),
    "EPSV": (True, None),
    "FEAT": (False, False),
    "MODE": (True, True),
    "NOOP": (False, False),
    "PASS": (False, None),
    "PASV": (True, False),
    "PORT": (True, True),
    "PWD": (True, False),
    "QUIT": (False, False),
    "REST": (True, True),
    "RETR": (True, True),
    "SIZE": (True, True),
    "STRU": (True, True),
    "SYST": (False, False),
    "TYPE": (True, True),
    "USER": (False, True),
}

ABSENT = frozenset(
    (
        *("ACCT", "APPE", "CDUP", "DELE", "HELP", "LIST", "MDTM", "MFMT", "MKD", "MLSD", "MLST", "NLST"),
        *("OPTS", "REIN", "RMD", "RNFR", "RNTO", "SITE", "SMNT", "STAT", "STOR", "STOU"),
        *("XCUP", "XCWD", "XMKD", "XPWD", "XRMD"),
    )
)
"""Commands of RFC 959, 1123 and 3659 that are not implemented: reply 502 instead of 500 (RFC 959 4.2)."""

COMMANDS: dict[str, dict[str, Any]] = {
    name: {"perm": None, "auth": auth, "arg": argument, "help": name} for name, (auth, argument) in _TABLE.items()
}
"""The table in the form that pyftpdlib needs; no command needs a permission, for none uses the file system."""

_SECRET = frozenset({"USER", "PASS"})


def masked_command(name: str, argument: str) -> str:
    """Return a command for the log, with credentials and the arguments of unknown commands masked."""
    if name not in COMMANDS:
        return f"{_visible(name[:8])} ***"
    if name in _SECRET:
        return f"{name} ***"
    return f"{name} {_visible(argument[:_LONGEST_ARGUMENT])}".rstrip()


def _visible(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)


_UNSENT_REPLIES_BYTES = 16 * 1024


class BoundedControl(Visitor, FTPHandler):
    """One client's control connection; `session_class` sets `tickets`, `settings` and `options` for a listener."""

    # As in `ImageChannel`; not those that the library deletes, or prints from `__dict__`.
    __slots__ = (
        *("_budget", "_cut_off", "_started_s", "client_address", "command_log", "control_syn"),
        *("_available_facts", "_current_facts", "_current_type", "_dtp_acceptor", "_dtp_connector", "_epsvall"),
        *("_extra_feats", "_idler", "_in_buffer", "_in_buffer_len", "_last_response", "_log_debug", "_quit_pending"),
        *("_restart_position", "_rnfr", "attempted_logins", "authenticated", "fs", "password", "started"),
    )

    tickets: ClassVar[TicketService]
    settings: ClassVar[ServerSettings]
    options: ClassVar[FtpOptions]

    authorizer = None
    proto_cmds = COMMANDS
    banner = "FTP server ready."
    dtp_handler = ImageChannel
    passive_dtp = PassiveListener
    active_dtp = ActiveConnector

    def __init__(self, conn: socket.socket, server: Any, ioloop: Any = None) -> None:
        self.control_syn: SynOptions | None = None
        self.client_address = ""
        self.command_log = CommandLog()
        self._cut_off = False
        # Declared for the type checker; the library sets them.
        self.authenticated: bool
        self._restart_position: int
        self._out_dtp_queue: Any
        self._dtp_acceptor: Any
        self._dtp_connector: Any
        self.data_channel: Any
        self._quit_pending: bool
        self._in_buffer: list[bytes]
        limits = self.settings.limits
        self._started_s = self.tickets.clock()
        self._budget = CommandBudget(limits.commands_burst, limits.commands_per_s, self._started_s)
        super().__init__(conn, server, ioloop=ioloop)
        self.producer_fifo = Fifo()
        # The library's attributes for file listings, which do not exist here; saves memory per session.
        self._extra_feats = self._current_facts = self._available_facts = ()

    # Life of a session.

    def on_connect(self) -> None:
        """Save the SYN's options, and refuse the client if there are too many sessions."""
        self.client_address = str(plain_address(self.remote_ip))
        self.control_syn = sockets.saved_syn(self.socket)
        sockets.set_keepalive(self.socket)
        # Without this the kernel would queue megabytes of replies for a client that reads none.
        sockets.set_notsent_lowat(self.socket, _UNSENT_REPLIES_BYTES)
        if self.settings.profile.dscp:
            sockets.set_dscp(self.socket, self.settings.profile.dscp)
        if not self.take_place():
            self.respond("421 Service not available, try later.")
            self.close_when_done()
            return
        self.tickets.connected(self.client_address, self.control_syn, TRANSPORTS)
        self.call_later(self.settings.limits.login_deadline_s, self._login_overdue)

    def evict(self) -> None:
        """Close the session at once, in favour of another one."""
        self.respond("421 Service not available, try later.")
        self.close()

    def handle_close(self) -> None:
        """Close in the next turn of the loop: this is also called when a reply fails, in the middle of a command.

        The rest of that command still uses attributes that closing removes.
        """
        if not (self._cut_off or self._closed):
            self._cut_off = True
            self.ac_in_buffer = b""
            self.call_later(0, self.close)

    def close(self) -> None:
        """Close, and remove the session from all counts."""
        if not self._closed:
            self.leave_place()
            if self.data_channel is not None:
                self.data_channel.cut_reason = "the client closed the control connection"
            self.ac_in_buffer = b""
            super().close()
            self.leave_account()

    def take_data_connection(self, connection: socket.socket) -> None:
        """Use a connection from this client to send its image."""
        handler = self.dtp_handler(connection, self)
        if handler.connected:
            self.data_channel = handler
            self._on_dtp_connection()
        else:
            self.data_connection_failed("the data connection was lost at once", "426 Data connection lost.")

    def data_connection_failed(self, reason: str, reply: str) -> None:
        """Record that no data connection was established; see `FtpClient`."""

    def _login_overdue(self) -> None:
        if not self.authenticated:
            self.respond("421 Login took too long.")
            self.close_when_done()

    # Commands in, replies out, both within bounds.

    def collect_incoming_data(self, data: bytes) -> None:
        """Buffer input; end the session if a line is too long."""
        if self._in_buffer_len + len(data) > 2048:
            self._hang_up("500 Command too long.")
            return
        super().collect_incoming_data(data)

    def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
        """Log a command, masked, and refuse unknown commands and those that come too fast."""
        if self._closed or self._closing or self._cut_off or self._quit_pending:
            return
        self._note(masked_command(cmd, arg))
        if not self._budget.take(self.tickets.clock()):
            self._hang_up("421 Too many commands.")
        elif cmd in ABSENT:
            self.respond("502 Command not implemented.")
        elif cmd not in COMMANDS and cmd[-4:] not in ("ABOR", "QUIT"):
            self.respond("500 Command not understood.")
        else:
            super().pre_process_command(line, cmd, arg)

    def push(self, data: str) -> None:
        """Queue a reply; disconnect a client that does not read its replies."""
        if self._closed:
            return
        if len(self.producer_fifo) >= self.settings.limits.queued_replies:
            self.handle_close()
            return
        super().push(data)

    def initiate_send(self) -> None:
        """Send queued replies; a session that was removed from the loop is not added to it again.

        After QUIT a session waits outside the loop for its transfer. The library would fail if the last reply but one
        was sent in two pieces, and the session would stay open.
        """
        if self._fileno in self.ioloop.socket_map:
            super().initiate_send()
        else:
            super(AsyncChat, self).initiate_send()

    def respond(self, resp: str, logfun: Any = None) -> None:  # noqa: ARG002 - the library passes its own
        """Send a reply and log it."""
        self._note(f"-> {resp[:80]}")
        super().respond(resp, logfun=self.quiet)

    def _note(self, text: str) -> None:
        self.command_log.add(self.tickets.clock() - self._started_s, text)

    def _hang_up(self, reply: str) -> None:
        self.ac_in_buffer = b""
        self._in_buffer.clear()
        self._in_buffer_len = 0
        self.respond(reply)
        self.close_when_done()

    # The library's logging is disabled, for it would write user names.

    def quiet(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing."""

    log = logline = logerror = log_cmd = log_transfer = quiet

    def get_repr_info(self, as_str: bool = False, extra_info: Any = None) -> Any:  # noqa: ARG002
        """Describe the session without its user name."""
        info = {"addr": f"{self.remote_ip}:{self.remote_port}"}
        return f"addr={info['addr']!r}" if as_str else info
