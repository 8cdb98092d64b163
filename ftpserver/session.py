"""FTP session: login, and the commands that a router needs.

No command resolves a path, lists, writes or changes anything on disk. A client gets the one image of its ticket, or
with a fixed login any image that it can name.
"""

from typing import TYPE_CHECKING, Any

from flashferry.fileserver.fixed_login import FixedGrant
from flashferry.fileserver.ticket_accounts import Account, Refusal, plain_address
from flashferry.fileserver.transfer_records import EventKind, TransferState
from ftpserver.control import TRANSPORTS, BoundedControl
from ftpserver.listeners import DataPlace, ProtocolUnsupported, parse_eprt, parse_port, protocol_of

if TYPE_CHECKING:
    import socket


_LONGEST_OFFSET_DIGITS = 15
_ABORTED = "aborted by the client (ABOR)"


class ImageSession(BoundedControl):
    """One client and its ticket."""

    def __init__(self, conn: "socket.socket", server: Any, ioloop: Any = None) -> None:
        # The client's port for an active data connection, from PORT to RETR.
        self._active_port: int | None = None
        super().__init__(conn, server, ioloop=ioloop)
        # Images are binary: served unchanged whatever TYPE says, as vsftpd does by default.
        self._current_type = "i"

    # Login.

    def ftp_USER(self, line: str) -> None:  # noqa: N802 - the library finds commands by this name
        """Remember the user name; the reply is the same for every name."""
        if self.authenticated:
            self.respond("503 Already logged in.")
            return
        self.username = line
        self.respond("331 Password required.")

    def ftp_PASS(self, line: str) -> None:  # noqa: N802
        """Compare the password with that of the ticket or fixed login; it is not kept."""
        if self.authenticated or not self.username:
            self.respond("503 Send USER first." if not self.authenticated else "503 Already logged in.")
            return
        username, self.username = self.username, ""
        result = self.tickets.login(username, line, self.client_address, TRANSPORTS)
        if isinstance(result, Refusal):
            # Unlike the library, which would put a session that closed meanwhile back into the loop.
            self.ac_in_buffer = b""
            self.del_channel()
            self.call_later(self.settings.limits.failed_login_delay_s, self._refuse_login)
            return
        self._let_in(result)

    def _refuse_login(self) -> None:
        self.attempted_logins += 1
        self.add_channel()
        self.respond("530 Login incorrect.")
        if self.attempted_logins >= self.settings.limits.failed_logins:
            self.close_when_done()

    def _let_in(self, result: Account | FixedGrant) -> None:
        self.authenticated = True
        self.username = "fixed login" if isinstance(result, FixedGrant) else result.grant.ticket_id
        self.log_in(result)
        self.respond("230 Logged in.")

    # What a login allows.

    def ftp_RETR(self, file: str) -> None:  # noqa: N802
        """Send an image."""
        offset_bytes, self._restart_position = self._restart_position, 0
        image = self.image(file)
        if image is None or self._used_up():
            self.respond("550 Not available.")
        elif self._busy():
            self.respond("450 Transfer in progress.")
        elif offset_bytes > image.size_bytes:
            self.respond("554 Offset beyond the end of the image.")
        elif not self._data_connection_expected():
            self.respond("425 Use PASV or PORT first.")
        else:
            self._retrieve(self.account_of(image), offset_bytes)

    def _retrieve(self, account: Account, offset_bytes: int) -> None:
        retrieval = self.retrieve(account, offset_bytes)
        if retrieval is None:
            self.respond("451 Image not available any more.")
            return
        self.push_dtp_data(retrieval, isproducer=True, file=retrieval.file, cmd="RETR")
        if self.waits_to_send and self._active_port is not None:
            self._call_client(self._active_port)

    # Setup of the data connection. The library's commands would close one that is sending, and its RETR would never
    # get its final reply.

    def ftp_PASV(self, _line: str) -> None:  # noqa: N802
        """Listen for the client's data connection; the reply can only have an IPv4 address (RFC 959 4.1.2)."""
        if self._version == 4 or self._epsvall:
            self._listen(extended=False)
        else:
            self.respond("425 PASV is for IPv4; use EPSV.")

    def ftp_EPSV(self, line: str) -> None:  # noqa: N802
        """Listen for the client's data connection, by the IP version of the control connection (RFC 2428 3)."""
        if line.upper() == "ALL":
            self._epsvall = True
            self.respond("200 Only EPSV is taken from now on.")
        elif line in ("", str(protocol_of(self._version))):
            self._listen(extended=True)
        else:
            self.respond(self._unsupported() if line in ("1", "2") else "501 Expected a network protocol.")

    def _listen(self, *, extended: bool) -> None:
        if self._may_prepare(is_epsv=extended):
            self._make_epasv(extended)

    def ftp_PORT(self, line: str) -> None:  # noqa: N802
        """Remember the client's IPv4 address and port; we connect at RETR."""
        try:
            self._note_place(parse_port(line))
        except ValueError:
            self.respond("501 Expected six numbers.")

    def ftp_EPRT(self, line: str) -> None:  # noqa: N802
        """Remember the client's address and port; we connect at RETR."""
        try:
            self._note_place(parse_eprt(line, self._version))
        except ProtocolUnsupported:
            self.respond(self._unsupported())
        except ValueError:
            self.respond("501 Expected |protocol|address|port|.")

    def _note_place(self, place: DataPlace) -> None:
        refusal = place.refusal(plain_address(self.remote_ip))
        if refusal:
            self.respond(f"501 {refusal}")
        elif self._may_prepare():
            self._drop_data_connection()
            self._active_port = place.port
            self.respond("200 PORT command successful.")

    def _may_prepare(self, *, is_epsv: bool = False) -> bool:
        if self._epsvall and not is_epsv:
            self.respond("501 Not allowed after EPSV ALL.")
        elif self._busy():
            self.respond("450 Transfer in progress.")
        else:
            return True
        return False

    def _unsupported(self) -> str:
        return f"522 Network protocol not supported, use ({protocol_of(self._version)})"

    @property
    def _version(self) -> int:
        """IP version of the client; 4 for an IPv4 client of a dual-stack socket."""
        return plain_address(self.remote_ip).version

    def _call_client(self, port: int) -> None:
        self._active_port = None
        self._dtp_connector = self.active_dtp(self, port)
        self._dtp_connector.begin()

    def forget_connector(self, connector: object) -> None:
        """Drop the connector of an active data connection, which has finished."""
        if self._dtp_connector is connector:
            self._dtp_connector = None

    def _shutdown_connecting_dtp(self) -> None:
        self._active_port = None
        super()._shutdown_connecting_dtp()

    def _drop_data_connection(self) -> None:
        """Close a data connection that was prepared for a RETR that was not sent."""
        self._shutdown_connecting_dtp()
        if self.data_channel is not None:
            self.data_channel.close()
            self.data_channel = None

    def ftp_QUIT(self, _line: str) -> None:  # noqa: N802
        """Close the session after the transfer, if any, even if it still waits for its connection (RFC 959 4.1.1)."""
        self.respond("221 Goodbye.")
        if self._busy():
            self._quit_pending = True
            # Nothing more is read: a client that shuts down its control connection still gets its image.
            self.del_channel()
        else:
            self._drop_data_connection()
            self.close_when_done()

    def ftp_SIZE(self, path: str) -> None:  # noqa: N802
        """Report the size of an image."""
        image = self.image(path)
        self.respond("550 Not available." if image is None else f"213 {image.size_bytes}")

    def ftp_REST(self, line: str) -> None:  # noqa: N802
        """Set the offset of the next RETR."""
        if not (line.isascii() and line.isdigit() and len(line) <= _LONGEST_OFFSET_DIGITS):
            self.respond("501 Expected a number of bytes.")
            return
        self._restart_position = int(line)
        self.respond(f"350 Restarting at {self._restart_position}.")

    def ftp_TYPE(self, line: str) -> None:  # noqa: N802
        """Accept both types; an image is sent unchanged in either."""
        known = line.upper() in ("A", "A N", "I", "L 8", "L8")
        self.respond("200 Type set; images are sent unchanged." if known else "504 Type not supported.")

    def ftp_CWD(self, path: str) -> None:  # noqa: N802
        """Accept the root directory only."""
        self.respond("250 OK." if path in ("", "/", ".") else "550 Not available.")

    def ftp_PWD(self, _line: str) -> None:  # noqa: N802
        """Report the root directory."""
        self.respond('257 "/" is the current directory.')

    def ftp_FEAT(self, _line: str) -> None:  # noqa: N802
        """List the extensions to RFC 959 that exist here."""
        self.push("211-Features:\r\n EPRT\r\n EPSV\r\n REST STREAM\r\n SIZE\r\n")
        self.respond("211 End.")

    def ftp_ABOR(self, _line: str) -> None:  # noqa: N802
        """End the transfer at the client's request.

        Replies are 426 for the transfer and 226 for ABOR if a RETR was active, even if it still waited for its data
        connection; 225 if there was none (RFC 959 5.4 allows both).
        """
        if not self._busy():
            was_prepared = self._data_connection_expected()
            self._drop_data_connection()
            self.respond("225 Data connection closed." if was_prepared else "225 No transfer to abort.")
            return
        if self._drop_waiting_retrieval() and self.account is not None:
            self.tickets.change(self.account, EventKind.FAILED, _ABORTED, state=TransferState.FAILED)
        if self.data_channel is not None:
            self.data_channel.cut_reason = _ABORTED
        self._drop_data_connection()
        self.respond("426 Transfer aborted via ABOR.")
        self.respond("226 ABOR command successful.")

    def data_connection_failed(self, reason: str, reply: str) -> None:
        """Record that no data connection was established; see `FtpClient`."""
        waiting = self._drop_waiting_retrieval()
        if self.account is not None:
            state = TransferState.FAILED if waiting else self.account.progress.state
            self.tickets.change(self.account, EventKind.FAILED, reason, state=state)
        if not waiting:
            return
        self.respond(reply)
        if self._quit_pending:
            self.close()

    @property
    def waits_to_send(self) -> bool:
        """Whether an accepted RETR (reply 150) waits for its data connection."""
        return self._out_dtp_queue is not None

    def end_waiting(self, reason: str) -> None:
        """End a RETR that waits for its data connection, if there is one."""
        if not self.waits_to_send:
            return
        if self.account is not None and self.account.progress.state is TransferState.DELIVERED:
            # Another session of the same ticket has delivered the image; its state is kept.
            self._drop_waiting_retrieval()
            return
        self.data_connection_failed(reason, "421 Server is going down.")

    def yield_to_newer(self, reason: str) -> None:
        """End the current RETR, if any, whether it runs or waits for its data connection."""
        if self._closed:
            return
        if self.waits_to_send:
            self._shutdown_connecting_dtp()
            self.data_connection_failed(reason, "426 Transfer ended by the server.")
        elif self.data_channel is not None and self.data_channel.retrieval is not None:
            self.data_channel.yield_to_newer(reason)

    def send_away(self, reason: str) -> None:
        """End the current RETR, if any, and the session."""
        if not self._closed and self.data_channel is not None:
            self.data_channel.cut(reason)
        self.yield_to_newer(reason)
        if not self._closed:
            self.respond("421 Ticket withdrawn.")
            self.close_when_done()

    def note_trouble(self, text: str) -> None:
        """Record an event of this session that may explain a failure."""
        if self.account is not None:
            self.tickets.change(self.account, EventKind.NOTICE, text, last_error=text)
        elif self.fixed is not None:
            self.tickets.report(EventKind.NOTICE, text, self.client_address)

    def _drop_waiting_retrieval(self) -> bool:
        if self._closed:
            return False
        queued, self._out_dtp_queue = self._out_dtp_queue, None
        if queued is None:
            return False
        queued[2].close()
        return True

    def _used_up(self) -> bool:
        return self.fixed is None and (self.account is None or self.account.refusal(self.tickets.clock()) is not None)

    def _busy(self) -> bool:
        return self.waits_to_send or (self.data_channel is not None and self.data_channel.retrieval is not None)

    def _data_connection_expected(self) -> bool:
        listens = self._dtp_acceptor is not None and not self._dtp_acceptor._closed  # noqa: SLF001 - no public word for it
        return listens or self.data_channel is not None or self._active_port is not None
