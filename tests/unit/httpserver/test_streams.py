"""TLS through memory BIOs: what is counted as image, and what waits for room."""

import contextlib
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from flashferry.httpserver.certificate import server_context
from flashferry.httpserver.streams import PIECE_BYTES, PlainStream, StreamLost, TlsStream, TlsWriter

Pair = Callable[..., tuple[Path, Path]]


@dataclass
class Ends:
    """A connection within TLS: our end, and the client's."""

    stream: TlsStream
    ours: socket.socket
    client: ssl.SSLSocket


@pytest.fixture
def ends(pair: Pair, tmp_path: Path) -> Iterator[Ends]:
    context = server_context(*pair(tmp_path))
    theirs, ours = socket.socketpair()
    for one in (theirs, ours):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
    ours.setblocking(False)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    stream = TlsStream(ours, context)
    found: list[ssl.SSLSocket] = []
    shaking = threading.Thread(target=lambda: found.append(trusting.wrap_socket(theirs)))
    shaking.start()
    while not found:
        stream.receive(100)
    shaking.join()
    stream.receive(100)
    yield Ends(stream=stream, ours=ours, client=found[0])
    found[0].close()
    ours.close()


def test_a_whole_file_goes_over_and_no_byte_is_counted_twice(ends: Ends, tmp_path: Path) -> None:
    """Piece by piece, as the client takes it: what is told adds up to the file, and is never more than came."""
    content = os.urandom(3 * PIECE_BYTES + 777)
    path = tmp_path / "image"
    path.write_bytes(content)
    assert ends.stream.send(b"head")
    writer = ends.stream.writer(b"head")
    assert isinstance(writer, TlsWriter)
    lead, told, came, size = ends.stream.handed_bytes, 0, b"", len(content) + 4
    ends.client.setblocking(False)
    with path.open("rb") as file:
        while len(came) < size:
            if told < len(content):
                with contextlib.suppress(BlockingIOError):
                    count = writer.send(file.fileno(), told, len(content) - told)
                    assert count > 0
                    told += count
            with contextlib.suppress(ssl.SSLWantReadError):
                came += ends.client.recv(100_000)
            # As if all that the kernel took were acknowledged: no more of it is image than was told.
            assert writer.payload_of(ends.stream.handed_bytes) <= told
    assert (told, came) == (len(content), b"head" + content)
    assert writer.payload_of(ends.stream.handed_bytes) == len(content)
    assert writer.payload_of(lead) == len(content), "what was acknowledged is never taken back"


def test_what_is_acknowledged_is_counted_from_below(ends: Ends, tmp_path: Path) -> None:
    """The lead is none of it, and what TLS adds counts as if it had come first."""
    path = tmp_path / "image"
    path.write_bytes(bytes(3000))
    ends.stream.send(b"head")
    writer = ends.stream.writer(b"head")
    lead = ends.stream.handed_bytes
    with path.open("rb") as file:
        assert writer.send(file.fileno(), 0, 3000) == 3000
        assert writer.send(file.fileno(), 3000, 10) == 0, "the file has no more"
    added = ends.stream.handed_bytes - lead - 3000
    assert 0 < added < 100
    assert [writer.payload_of(acked) for acked in (lead + added, lead + added + 1000)] == [0, 1000]
    assert writer.payload_of(ends.stream.handed_bytes) == 3000


def test_the_end_is_told_as_such(ends: Ends) -> None:
    """The client reads an end of the data, not a cut."""
    ends.stream.end()
    assert ends.client.recv(10) == b""


def test_a_stream_that_is_lost_says_so(ends: Ends) -> None:
    """The client's end is no request, in TLS as in clear."""
    ends.client.close()
    with pytest.raises(StreamLost):
        ends.stream.receive(10)
    with pytest.raises(StreamLost):
        PlainStream(ends.ours).receive(10)


def test_what_is_no_tls_is_lost_with_a_reason(pair: Pair, tmp_path: Path) -> None:
    """Told for our books; nothing is answered in clear."""
    theirs, ours = socket.socketpair()
    ours.setblocking(False)
    with theirs, ours:
        stream = TlsStream(ours, server_context(*pair(tmp_path)))
        assert stream.receive(10) == b""
        assert not stream.send(b"x"), "before the handshake"
        theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(StreamLost, match="TLS handshake"):
            stream.receive(10)
        theirs.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            assert b"HTTP" not in theirs.recv(100)
