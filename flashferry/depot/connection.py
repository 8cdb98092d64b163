"""A run's connection to the depot, which may break: the depot is killed or restarted. Then it is waited for.

Facts
-----

- A unit with `Restart=always` has its process back within a second (`RestartSec=` is 100 ms by default,
  systemd.service(5)), and then it takes as long as it takes to import and to listen.
- While the depot is away no slot is granted, so that no device is tuned for a copy that cannot start.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flashferry.core.errors import FlashferryError
from flashferry.depot.handshake import connect
from flashferry.depot.messages import network
from flashferry.depot.paths import NobodyThere, NotForUs
from flashferry.fileserver import ServerGone
from flashferry.fileserver.rpc_channel import ConnectionBroken, RpcChannel
from flashferry.fileserver.wire import Welcome

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.depot.client import DepotClient
    from flashferry.fileserver.wire import Request

RETURN_S = 60.0
"""Seconds to wait for a depot that has ended; then the run goes on as after its own server died for good."""

ANSWER_S = 30.0
"""Seconds to wait for an answer that takes no hashing of images."""

_RETRY_EVERY_S = 0.25
_NOTICED_S = 1.0
"""A thread that cannot send notices a broken connection a little earlier than the thread that reads."""

_HINT = "Start the depot again ('systemctl status flashferry-depot' shows what ended it); then resume the run"


class DepotConnection:
    """A connection to the depot that is made again where it breaks. Methods may be called from any thread.

    Args:
        path: The depot's socket.
        purpose: What the client does, in a word.
        client: Handles messages, and introduces the run to a depot that knows nothing of it.
        return_s: Seconds to wait for a depot that has ended.

    Raises:
        NobodyThere: No depot is running.
        NotForUs: It is another user's, or in another network.
        ConfigInvalid: It is of another release, or none.
    """

    def __init__(self, path: Path, purpose: str, client: DepotClient, *, return_s: float = RETURN_S) -> None:
        self.path, self._purpose, self._client = path, purpose, client
        self._return_s = return_s
        self._lock = threading.Condition()
        self._gone = ""
        self._is_closing = self._is_open = False
        channel, self.welcome = self._connect()
        self._channel: RpcChannel | None = channel
        self._thread = threading.Thread(target=self._run, args=(channel,), name="depot-connection", daemon=True)

    def open(self) -> None:
        """Introduce the run, and let all threads use the connection.

        Raises:
            ServerGone: The connection broke already.
            FlashferryError: The depot refused something.
        """
        assert self._channel is not None
        try:
            self._client.introduce(self._channel, self.welcome)
        except ConnectionBroken as error:
            raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None
        self._is_open = True
        self._thread.start()

    @property
    def gone(self) -> str:
        """Why the depot is gone for good; empty while it runs, or may come back."""
        return self._gone

    def check(self) -> None:
        """Raise `ServerGone` where the depot is gone for good."""
        if self._gone:
            raise ServerGone(self._gone, hint=_HINT)

    def ask(self, request: Request, kind: Any = None, *, timeout_s: float | None = ANSWER_S) -> Any:
        """Send a request, waiting for a depot that is away; it must be safe to send twice.

        Raises:
            ServerGone: The depot did not come back, or gives no answer.
            FlashferryError: It refuses.
        """
        while True:
            channel = self._current()
            try:
                return channel.ask(request, kind, timeout_s=timeout_s)
            except ConnectionBroken as error:
                if not channel.is_over(_NOTICED_S):
                    raise ServerGone(f"depot {self.path}: {error}", hint=_HINT) from None

    def post(self, request: Request) -> None:
        """Send a request without waiting for an answer; dropped while the depot is away."""
        with self._lock:
            if self._channel is not None and self._is_open:
                with suppress(ConnectionBroken):
                    self._channel.post(request)

    def close(self) -> None:
        """Leave the depot. Idempotent."""
        with self._lock:
            self._is_closing = True
            self._gone = self._gone or f"depot {self.path}: this run has left it"
            channel = self._channel
            self._lock.notify_all()
        if channel is not None:
            with suppress(OSError), socket.socket(fileno=os.dup(channel.connection.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
        if self._is_open and threading.current_thread() is not self._thread:
            self._thread.join()
        elif channel is not None and not self._is_open:
            channel.close()

    def _connect(self) -> tuple[RpcChannel, Welcome]:
        channel = RpcChannel(connect(self.path, self._purpose), self._client.on_message)
        try:
            welcome = channel.receive()
            if not isinstance(welcome, Welcome):
                raise ConnectionBroken(f"expected a welcome, found {type(welcome).__name__}")
            if welcome.network != network():
                raise NotForUs(f"depot {self.path}: it is in another network than this command, and so are its ports")
        except ConnectionBroken as error:
            channel.close()
            raise NobodyThere(f"depot {self.path}: {error}") from None
        except NotForUs:
            channel.close()
            raise
        return channel, welcome

    def _current(self) -> RpcChannel:
        """Return the channel, once there is one."""
        with self._lock:
            self._lock.wait_for(lambda: self._channel is not None or self._gone)
            if self._gone or self._channel is None:
                raise ServerGone(self._gone, hint=_HINT)
            return self._channel

    def _run(self, channel: RpcChannel | None) -> None:
        while channel is not None:
            with suppress(ConnectionBroken):
                channel.listen()
            with self._lock:
                self._channel = None
                is_closing = self._is_closing
            channel.close()
            self._client.on_lost(f"depot {self.path}: the connection to it broke")
            channel = None if is_closing else self._connect_again()
        self._client.on_given_up()

    def _connect_again(self) -> RpcChannel | None:
        """Return a channel to a depot that came back and knows this run; None where it does not come back."""
        until_s = time.monotonic() + self._return_s
        why = f"depot {self.path}: it has ended, and did not come back within {self._return_s:.0f} s"
        while time.monotonic() < until_s and not self._is_closing:
            try:
                return self._connect_once()
            except (NobodyThere, ConnectionBroken, ServerGone):
                time.sleep(_RETRY_EVERY_S)
            except (NotForUs, FlashferryError) as error:
                why = f"it came back as another one: {getattr(error, 'message', error)}"
                break
        with self._lock:
            self._gone = self._gone or why
            self._lock.notify_all()
        return None

    def _connect_once(self) -> RpcChannel:
        channel, self.welcome = self._connect()
        try:
            self._client.introduce(channel, self.welcome)
            with self._lock:
                for request in self._client.slot_requests():
                    channel.post(request)
                self._channel = channel
                self._lock.notify_all()
        except BaseException:
            channel.close()
            raise
        return channel
