"""Byte streams of an HTTP connection: clear text or TLS.

Facts
-----

- Python's `SSLSocket` writes record by record, 16 KiB per call. With memory BIOs a whole piece is encrypted and then
  written in one call, and the number of bytes sent besides the image is known exactly.
- TLS adds 22 bytes to a record with version 1.3, 29 with 1.2 and AES-GCM. The part of the acknowledged bytes that is
  image is a lower bound: all bytes added so far are counted as acknowledged.
- A client that has read the announced length closes its end. If TLS' close_notify is unread there, closing sends a
  reset, which may lose the acknowledgement of the last bytes. So close_notify is sent when all bytes are acknowledged.
- A client that does not trust our certificate ends the handshake with an alert that says so.
"""

import contextlib
import os
import socket
import ssl
from typing import Protocol

from flashferry.fileserver.image_stream import PlainWriter, Writer

TURN_BYTES = 256 * 1024
"""Most bytes sent in one turn of the event loop."""

PIECE_BYTES = 64 * 1024
"""Bytes encrypted at once, and so the most that a slow client's session buffers."""

_RECORD_BYTES = 16_384

_MOST_AT_ONCE = 16_384


class StreamLost(Exception):
    """The connection is unusable: the client closed it, or violated the protocol. The message may be empty."""


class Stream(Protocol):
    """A client's connection for the request and the head of the response."""

    def receive(self, most_bytes: int) -> bytes:
        """Return received bytes, at most `most_bytes`; empty if there are none yet.

        Raises:
            StreamLost: No more bytes will come.
        """

    def send(self, data: bytes, *, more: bool = False) -> bool:
        """Send bytes that fit into an empty send buffer; return whether all were taken. With `more`, data follows."""

    def writer(self, lead: bytes) -> Writer:
        """Return a writer for the image that follows a head `lead`, which was sent already."""

    def end(self) -> None:
        """Send the protocol's own end of data, if it has one."""

    @property
    def cipher(self) -> str:
        """Name of the cipher; empty in clear text."""


class PlainStream:
    """A connection in clear text."""

    __slots__ = ("_socket",)

    cipher = ""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def receive(self, most_bytes: int) -> bytes:
        """Return received bytes, see `Stream`."""
        return _received(self._socket, most_bytes)

    def send(self, data: bytes, *, more: bool = False) -> bool:
        """Hand bytes over, see `Stream`."""
        try:
            return self._socket.send(data, socket.MSG_MORE if more else 0) == len(data)
        except OSError:
            return False

    def writer(self, lead: bytes) -> Writer:
        """Return what sends an image, see `Stream`."""
        return PlainWriter(self._socket, len(lead))

    def end(self) -> None:
        """Do nothing: clear text has no end of data but that of the connection."""


class TlsStream:
    """A connection within TLS.

    Args:
        connection: The connection, non-blocking.
        context: Server context with our certificate.
    """

    __slots__ = ("_incoming", "_is_agreed", "_outgoing", "_pending", "_socket", "_tls", "handed_bytes")

    def __init__(self, connection: socket.socket, context: ssl.SSLContext) -> None:
        self._socket = connection
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._is_agreed = False
        self._pending = memoryview(b"")
        self.handed_bytes = 0

    @property
    def cipher(self) -> str:
        """Name of the cipher; empty before the handshake."""
        found = self._tls.cipher()
        return "" if found is None else found[0]

    def receive(self, most_bytes: int) -> bytes:
        """Continue the handshake, and return received bytes, see `Stream`."""
        self._incoming.write(_received(self._socket, _MOST_AT_ONCE))
        try:
            if not self._is_agreed:
                self._tls.do_handshake()
                self._is_agreed = True
            data = self._read(most_bytes)
        except ssl.SSLWantReadError:
            data = b""
        except ssl.SSLError as error:
            self._flush()
            raise StreamLost(_words_for(error)) from None
        if not self._flush():
            raise StreamLost
        return data

    def _read(self, most_bytes: int) -> bytes:
        """Return all decrypted bytes, for the loop does not report them again."""
        pieces: list[bytes] = []
        with contextlib.suppress(ssl.SSLWantReadError):
            while most_bytes > 0 and (piece := self._tls.read(most_bytes)):
                pieces.append(piece)
                most_bytes -= len(piece)
        return b"".join(pieces)

    def send(self, data: bytes, *, more: bool = False) -> bool:
        """Send bytes, see `Stream`; return False before the end of the handshake."""
        if not self._is_agreed:
            return False
        self.encrypt(data)
        return self._flush(socket.MSG_MORE if more else 0)

    def writer(self, lead: bytes) -> Writer:  # noqa: ARG002 - counted where it was handed over
        """Return what sends an image, see `Stream`."""
        return TlsWriter(self)

    def end(self) -> None:
        """Send close_notify; the client's is not awaited."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()

    # Called by the writer.

    def encrypt(self, data: bytes) -> int:
        """Encrypt bytes into the buffer that `hand_over` sends; return the encrypted size."""
        assert not self._pending, "what was encrypted before was handed over"
        # Record by record, for a memory BIO never releases memory.
        whole, records = memoryview(data), []
        for first in range(0, len(data), _RECORD_BYTES):
            self._tls.write(whole[first : first + _RECORD_BYTES])
            records.append(self._outgoing.read())
        self._pending = memoryview(b"".join(records))
        return len(self._pending)

    def hand_over(self) -> int:
        """Write buffered bytes to the socket; return how many the kernel took.

        Raises:
            OSError: It took none: the send buffer is full (BlockingIOError), or the connection is lost.
        """
        count = self._socket.send(self._pending)
        self._pending = self._pending[count:]
        self.handed_bytes += count
        return count

    @property
    def is_empty(self) -> bool:
        """Whether all encrypted bytes were written."""
        return not self._pending

    def _flush(self, flags: int = 0) -> bool:
        """Write all encrypted bytes; return whether the kernel took them, which fit into an empty send buffer."""
        if self._outgoing.pending:
            self._pending = memoryview(bytes(self._pending) + self._outgoing.read())
        try:
            count = self._socket.send(self._pending, flags) if self._pending else 0
        except OSError:
            return False
        self._pending = self._pending[count:]
        self.handed_bytes += count
        return not self._pending


class TlsWriter:
    """Reads an image in pieces, encrypts each and writes it to the socket."""

    may_half_close = False

    __slots__ = ("_lead_bytes", "_payload_bytes", "_piece", "_reported_bytes", "_stream")

    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream
        self._lead_bytes = stream.handed_bytes
        # Of the piece being written: payload bytes, encrypted bytes, and how many of these the kernel took.
        self._piece = (0, 0, 0)
        self._payload_bytes = 0
        self._reported_bytes = 0

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Send pieces, see `Writer`."""
        done = 0
        while done < min(most_bytes, TURN_BYTES):
            try:
                count = self._send_piece(file_descriptor, offset_bytes + done, most_bytes - done)
            except BlockingIOError:
                if done:
                    break
                raise
            if not count:
                break
            done += count
        return done

    def _send_piece(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        if self._stream.is_empty:
            data = os.pread(file_descriptor, min(most_bytes, PIECE_BYTES), offset_bytes)
            if not data:
                return 0
            self._piece = (len(data), self._stream.encrypt(data), 0)
        payload, encrypted, taken = self._piece
        count = self._stream.hand_over()
        self._piece = (payload, encrypted, taken + count)
        done = payload * (taken + count) // encrypted - payload * taken // encrypted
        if not done:
            raise BlockingIOError
        self._payload_bytes += done
        return done

    def payload_of(self, acked_bytes: int) -> int:
        """Return the least number of image bytes among the acknowledged ones; never decreases. See `Writer`."""
        added_bytes = self._stream.handed_bytes - self._lead_bytes - self._payload_bytes
        self._reported_bytes = max(self._reported_bytes, acked_bytes - self._lead_bytes - added_bytes)
        return self._reported_bytes


def _received(connection: socket.socket, most_bytes: int) -> bytes:
    try:
        data = connection.recv(most_bytes)
    except (BlockingIOError, InterruptedError):
        return b""
    except OSError as error:
        raise StreamLost from error
    if not data:
        raise StreamLost
    return data


def _words_for(error: ssl.SSLError) -> str:
    reason = (error.reason or "not understood").replace("_", " ").lower()
    if "unknown ca" in reason or "bad certificate" in reason or "certificate unknown" in reason:
        return f"TLS handshake: {reason}: the client does not trust our certificate"
    if "certificate expired" in reason:
        return f"TLS handshake: {reason}, by the client's clock"
    return f"TLS handshake: {reason}"
