"""Requests to other servers (OpenID provider, receivers of hooks, mail), limited in time and bytes.

A read timeout does not limit a request, because each received byte restarts it. So each request has one deadline, after
which its connections are shut down, and a byte limit; bodies are not decompressed. Routes wait in a few threads of
their own, so that the common pool stays free.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

from msgspec import Struct

from flashferry.core.redaction import sanitize
from flashferry.service.errors import ServiceError, Unavailable

if TYPE_CHECKING:
    # Late: httpx is slow to import, and not every service sends requests.
    import httpx

T = TypeVar("T")
MOST_THREADS = 8
"""Threads of one kind."""
MOST_WAITING = 100
"""Requests of one kind that wait for a thread."""
MOST_OF_A_SHARE = 4
"""Threads of one kind for one address."""
MOST_WAITING_OF_A_SHARE = 50
WAIT_S = 45.0
"""Longest that a route waits."""


class NoAnswer(Exception):
    """A request had no usable answer."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Deadline:
    """Context manager that shuts its connections down `most_s` seconds after entry. Thread-safe."""

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []
        self._is_over = False
        self._timer = threading.Timer(most_s, self._end)
        self._timer.daemon = True

    @property
    def is_over(self) -> bool:
        """Return whether the time ran out before the block ended."""
        return self._is_over

    def watch(self, connection: socket.socket) -> None:
        """Shut a connection down at the deadline, or at once if that has passed."""
        # Duplicate the descriptor: TLS moves the connection to another socket, and a closed number is reused.
        own = connection.dup()
        with self._lock:
            self._watched.append(own)
            if self._is_over:
                _shut_down(own)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            for own in self._watched:
                own.close()
            self._watched.clear()

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for own in self._watched:
                _shut_down(own)


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class HttpAnswer(Struct, frozen=True, kw_only=True):
    """Answer of an HTTP server.

    Attributes:
        body: Not decompressed; empty unless the status is a success or its first bytes were asked for.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpRequest(Struct, frozen=True, kw_only=True):
    """An HTTP request. Its body is `content`, or `form` in its place; None for both: no body."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None = None
    form: Mapping[str, str] | None = None


def ask(
    client: httpx.Client, request: HttpRequest, *, most_s: float, most_bytes: int, first_bytes: int = 0
) -> HttpAnswer:
    """Send a request and return its answer; the client is closed.

    Args:
        client: Sends it.
        request: The request.
        most_s: Limit for all of it, seconds.
        most_bytes: Limit of a body; 0: none is read.
        first_bytes: Read so much of a body instead, of any status; what breaks meanwhile is no error.

    Raises:
        NoAnswer: No answer in time, a longer or compressed one, or the address is not valid.
    """
    # Late: httpx is slow to import.
    import httpx

    headers = {"Accept-Encoding": "identity", **request.headers}
    with Deadline(most_s) as deadline:

        def trace(event: str, facts: Mapping[str, object]) -> None:
            # httpcore's "trace" extension reports the stream of each new connection.
            if event.endswith(".connect_tcp.complete"):
                stream = facts["return_value"]
                deadline.watch(stream.get_extra_info("socket"))  # type: ignore[attr-defined]

        try:
            with (
                client,
                client.stream(
                    request.method,
                    request.url,
                    content=request.content,
                    data=request.form,
                    headers=headers,
                    extensions={"trace": trace},
                ) as answer,
            ):
                if first_bytes:
                    body = _read_first(answer, first_bytes, httpx.HTTPError)
                else:
                    body = _read(answer, most_bytes) if most_bytes and answer.is_success else b""
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            if deadline.is_over:
                raise NoAnswer(f"no answer within {most_s:g} s") from None
            raise NoAnswer(f"no answer: {sanitize(str(error)) or type(error).__name__}") from None
        if deadline.is_over and not first_bytes:
            # A body without a length ends with its connection, so what was cut off looks whole.
            raise NoAnswer(f"no answer within {most_s:g} s")
    return HttpAnswer(status=answer.status_code, headers=answer.headers, body=body)


def _read(answer: httpx.Response, most_bytes: int) -> bytes:
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise NoAnswer("expected an answer that is not compressed, found a compressed one")
    read = bytearray()
    for part in answer.iter_raw():
        read += part
        if len(read) > most_bytes:
            raise NoAnswer(f"expected an answer of at most {most_bytes:,} bytes, found a longer one")
    return bytes(read)


def _read_first(answer: httpx.Response, most_bytes: int, broken: type[Exception]) -> bytes:
    read = bytearray()
    if answer.headers.get("content-encoding", "identity") == "identity":
        with suppress(broken, OSError):
            for part in answer.iter_raw():
                read += part
                if len(read) >= most_bytes:
                    break
    return bytes(read[:most_bytes])


def json_object(body: bytes) -> dict[str, object]:
    """Parse a body as a JSON object. Raises `NoAnswer` for another body."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoAnswer("expected a JSON object, found something else")
    return found


class _Waiting(Struct, frozen=True, kw_only=True):
    """Work that waits for a thread, its result, and the share that its limits are counted by."""

    done: Future[object]
    work: Callable[[], object]
    share: str


class OwnThreads:
    """Small thread pools, one per kind, for requests to other servers that routes wait for. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: Counter[str] = Counter()
        self._running: Counter[tuple[str, str]] = Counter()
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._once: dict[str, asyncio.Task[object]] = {}

    async def run(self, kind: str, work: Callable[[], T], *, share: str = "") -> T:
        """Run some work in a thread of its kind and return the result.

        Limits are counted by `share`, such as a client address; no share can take all threads or all queue places.

        Raises:
            Unavailable: Too much work of that kind or share waits, or it took too long.
        """
        done: Future[object] = Future()
        with self._lock:
            waiting = self._waiting.setdefault(kind, deque())
            of_share = sum(one.share == share for one in waiting) if share else 0
            if len(waiting) >= MOST_WAITING or of_share >= MOST_WAITING_OF_A_SHARE:
                raise _busy(kind)
            waiting.append(_Waiting(done=done, work=work, share=share))
            if is_new := self._threads[kind] < MOST_THREADS:
                self._threads[kind] += 1
        if is_new:
            # Daemon threads: a server that hangs must not delay the end of the process.
            threading.Thread(target=self._serve, args=(kind,), name=f"outbound {kind}", daemon=True).start()
        result = asyncio.wrap_future(done)
        try:
            await asyncio.wait((result,), timeout=WAIT_S)
        finally:
            # Work that no route waits for any more is not started; finished and running work is not changed.
            done.cancel()
        if not result.done():
            raise _busy(kind)
        return result.result()  # type: ignore[return-value]

    async def once(self, kind: str, work: Callable[[], T]) -> T:
        """As `run`, but concurrent callers of a kind share one call and its result."""
        task = self._once.get(kind)
        if task is None:
            task = self._once[kind] = asyncio.ensure_future(self.run(kind, work))
            task.add_done_callback(lambda ended: self._ended(kind, ended))
        # Shielded: a client that disconnects must not cancel work that others wait for.
        return cast("T", await asyncio.shield(task))

    def _ended(self, kind: str, task: asyncio.Task[object]) -> None:
        del self._once[kind]
        if not task.cancelled():
            task.exception()  # retrieve the error if no client waits any more, or asyncio logs it

    def _serve(self, kind: str) -> None:
        while True:
            with self._lock:
                one = self._next(kind)
                if one is None:
                    self._threads[kind] -= 1
                    return
                self._running[kind, one.share] += 1
            try:
                if one.done.set_running_or_notify_cancel():
                    one.done.set_result(one.work())
            except BaseException as error:  # noqa: BLE001 -- raised where it is waited for
                one.done.set_exception(error)
            finally:
                with self._lock:
                    self._running[kind, one.share] -= 1
                    if not self._running[kind, one.share]:
                        del self._running[kind, one.share]

    def _next(self, kind: str) -> _Waiting | None:
        """Return the first work whose share has a free thread, or None."""
        waiting = self._waiting[kind]
        for place, one in enumerate(waiting):
            if not one.share or self._running[kind, one.share] < MOST_OF_A_SHARE:
                del waiting[place]
                return one
        return None


def _busy(kind: str) -> ServiceError:
    return Unavailable(
        f"{kind}: the other side does not answer, or too many wait for it",
        hint="Try again in a minute; if that repeats, check the network path to the other side",
        retry_after_s=60,
    )
