"""A run's line to the depot, which may break: the depot is killed, or started anew. Then it is waited for, for a while.

Facts
-----

- A unit with `Restart=always` has its process back within a second (`RestartSec=` is 100 ms by default,
  systemd.service(5)), and then it takes what it takes to import and to listen.
- While the depot is away no slot is granted, so that no device is tuned for a copy that cannot begin.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.core.errors import FlashferryError
from flashferry.depot.handshake import knock
from flashferry.depot.messages import Welcome, network
from flashferry.depot.paths import NobodyThere, NotForUs
from flashferry.depot.rpc_channel import LineBroken, RpcChannel
from flashferry.fileserver import ServerGone

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.depot.messages import Request, Saying

RETURN_S = 60.0
"""A depot that has gone is waited for so long; then the run goes on as where its own server has died for good."""

ANSWER_S = 30.0
"""So long an answer is waited for that takes no reading of images."""

_KNOCK_EVERY_S = 0.25
_NOTICED_S = 1.0
"""One who could not send knows a little earlier that a line broke than the one who listens."""

_HINT = "Start the depot again ('systemctl status flashferry-depot' tells what ended it); then resume the run"


class Listener(Protocol):
    """Who uses the line."""

    def hear(self, saying: Saying) -> None:
        """Take what the depot says."""

    def lost(self, reason: str) -> None:
        """Note that the line broke: all tickets are void."""

    def begin(self, talk: RpcChannel, welcome: Welcome) -> None:
        """Send a depot that knows nothing of us what it has to know, by `RpcChannel.ask_alone`; raises as that does."""

    def repeat(self) -> tuple[Request, ...]:
        """Return what is to be told right before the line is everybody's again."""

    def given_up(self) -> None:
        """Note that the depot will not come back."""


class Link:
    """A line to the depot. Methods may be called from any thread.

    Args:
        path: The depot's socket.
        purpose: What for, in a word.
        listener: Who uses it.
        return_s: How long a depot that has gone is waited for.

    Raises:
        NobodyThere: No depot is there.
        NotForUs: It is another user's, or in another network.
        ConfigInvalid: It is of another release, or none.
    """

    def __init__(self, path: Path, purpose: str, listener: Listener, *, return_s: float = RETURN_S) -> None:
        self.path, self._purpose, self._listener = path, purpose, listener
        self._return_s = return_s
        self._lock = threading.Condition()
        self._gone = ""
        self._is_closing = False
        self._is_begun = False
        talk, self.welcome = self._met()
        self._talk: RpcChannel | None = talk
        self._thread = threading.Thread(target=self._live, args=(talk,), name="depot-line", daemon=True)

    def open(self) -> None:
        """Let everybody use it; `Listener.begin` is called before that.

        Raises:
            ServerGone: The line broke already.
            FlashferryError: The depot refused what it was told.
        """
        assert self._talk is not None
        try:
            self._listener.begin(self._talk, self.welcome)
        except LineBroken as error:
            raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None
        self._is_begun = True
        self._thread.start()

    @property
    def gone(self) -> str:
        """Why it is gone for good; empty while it is there, or may come back."""
        return self._gone

    def check(self) -> None:
        """Raise `ServerGone` where the depot is gone for good."""
        if self._gone:
            raise ServerGone(self._gone, hint=_HINT)

    def ask(self, request: Request, kind: Any = None, *, timeout_s: float | None = ANSWER_S) -> Any:
        """Ask the depot, once it is back where it has gone; what is asked must bear being asked twice.

        Raises:
            ServerGone: It did not come back, or gives no answer.
            FlashferryError: It refuses.
        """
        while True:
            talk = self._standing()
            try:
                return talk.ask(request, kind, timeout_s=timeout_s)
            except LineBroken as error:
                if not talk.is_over(_NOTICED_S):
                    raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None

    def tell(self, request: Request) -> None:
        """Tell the depot something, unless it is away: then it is told all that holds when it is back."""
        with self._lock:
            talk = self._talk
            if talk is not None and self._is_begun:
                with suppress(LineBroken):
                    talk.tell(request)

    def close(self) -> None:
        """Part from the depot. Twice is harmless."""
        with self._lock:
            self._is_closing = True
            self._gone = self._gone or f"depot {self.path}: this run has parted from it"
            talk = self._talk
            self._lock.notify_all()
        if talk is not None:
            _hang_up(talk)
        if self._is_begun and threading.current_thread() is not self._thread:
            self._thread.join()
        elif talk is not None and not self._is_begun:
            talk.close()

    def _met(self) -> tuple[RpcChannel, Welcome]:
        talk = RpcChannel(knock(self.path, self._purpose), self._listener.hear)
        try:
            welcome = talk.receive()
            if not isinstance(welcome, Welcome):
                raise LineBroken(f"expected a welcome, found {type(welcome).__name__}")
            if welcome.network != network():
                raise NotForUs(f"depot {self.path}: it is in another network than this command, and so are its ports")
        except LineBroken as error:
            talk.close()
            raise NobodyThere(f"depot {self.path}: {error}") from None
        except NotForUs:
            talk.close()
            raise
        return talk, welcome

    def _standing(self) -> RpcChannel:
        """Return the line, once there is one."""
        with self._lock:
            # Who waits ends with the line's own end: that comes within its time.
            self._lock.wait_for(lambda: self._talk is not None or self._gone)
            if self._gone or self._talk is None:
                raise ServerGone(self._gone, hint=_HINT)
            return self._talk

    def _live(self, talk: RpcChannel | None) -> None:
        while talk is not None:
            talk.listen()
            with self._lock:
                self._talk = None
                is_closing = self._is_closing
            talk.close()
            self._listener.lost(f"depot {self.path}: the line to it broke")
            talk = None if is_closing else self._come_back()
        self._listener.given_up()

    def _come_back(self) -> RpcChannel | None:
        """Return a new line to a depot that was told all it has to know; None where it does not come back."""
        until_s = time.monotonic() + self._return_s
        why = f"depot {self.path}: it has gone, and did not come back within {self._return_s:.0f} s"
        while time.monotonic() < until_s and not self._is_closing:
            try:
                return self._begun_again()
            except (NobodyThere, LineBroken, ServerGone):
                time.sleep(_KNOCK_EVERY_S)
            except NotForUs as error:
                why = f"it came back as another one: {error}"
                break
            except FlashferryError as error:
                why = f"it came back as another one: {error.message}"
                break
        with self._lock:
            self._gone = self._gone or why
            self._lock.notify_all()
        return None

    def _begun_again(self) -> RpcChannel:
        talk, self.welcome = self._met()
        try:
            self._listener.begin(talk, self.welcome)
            with self._lock:
                for request in self._listener.repeat():
                    talk.tell(request)
                self._talk = talk
                self._lock.notify_all()
        except BaseException:
            talk.close()
            raise
        return talk


def _hang_up(talk: RpcChannel) -> None:
    with suppress(OSError), socket.socket(fileno=os.dup(talk.connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)
