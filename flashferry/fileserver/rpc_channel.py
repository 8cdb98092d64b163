"""The client's end of a connection to a server or a serving process: requests out, answers and messages in."""

from __future__ import annotations

import itertools
import select
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from flashferry.core.errors import FlashferryError
from flashferry.fileserver.errors import FileServerError, RequestRefused, ServerGone, SettingsInvalid, TicketUnknown
from flashferry.fileserver.wire import MOST_BYTES, Answer, Call, decode_message, encode, path_of_bytes
from flashferry.images.errors import CatalogueInvalid, ImageUnknown, ImageUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from flashferry.fileserver.wire import Message, Request

_ERRORS: dict[str, type[FlashferryError]] = {
    one.kind.value: one
    for one in (
        FileServerError,
        SettingsInvalid,
        ServerGone,
        TicketUnknown,
        CatalogueInvalid,
        ImageUnknown,
        ImageUnreadable,
    )
}


class ConnectionBroken(ConnectionError):
    """The connection broke, or an answer did not come in time."""


class MessageInvalid(ConnectionBroken):
    """The other side sent an invalid message."""


class RpcChannel:
    """One connection. `ask` is for any thread once `listen` runs on one; `ask_alone` is for before that.

    Args:
        connection: The connection, already greeted.
        on_message: Takes every message that is not an answer, on the thread that receives it.

    Attributes:
        received: How many messages came in.
        is_delivering: Whether a message is being handled right now.
        sending: The number of the message being written right now; 0 if none is.
    """

    def __init__(self, connection: Connection, on_message: Callable[[Message], None]) -> None:
        self._connection, self._on_message = connection, on_message
        self._send_lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._answered = threading.Condition()
        self._answers: dict[int, Answer] = {}
        self._awaited: set[int] = set()
        self._is_over = self._is_stuck = False
        self._sent = 0
        self.received = self.sending = 0
        self.is_delivering = False

    def receive(self) -> Message:
        """Return the next message.

        Raises:
            ConnectionBroken: There is none any more.
            MessageInvalid: What came is no message.
        """
        try:
            message: Message = decode_message(self._connection.recv_bytes(MOST_BYTES))
        except (EOFError, ConnectionError) as error:
            # A killed process may leave a partial message.
            raise ConnectionBroken(str(error) or "it is closed") from None
        except (OSError, msgspec.DecodeError) as error:
            raise MessageInvalid(f"not understood: {error}") from error
        return message

    def listen(self) -> None:
        """Handle messages until the connection breaks; threads that wait for an answer are woken then.

        Raises:
            ConnectionBroken: Always, in the end.
        """
        try:
            while True:
                self._handle(self.receive())
        finally:
            with self._answered:
                self._is_over = True
                self._answered.notify_all()

    def _handle(self, message: Message) -> None:
        self.received += 1
        if not isinstance(message, Answer):
            self.is_delivering = True
            self._on_message(message)
            self.is_delivering = False
            return
        with self._answered:
            # An answer is dropped where the caller gave up waiting.
            if message.number in self._awaited:
                self._answers[message.number] = message
                self._answered.notify_all()

    def post(self, request: Request) -> None:
        """Send a request without waiting for an answer.

        Raises:
            ConnectionBroken: It cannot be sent.
        """
        self._send(Call(number=0, request=request))

    def post_if_ready(self, request: Request, timeout_s: float) -> None:
        """Send a request unless the other side does not read, or another thread is sending for `timeout_s`."""
        if self._send_lock.acquire(timeout=timeout_s):
            try:
                if select.select((), (self._connection,), (), 0)[1]:
                    self._connection.send_bytes(encode(Call(number=0, request=request)))
            except (OSError, ValueError):
                pass
            finally:
                self._send_lock.release()

    def ask(self, request: Request, kind: Any = None, *, timeout_s: float | None = None) -> Any:
        """Send a request and return its answer.

        Args:
            request: The request.
            kind: The answer's type; None for an answer without a value.
            timeout_s: Seconds to wait; None for ever.

        Raises:
            ConnectionBroken: No answer came, in time or at all.
            FlashferryError: The request was refused, with the class of error that was raised there.
        """
        number = next(self._numbers)
        with self._answered:
            self._awaited.add(number)
        try:
            self._send(Call(number=number, request=request))
            with self._answered:
                self._answered.wait_for(lambda: number in self._answers or self._is_over or self._is_stuck, timeout_s)
                given = self._answers.pop(number, None)
        finally:
            with self._answered:
                self._awaited.discard(number)
        if given is None:
            raise ConnectionBroken(f"no answer to {type(request).__name__}")
        return _result(request, given, kind)

    def ask_alone(self, request: Request, kind: Any = None) -> Any:
        """Send a request and return its answer while no thread runs `listen`; other messages are handled here."""
        number = next(self._numbers)
        self._send(Call(number=number, request=request))
        while True:
            message = self.receive()
            if isinstance(message, Answer) and message.number == number:
                return _result(request, message, kind)
            self._handle(message)

    def _send(self, call: Call) -> None:
        data = encode(call)
        try:
            with self._send_lock:
                self._sent += 1
                self.sending = self._sent
                try:
                    self._connection.send_bytes(data)
                finally:
                    self.sending = 0
        except OSError as error:
            raise ConnectionBroken(error.strerror or str(error)) from None

    def set_stuck(self, is_stuck: bool) -> None:
        """Set whether the other side hangs; if it does, threads do not wait for an answer."""
        with self._answered:
            self._is_stuck = is_stuck
            self._answered.notify_all()

    def is_over(self, timeout_s: float) -> bool:
        """Return whether the connection is broken, or breaks within a time."""
        with self._answered:
            return self._answered.wait_for(lambda: self._is_over, timeout_s)

    def close(self) -> None:
        """Close the connection, once nothing listens any more."""
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._connection


def _result(request: Request, given: Answer, kind: Any) -> Any:
    name = type(request).__name__
    if given.error:
        raised = _ERRORS.get(given.kind)
        if raised is None:
            raise RequestRefused(f"{name}: {given.kind}: {given.error}", hint=given.hint)
        raise raised(given.error, hint=given.hint)
    try:
        return msgspec.msgpack.decode(given.result, type=kind, dec_hook=path_of_bytes)
    except msgspec.DecodeError as error:
        raise RequestRefused(f"{name}: not understood: {error}") from error
