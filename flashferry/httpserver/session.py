"""HTTP session: one request of one client, its login, and the image.

Facts
-----

- The library's dispatcher closes a connection after an exception and prints it on standard error; here it is reported
  to the parent process.
- Closing a connection with unread data sends a reset, by which the response sent before may be lost. So after an error
  response only our direction is closed, and input is discarded for a while.
- The event loop does not notice the end of a connection that it does not watch: a client that disconnects while its
  error response is delayed is noticed when that is sent.
"""

import socket
from http import HTTPStatus
from typing import TYPE_CHECKING

from flashferry.fileserver import sockets
from flashferry.fileserver.client_session import CommandLog, Visitor
from flashferry.fileserver.image_stream import Ending, ImageSending
from flashferry.fileserver.protocol import AsyncChat, report_loop_error
from flashferry.fileserver.ticket_accounts import Refusal, plain_address
from flashferry.fileserver.transfer_records import EventKind, TransferState
from flashferry.httpserver.head import (
    BadHead,
    HeadReader,
    NoSuchPart,
    Part,
    Request,
    image_head,
    part_of,
    plain_name,
    refusal,
)
from flashferry.httpserver.streams import PlainStream, StreamLost
from flashferry.images.manifest import entity_tag

if TYPE_CHECKING:
    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import Account
    from flashferry.fileserver.ticket_service import TicketService
    from flashferry.httpserver.listener import HttpListener
    from flashferry.images.image import ImageFile
    from flashferry.tcp.syn import SynOptions

HEAD_S = 10.0
"""Time limit of TLS handshake and request head; a session that exceeds it is closed."""

_LINGER_S = 2.0
_MOST_LINGERING = 64
"""Clients beyond the allowed sessions that still get an error response; more of them would take too much memory."""

_THROWN_AWAY_BYTES = 65_536
_SETTLED = frozenset({Refusal.UNKNOWN_USER, Refusal.WRONG_PASSWORD, Refusal.LOCKED_OUT})
"""Refusals answered by 401, as they mean wrong credentials; all others are 403."""


class HttpSession(Visitor, AsyncChat):
    """One client's connection.

    Args:
        connection: The connection.
        listener: The listener that accepted it.
        address: The client's address as the socket returns it.

    Attributes:
        client_address: The client's address in plain form.
        control_syn: Options of its SYN.
        command_log: Its request and our response, secrets masked.
        cut_reason: Reason recorded for its transfer if we close the session.
    """

    def __init__(self, connection: socket.socket, listener: "HttpListener", address: str) -> None:
        super().__init__(connection, ioloop=listener.context.loop)
        self.producer_fifo: list[bytes] = []
        self._listener = listener
        self.client_address = str(plain_address(address))
        self.control_syn: SynOptions | None = sockets.saved_syn(self.socket)
        self.command_log = CommandLog()
        self.cut_reason = "the connection was closed"
        self._stream = listener.stream_of(self.socket)
        self._reader: HeadReader | None = HeadReader()
        self._started_s: float = self.tickets.clock()
        info = sockets.read_info(self.socket)
        self._base_acked_bytes = (info.bytes_acked or 0) if info is not None else 0
        self._sending: ImageSending | None = None
        self._trouble = "the client left without fetching the image"
        self._is_head_only = self._is_answered = False
        self._thrown_away_bytes = 0

    @property
    def tickets(self) -> "TicketService":
        """The server's ticket service."""
        return self._listener.context.tickets

    @property
    def settings(self) -> "ServerSettings":
        """The server's settings."""
        return self._listener.context.settings

    # Life of a session.

    def begin(self) -> None:
        """Save the SYN's options, and refuse the client if there are too many sessions."""
        self._listener.sessions.add(self)
        if self.settings.profile.dscp:
            sockets.set_dscp(self.socket, self.settings.profile.dscp)
        if not self.take_place():
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)
            if self._is_one_of_many():
                self.close()
            return
        self.tickets.connected(self.client_address, self.control_syn, self._listener.transports)
        self.call_later(min(HEAD_S, self.settings.limits.login_deadline_s), self._head_overdue)

    def _is_one_of_many(self) -> bool:
        """Return whether too many refused clients are still connected, from its address or in total."""
        own = self.tickets.pending_logins.count(self.client_address)
        return (
            own > self.settings.limits.anonymous_sessions_per_address + _MOST_LINGERING
            or self.tickets.sessions > self.most_sessions + _MOST_LINGERING
        )

    def evict(self) -> None:
        """Close the session at once, in favour of another one."""
        self.close()

    def close_idle(self) -> None:
        """Close the session unless it sends an image."""
        if self._sending is None and not self._closed:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer, if any, in favour of a newer one of its ticket."""
        if self._sending is not None:
            self._sending.yield_to_newer(reason)

    def send_away(self, reason: str) -> None:
        """End the transfer, if any, and the session."""
        if self._sending is not None:
            self._sending.cut(reason)
        self.close()

    def close(self) -> None:
        """Close, record the end of the transfer, and remove the session from all counts."""
        if self._closed:
            return
        self.leave_place()
        sending, self._sending = self._sending, None
        if sending is not None:
            sending.settle(self.cut_reason)
            sending.retrieval.file.close()
        super().close()
        self._listener.sessions.discard(self)
        self.leave_account(self._trouble)

    def _head_overdue(self) -> None:
        if self._reader is not None and not self._closed:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)

    # Called by the event loop.

    def handle_read(self) -> None:
        """Read more of the request's head, or discard what follows it."""
        try:
            if self._reader is None:
                self._throw_away()
                return
            data = self._stream.receive(self._reader.wants_bytes)
        except StreamLost as lost:
            if str(lost):
                self.tickets.report(EventKind.NOTICE, str(lost), self.client_address)
            self.close()
            return
        found = self._reader.take(data) if data else None
        if found is not None:
            self._reader = None
            self._take(found)

    def writable(self) -> bool:
        """Return whether there is more to send."""
        return self._sending is not None and self._sending.is_sending

    def handle_write(self) -> None:
        """Hand the kernel another piece of the image."""
        if self._sending is not None:
            self._sending.write()

    def handle_close(self) -> None:
        """Handle a client that closed the connection."""
        if self._sending is None:
            self.close()
        else:
            self._sending.lost()

    def handle_error(self) -> None:
        """Report an exception in our code, and close."""
        report_loop_error("http session")
        self.cut_reason = "internal error of the server"
        self.close()

    # The request.

    def _take(self, found: Request | BadHead) -> None:
        if isinstance(found, BadHead):
            self._note(f"(a head with {found.reason})")
            self._answer(found.status)
            return
        self._note(" ".join(filter(None, (found.line, found.byte_range, "Authorization: ***" if found.login else ""))))
        self._is_head_only = found.method == "HEAD"
        if found.method not in ("GET", "HEAD"):
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED)
        elif found.login is None:
            self._answer(HTTPStatus.UNAUTHORIZED)
        else:
            result = self.tickets.login(
                found.login.username, found.login.password, self.client_address, self._listener.transports
            )
            if isinstance(result, Refusal):
                self._refuse_login(result)
            else:
                self._let_in(result, found)

    def _refuse_login(self, why: Refusal) -> None:
        status = HTTPStatus.UNAUTHORIZED if why in _SETTLED else HTTPStatus.FORBIDDEN
        self.leave_loop()
        self.call_later(self.settings.limits.failed_login_delay_s, self._answer, status)

    def _let_in(self, result: "Account | FixedGrant", request: Request) -> None:
        self.log_in(result)
        found = self._granted(plain_name(request.target))
        if isinstance(found, HTTPStatus):
            self._trouble = "the client asked for something else than the image of its ticket"
            self._answer(found)
            return
        tag = entity_tag(found.sha512)
        try:
            part = part_of(request.byte_range, request.if_range, size_bytes=found.size_bytes, tag=tag)
        except NoSuchPart:
            self._trouble = "the client asked for a part after the end of the image"
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, size_bytes=found.size_bytes)
            return
        control = self._granted_control(request.congestion_control)
        head = image_head(tag, found.size_bytes, part, control)
        if self._is_head_only:
            self._trouble = "the client asked for the head of the image alone"
            self._say(head)
        else:
            self._send(found, part, head, request, control)

    def _granted(self, name: str) -> "ImageFile | HTTPStatus":
        """Return the image of a name if this login allows it, else an error status. No path is resolved."""
        if not name:
            return HTTPStatus.NOT_FOUND
        return self.image(name) or (HTTPStatus.FORBIDDEN if self.fixed is None else HTTPStatus.NOT_FOUND)

    # The image.

    def _granted_control(self, asked: str) -> str:
        """Set the congestion control that the client requested, and return it; empty if it stays the default.

        Only for a fixed login, by which a depot compares congestion controls; a router cannot request one.
        """
        if not asked or self.fixed is None or sockets.set_congestion_control(self.socket, asked):
            return ""
        return asked

    def _send(self, image: "ImageFile", part: Part | None, head: bytes, request: Request, control: str) -> None:
        account = self.account_of(image)
        first, end = (0, None) if part is None else (part.first_byte, part.end_byte)
        retrieval = self.retrieve(account, first, end)
        if retrieval is None:
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR)
            return
        raw_info = sockets.read_info_bytes(self.socket)
        self._note_answer(head)
        if raw_info is None or not self._stream.send(head, more=True):
            retrieval.file.close()
            self.tickets.change(account, EventKind.FAILED, "the connection was lost", state=TransferState.FAILED)
            self.close()
            return
        self._sending = ImageSending(
            self,
            self,
            retrieval,
            raw_info,
            transport=self._listener.transports[0],
            data_syn=self.control_syn,
            writer=self._stream.writer(head),
            base_acked_bytes=self._base_acked_bytes,
            name="connection",
            cipher=self._stream.cipher,
            client_name=request.user_agent,
            congestion_control=control,
        )
        self._sending.begin()

    # Called by the sender of the image.

    def await_space(self) -> None:
        """Let the event loop call `handle_write` when the socket has room."""
        self.modify_ioloop_events(self.ioloop.WRITE)

    def leave_loop(self) -> None:
        """Remove the connection from the event loop."""
        self.del_channel()

    def sending_ended(self, ending: Ending) -> None:
        """Close; the client knows by the announced length whether it has the whole image."""
        if ending is Ending.DELIVERED:
            self._stream.end()
            self._empty_input()
        self.close()

    # Answers without an image.

    def _answer(self, status: HTTPStatus, *, size_bytes: int | None = None) -> None:
        self._say(refusal(status, with_text=not self._is_head_only, size_bytes=size_bytes))

    def _say(self, answer: bytes) -> None:
        """Send a short response, close our direction, discard input for a while, then close."""
        if self._closed or self._is_answered:
            return
        self._is_answered = True
        self._reader = None
        self._note_answer(answer)
        if not self._stream.send(answer):
            self.close()
            return
        self._stream.end()
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self.modify_ioloop_events(self.ioloop.READ)
        self.call_later(_LINGER_S, self.close)

    def _throw_away(self) -> None:
        self._thrown_away_bytes += len(self._unread())
        if self._thrown_away_bytes > _THROWN_AWAY_BYTES:
            self.close()

    def _empty_input(self) -> None:
        """Discard what the client sent after its request: if it were unread, closing would send a reset."""
        try:
            while self._unread() and self._thrown_away_bytes <= _THROWN_AWAY_BYTES:
                self._thrown_away_bytes += _THROWN_AWAY_BYTES // 16
        except StreamLost:
            pass

    def _unread(self) -> bytes:
        return PlainStream(self.socket).receive(_THROWN_AWAY_BYTES // 4)

    def _note_answer(self, answer: bytes) -> None:
        status_line = answer.partition(b"\r\n")[0].decode("ascii")
        self._note(f"-> {status_line.partition(' ')[2]}")

    def _note(self, text: str) -> None:
        self.command_log.add(self.tickets.clock() - self._started_s, text)
