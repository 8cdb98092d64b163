"""asyncio's loop with the interface of pyftpdlib's: sockets, timers, and how it is left."""

import contextlib
import itertools
import socket
from collections.abc import Iterator

import pytest

from flashferry.fileserver.protocol import AsyncChat, AsyncioLoop


class Chat(AsyncChat):
    """One end of a socket pair: keeps what comes, and stops the loop when the other end is closed."""

    def __init__(self, connection: socket.socket, loop: AsyncioLoop) -> None:
        super().__init__(connection, ioloop=loop)
        self.set_terminator(None)
        self.got = b""

    def collect_incoming_data(self, data: bytes) -> None:
        self.got += data

    def handle_close(self) -> None:
        self.close()
        self.ioloop.stop()


@pytest.fixture
def loop() -> Iterator[AsyncioLoop]:
    made = AsyncioLoop()
    yield made
    made.asyncio.close()


def test_a_stop_while_leaving_is_no_error(loop: AsyncioLoop) -> None:
    """What is still due when the loop is left, such as the parent's closed channel, neither fails nor ends it early."""
    calls: list[str] = []
    loop.stop()
    loop.run()
    # A clock that goes by its readings: however long this process stands still, none of the time to leave is lost.
    readings = itertools.count()
    loop.asyncio.time = lambda: next(readings) / 200  # type: ignore[method-assign]
    loop.call_later(0.01, loop.stop)
    loop.call_later(0.05, calls.append, "late")
    loop.leave()
    assert calls == ["late"]


def test_a_socket_is_read_written_and_closed(loop: AsyncioLoop) -> None:
    """More than the kernel takes at once goes out in pieces, in order; the end of the peer ends the dispatcher."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    chat, sent, got = Chat(ours, loop), b"x" * 1_000_000 + b"end", bytearray()

    def read() -> None:
        with contextlib.suppress(BlockingIOError):
            got.extend(theirs.recv(65_536))
        if len(got) == len(sent):
            loop.asyncio.remove_reader(theirs.fileno())
            theirs.sendall(b"thanks")
            theirs.close()

    loop.asyncio.add_reader(theirs.fileno(), read)
    chat.push(sent)
    loop.run()
    assert (bytes(got), chat.got) == (sent, b"thanks")
    assert loop.socket_map == {}


def test_an_exception_goes_to_the_errback_and_ends_no_loop(loop: AsyncioLoop) -> None:
    """A timer with one calls it; a repeated call that raises is not repeated."""
    calls: list[str] = []

    def fail() -> None:
        calls.append("called")
        raise ValueError

    loop.asyncio.set_exception_handler(lambda _loop, _context: calls.append("reported"))
    loop.call_later(0.0, fail, _errback=lambda: calls.append("errback"))
    loop.call_every(0.001, fail)
    loop.call_later(0.1, loop.stop)
    loop.run()
    assert calls == ["called", "errback", "called", "reported"]
