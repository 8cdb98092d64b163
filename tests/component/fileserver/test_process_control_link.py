"""The line from the serving process to its parent, where the parent reads late or not at all."""

import socket
from collections.abc import Iterator

import pytest

from flashferry.fileserver.process import ControlLink
from flashferry.fileserver.protocol import IOLoop
from flashferry.fileserver.transfer_records import EventKind, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.wire import (
    LENGTH_BYTES,
    EventMessage,
    Message,
    ProgressUpdate,
    ProgressUpdates,
    decode_message,
)

_TICKETS = [f"ticket {number}" for number in range(20)]


class Line:
    """Both ends of the line; the parent's is read by hand."""

    def __init__(self) -> None:
        self.parent, child = socket.socketpair()
        self.parent.setblocking(False)
        self.ioloop = IOLoop()
        self.link = ControlLink(child, self.ioloop, None)
        self._unread = b""

    def turn(self) -> None:
        """Let the child's loop do what is due."""
        self.ioloop.loop(0.001, blocking=False)

    def read(self) -> list[Message]:
        """Return what has arrived."""
        while True:
            try:
                self._unread += self.parent.recv(65536)
            except BlockingIOError:
                break
        messages = []
        while len(self._unread) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._unread[:LENGTH_BYTES], "big")
            if len(self._unread) < end:
                break
            messages.append(decode_message(self._unread[LENGTH_BYTES:end]))
            self._unread = self._unread[end:]
        return messages


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.link.close()
    made.parent.close()
    made.ioloop.close()


def _progress(ticket_id: str, acked: int, kind: EventKind = EventKind.PROGRESS) -> ServerEvent:
    progress = TransferProgress(
        ticket_id=ticket_id,
        state=TransferState.TRANSFERRING,
        sequence=acked,
        size_bytes=10**9,
        tries_left=1,
        bytes_acked=acked,
    )
    return ServerEvent(kind=kind, at=1e9, text="", progress=progress)


def _updates(messages: list[Message]) -> list[ProgressUpdate]:
    return [update for message in messages if isinstance(message, ProgressUpdates) for update in message.updates]


def test_a_parent_that_reads_late_gets_the_newest(line: Line) -> None:
    """Ten minutes of progress unread: what waits is a few seconds of it, and then comes the latest of each copy."""
    for second in range(1, 601):
        for ticket in _TICKETS:
            line.link.send_event(_progress(ticket, second))
        line.turn()
    old = _updates(line.read())
    assert len(old) < 60 * len(_TICKETS)
    for _ in range(300):
        line.turn()
    new = {pulse.now.ticket_id: pulse.now.bytes_acked for pulse in _updates(line.read())}
    assert new == dict.fromkeys(_TICKETS, 600)


def test_an_event_is_never_left_out_and_comes_behind_the_progress_before_it(line: Line) -> None:
    """However late it is read: a delivery is told once, and nothing that was older follows it."""
    for second in range(1, 301):
        for ticket in _TICKETS:
            line.link.send_event(_progress(ticket, second))
        line.link.send_event(_progress(_TICKETS[0], second, EventKind.STALLED))
        line.turn()
    messages: list[Message] = []
    for _ in range(300):
        messages += line.read()
        line.turn()
    assert sum(isinstance(message, EventMessage) for message in messages) == 300
    counts = [pulse.now.bytes_acked for pulse in _updates(messages) if pulse.now.ticket_id == _TICKETS[0]]
    assert counts == sorted(counts)
    assert counts[-1] == 300
