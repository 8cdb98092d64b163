"""A control connection within bounds: who may stay, how long, how fast, and how much may queue up.

Facts
-----

- The library queues replies without limit, also before login, and a keepalive command resets its idle timer for ever;
  6 MB of unread commands grew it by 54 MB.
- It puts a session whose login was refused back into its loop after the delay even if it closed meanwhile.
- What it logs holds user names, and what it prints of an unknown command may hold anything.
"""

from typing import TYPE_CHECKING, Any, ClassVar

from flashferry.fileserver import sockets
from flashferry.fileserver.clients.client_session import Visitor
from flashferry.fileserver.clients.login_limits import CommandBudget
from flashferry.fileserver.protocol import AsyncChat
from flashferry.fileserver.ticket_service import TicketService
from flashferry.fileserver.tickets import plain_address
from ftpserver.base import Fifo, FTPHandler
from ftpserver.commands import ABSENT, COMMANDS, masked_command
from ftpserver.data import ImageChannel
from ftpserver.listeners import ActiveConnector, PassiveListener
from ftpserver.settings import TRANSPORTS

if TYPE_CHECKING:
    import socket

    from flashferry.fileserver.settings import ServerSettings
    from flashferry.tcp.syn import SynOptions
    from ftpserver.settings import FtpOptions

_LOG_LINES = 120
_UNSENT_REPLIES_BYTES = 16 * 1024


class BoundedControl(Visitor, FTPHandler):
    """One client's control connection; `session_class` sets `tickets`, `settings` and `options` for a listener."""

    tickets: ClassVar[TicketService]
    settings: "ClassVar[ServerSettings]"
    options: "ClassVar[FtpOptions]"

    authorizer = None
    proto_cmds = COMMANDS
    banner = "FTP server ready."
    dtp_handler = ImageChannel
    passive_dtp = PassiveListener
    active_dtp = ActiveConnector

    def __init__(self, conn: "socket.socket", server: Any, ioloop: Any = None) -> None:
        self.control_syn: SynOptions | None = None
        self.client_address = ""
        self.command_log: list[str] = []
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
        # For lists of files, which do not exist here: each session would have its own.
        self._extra_feats = self._current_facts = self._available_facts = ()

    # Life of a session.

    def on_connect(self) -> None:
        """Audit the SYN and turn away who may not stay."""
        self.client_address = str(plain_address(self.remote_ip))
        self.control_syn = sockets.saved_syn(self.socket)
        sockets.set_keepalive(self.socket)
        # Otherwise the kernel queues megabytes of replies for a client that reads none.
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
        """Give the place up, now."""
        self.respond("421 Service not available, try later.")
        self.close()

    def handle_close(self) -> None:
        """Close, but not here and now: a reply that could not be sent ends here too, in the middle of a command.

        The rest of that command still uses what closing takes away.
        """
        if not (self._cut_off or self._closed):
            self._cut_off = True
            self.ac_in_buffer = b""
            self.call_later(0, self.close)

    def close(self) -> None:
        """Close and take the session off the books."""
        if not self._closed:
            self.leave_place()
            if self.data_channel is not None:
                self.data_channel.cut_reason = "the client closed the control connection"
            self.ac_in_buffer = b""
            super().close()
            self.leave_account()

    def take_data_connection(self, connection: "socket.socket") -> None:
        """Use a connection of this client's for its image."""
        handler = self.dtp_handler(connection, self)
        if handler.connected:
            self.data_channel = handler
            self._on_dtp_connection()
        else:
            self.data_connection_failed("the data connection was lost at once", "426 Data connection lost.")

    def data_connection_failed(self, reason: str, reply: str) -> None:
        """Note that no data connection came about; see `base.FtpClient`."""

    def _login_overdue(self) -> None:
        if not self.authenticated:
            self.respond("421 Login took too long.")
            self.close_when_done()

    # Commands in, replies out, both within bounds.

    def collect_incoming_data(self, data: bytes) -> None:
        """Take input in; a line that never ends ends the session."""
        if self._in_buffer_len + len(data) > 2048:
            self._hang_up("500 Command too long.")
            return
        super().collect_incoming_data(data)

    def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
        """Log a command masked, and refuse what is unknown or comes too fast."""
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
        """Queue a reply; a client that does not read its replies is cut off."""
        if self._closed:
            return
        if len(self.producer_fifo) >= self.settings.limits.queued_replies:
            self.handle_close()
            return
        super().push(data)

    def initiate_send(self) -> None:
        """Send what is queued; one that was taken out of the loop is not asked for there, and stays out of it.

        A session that has said goodbye waits so for its transfer. The library would fail where the last reply but one
        was sent in two pieces, and the session stayed open.
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
        if len(self.command_log) >= _LOG_LINES:
            del self.command_log[0]
        self.command_log.append(f"{self.tickets.clock() - self._started_s:.3f} {text}")

    def _hang_up(self, reply: str) -> None:
        self.ac_in_buffer = b""
        self._in_buffer.clear()
        self._in_buffer_len = 0
        self.respond(reply)
        self.close_when_done()

    # The library's logging is silenced: it would write user names, and its callers cannot mask.

    def quiet(self, *args: Any, **kwargs: Any) -> None:
        """Log nothing."""

    log = logline = logerror = log_cmd = log_transfer = quiet

    def get_repr_info(self, as_str: bool = False, extra_info: Any = None) -> Any:  # noqa: ARG002
        """Describe the session without its user."""
        info = {"addr": f"{self.remote_ip}:{self.remote_port}"}
        return f"addr={info['addr']!r}" if as_str else info
