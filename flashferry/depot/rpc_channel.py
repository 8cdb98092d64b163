"""One connection of a run to the depot: what is asked and answered on it, until it breaks."""

from __future__ import annotations

import itertools
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from flashferry.core.errors import FlashferryError
from flashferry.depot.messages import Answer, Call, encode, result_of, saying_of
from flashferry.fileserver import FileServerError, RequestRefused, ServerGone, SettingsInvalid, TicketUnknown
from flashferry.fileserver.wire import MOST_BYTES
from flashferry.images.errors import CatalogueInvalid, ImageUnknown, ImageUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from flashferry.depot.messages import Request, Saying

_ERRORS: dict[str, type[FlashferryError]] = {
    one.kind.value: one
    for one in (
        FileServerError,
        SettingsInvalid,
        ServerGone,
        RequestRefused,
        TicketUnknown,
        CatalogueInvalid,
        ImageUnknown,
        ImageUnreadable,
    )
}


class LineBroken(ConnectionError):
    """The connection broke, or the depot gave no answer on it."""


class RpcChannel:
    """One connection. `ask` may be called from any thread once `listen` runs on one; `ask_alone` before that.

    Args:
        connection: It, greeted.
        hear: Takes all that is no answer, on the thread that listens or asks alone.
    """

    def __init__(self, connection: Connection, hear: Callable[[Saying], None]) -> None:
        self._connection, self._hear = connection, hear
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)
        self._answered = threading.Condition()
        self._answers: dict[int, Answer] = {}
        self._wanted: set[int] = set()
        self._is_over = False

    def receive(self) -> Saying:
        """Return the next message.

        Raises:
            LineBroken: There is none any more, or it is not understood.
        """
        try:
            saying: Saying = saying_of(self._connection.recv_bytes(MOST_BYTES))
        except (EOFError, OSError) as error:
            raise LineBroken(str(error) or "it is closed") from None
        except msgspec.DecodeError as error:
            raise LineBroken(f"not understood: {error}") from None
        return saying

    def listen(self) -> None:
        """Hand over what is said until the connection breaks; who waits for an answer is woken then."""
        try:
            with suppress(LineBroken):
                while True:
                    self._take(self.receive())
        finally:
            with self._answered:
                self._is_over = True
                self._answered.notify_all()

    def _take(self, saying: Saying) -> None:
        if not isinstance(saying, Answer):
            self._hear(saying)
            return
        with self._answered:
            # Who lost patience reads no answer any more.
            if saying.number in self._wanted:
                self._answers[saying.number] = saying
                self._answered.notify_all()

    def tell(self, request: Request) -> None:
        """Send a request whose answer nobody waits for.

        Raises:
            LineBroken: It cannot be sent.
        """
        self._send(Call(number=0, request=request))

    def ask(self, request: Request, kind: Any = None, *, timeout_s: float | None = None) -> Any:
        """Send a request, and return the answer, which is of a kind.

        Raises:
            LineBroken: There came none, in time or at all.
            FlashferryError: The depot refused it; the error is of the class that a file server of our own would raise.
        """
        number = next(self._numbers)
        with self._answered:
            self._wanted.add(number)
        try:
            self._send(Call(number=number, request=request))
            with self._answered:
                self._answered.wait_for(lambda: number in self._answers or self._is_over, timeout_s)
                given = self._answers.pop(number, None)
        finally:
            with self._answered:
                self._wanted.discard(number)
        if given is None:
            raise LineBroken(f"no answer to {type(request).__name__}")
        return _result(given, kind)

    def ask_alone(self, request: Request, kind: Any = None) -> Any:
        """Do the same while nobody listens; what is said meanwhile is handed over."""
        number = next(self._numbers)
        self._send(Call(number=number, request=request))
        while True:
            saying = self.receive()
            if isinstance(saying, Answer) and saying.number == number:
                return _result(saying, kind)
            self._take(saying)

    def _send(self, call: Call) -> None:
        data = encode(call)
        try:
            with self._sending:
                self._connection.send_bytes(data)
        except OSError as error:
            raise LineBroken(error.strerror or str(error)) from None

    def is_over(self, timeout_s: float) -> bool:
        """Tell whether it broke, or does so within a time."""
        with self._answered:
            return self._answered.wait_for(lambda: self._is_over, timeout_s)

    def close(self) -> None:
        """Close it, once nobody listens any more."""
        self._connection.close()

    @property
    def connection(self) -> Connection:
        """The connection."""
        return self._connection


def _result(given: Answer, kind: Any) -> Any:
    if given.error:
        raised = _ERRORS.get(given.kind)
        if raised is None:
            raise RequestRefused(f"depot: {given.kind}: {given.error}", hint=given.hint)
        raise raised(given.error, hint=given.hint)
    try:
        return result_of(given, kind)
    except msgspec.DecodeError as error:
        raise RequestRefused(f"depot: not understood: {error}") from error
