"""One client, one connection, one request: who it is, what its ticket allows, and the image.

Facts
-----

- The library's dispatcher closes what had an error, and prints it on standard error; here it is reported to the parent.
- Closing a connection with unread data sends a reset, and with it the answer may be lost that was
  sent before. So behind a refusal our side is closed first, and what still comes is thrown away for a while.
- The event loop closes no connection that it does not watch: a client that leaves while its refusal is
  held back is noticed when that is sent.
"""

import socket
from http import HTTPStatus
from typing import TYPE_CHECKING

from flashferry.fileserver import sockets
from flashferry.fileserver.client_session import Visitor
from flashferry.fileserver.image_stream import Ending, ImageSending
from flashferry.fileserver.protocol import AsyncChat, report_loop_error
from flashferry.fileserver.records import EventKind, TransferState
from flashferry.fileserver.ticket_accounts import Refusal, plain_address
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
"""A request's head is complete by then, a TLS handshake before it included, or its session is closed."""

_LINGER_S = 2.0
_MOST_LINGERING = 64
"""So many clients beyond the sessions allowed get an answer, and linger; a flood of them would take all space."""

_THROWN_AWAY_BYTES = 65_536
_SETTLED = frozenset({Refusal.UNKNOWN_USER, Refusal.WRONG_PASSWORD, Refusal.LOCKED_OUT})
"""Refusals of who does not know the password; to all others it is no news that they do."""


class HttpSession(Visitor, AsyncChat):
    """One client's connection.

    Args:
        connection: The connection.
        listener: Where it came in.
        address: Where it came from, as the socket gives it.

    Attributes:
        client_address: Its address for people and records.
        control_syn: What its SYN offered.
        command_log: Its request and our answer, secrets masked.
        cut_reason: Why its transfer ended, if it is closed from here.
    """

    def __init__(self, connection: socket.socket, listener: "HttpListener", address: str) -> None:
        super().__init__(connection, ioloop=listener.context.loop)
        self.producer_fifo: list[bytes] = []
        self._listener = listener
        self.client_address = str(plain_address(address))
        self.control_syn: SynOptions | None = sockets.saved_syn(self.socket)
        self.command_log: list[str] = []
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
        """How the server runs."""
        return self._listener.context.settings

    # Life of a session.

    def begin(self) -> None:
        """Audit the SYN and turn away who may not stay."""
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
        """Return whether too many that are turned away linger already, of its address or of all."""
        own = self.tickets.pending_logins.count(self.client_address)
        return (
            own > self.settings.limits.anonymous_sessions_per_address + _MOST_LINGERING
            or self.tickets.sessions > self.most_sessions + _MOST_LINGERING
        )

    def evict(self) -> None:
        """Give the place up, now."""
        self.close()

    def close_idle(self) -> None:
        """Leave, unless an image is under way."""
        if self._sending is None and not self._closed:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE)

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer under way; nothing happens without one."""
        if self._sending is not None:
            self._sending.yield_to_newer(reason)

    def send_away(self, reason: str) -> None:
        """End the transfer under way, and the session."""
        if self._sending is not None:
            self._sending.cut(reason)
        self.close()

    def close(self) -> None:
        """Close, settle the account and take the session off the books."""
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

    # What the event loop calls.

    def handle_read(self) -> None:
        """Take some more of the request's head, or throw away what comes behind it."""
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
        """Return to the loop whether there is more to send."""
        return self._sending is not None and self._sending.is_sending

    def handle_write(self) -> None:
        """Hand the kernel another piece of the image."""
        if self._sending is not None:
            self._sending.write()

    def handle_close(self) -> None:
        """Note that the client is gone."""
        if self._sending is None:
            self.close()
        else:
            self._sending.lost()

    def handle_error(self) -> None:
        """Name an error of ours as such."""
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
            self._trouble = "the client asked for a part behind the end of the image"
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
        """Look a name up among what this login allows; no path is ever resolved."""
        if not name:
            return HTTPStatus.NOT_FOUND
        return self.image(name) or (HTTPStatus.FORBIDDEN if self.fixed is None else HTTPStatus.NOT_FOUND)

    # The image.

    def _granted_control(self, asked: str) -> str:
        """Return the congestion control that this answer goes out with at the client's request; empty: the usual one.

        A depot of ours compares them, under a fixed login; a router has no say in it.
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

    # What the sending asks of its connection.

    def await_space(self) -> None:
        """Have the loop call when there is room."""
        self.modify_ioloop_events(self.ioloop.WRITE)

    def leave_loop(self) -> None:
        """Have the loop not call any more."""
        self.del_channel()

    def sending_ended(self, ending: Ending) -> None:
        """Close: by the length sent before the client knows whether it has everything."""
        if ending is Ending.DELIVERED:
            self._stream.end()
            self._empty_input()
        self.close()

    # Answers without an image.

    def _answer(self, status: HTTPStatus, *, size_bytes: int | None = None) -> None:
        self._say(refusal(status, with_text=not self._is_head_only, size_bytes=size_bytes))

    def _say(self, answer: bytes) -> None:
        """Send a short answer, once, close our side, and throw away what comes, for a while: then close."""
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
        """Read what the client sent behind its request: left there, it would have closing send a reset."""
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
        self.command_log.append(f"{self.tickets.clock() - self._started_s:.3f} {text}")
