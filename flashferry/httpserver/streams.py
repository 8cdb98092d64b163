"""How bytes come and go on a connection before the image does: in clear, or within TLS.

Facts
-----

- Python's `SSLSocket` writes record by record, 16 KiB a call. With memory BIOs a whole piece is encrypted, then handed
  over in one call; and it is known to the byte how much went over the connection beside the image.
- TLS adds 22 bytes to a record with version 1.3, 29 with 1.2 and AES-GCM. How much of what was acknowledged is image is
  counted from below: as if all that was added so far were among it.
- A client that has read as much as was announced closes its end. If TLS' own end of the data lies unread there, that is
  a reset, and takes the acknowledgement of the last bytes with it. So it is sent when all was acknowledged.
- A certificate that the client does not trust ends the handshake with an alert of the client's, which says so.
"""

import contextlib
import os
import socket
import ssl
from typing import Protocol

from flashferry.fileserver.image_stream import PlainWriter, Writer

TURN_BYTES = 256 * 1024
"""What is sent in one turn of the event loop."""

PIECE_BYTES = 64 * 1024
"""What is encrypted at once, and may wait for room: a slow client's session holds so much."""

_RECORD_BYTES = 16_384

_MOST_AT_ONCE = 16_384


class StreamLost(Exception):
    """The connection is of no more use: the client left, or does not speak as it should; says why, or nothing."""


class Stream(Protocol):
    """A client's connection, as its request and the head of our answer go over it."""

    def receive(self, most_bytes: int) -> bytes:
        """Return what has come, at most so much; empty where nothing has.

        Raises:
            StreamLost: Nothing more will come.
        """

    def send(self, data: bytes, *, more: bool = False) -> bool:
        """Hand over bytes that fit into an empty connection; return whether they did. `more` is to follow at once."""

    def writer(self, lead: bytes) -> Writer:
        """Return what sends an image behind a lead that was handed over."""

    def end(self) -> None:
        """Signal that nothing follows, if that takes more than the end of the connection."""

    @property
    def cipher(self) -> str:
        """The cipher in force; empty in clear text."""


class PlainStream:
    """A connection in clear text."""

    __slots__ = ("_socket",)

    cipher = ""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def receive(self, most_bytes: int) -> bytes:
        """Return what has come, see `Stream`."""
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
        """Do nothing: the end of the connection shows it."""


class TlsStream:
    """A connection within TLS.

    Args:
        connection: The connection, not blocking.
        context: Of our side, with the certificate.
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
        """The cipher in force."""
        found = self._tls.cipher()
        return "" if found is None else found[0]

    def receive(self, most_bytes: int) -> bytes:
        """Return what has come, see `Stream`; the handshake goes on by it."""
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
        """Return all that was decrypted, for the loop does not report it again."""
        pieces: list[bytes] = []
        with contextlib.suppress(ssl.SSLWantReadError):
            while most_bytes > 0 and (piece := self._tls.read(most_bytes)):
                pieces.append(piece)
                most_bytes -= len(piece)
        return b"".join(pieces)

    def send(self, data: bytes, *, more: bool = False) -> bool:
        """Hand bytes over, see `Stream`; before the handshake nothing can be."""
        if not self._is_agreed:
            return False
        self.encrypt(data)
        return self._flush(socket.MSG_MORE if more else 0)

    def writer(self, lead: bytes) -> Writer:  # noqa: ARG002 - counted where it was handed over
        """Return what sends an image, see `Stream`."""
        return TlsWriter(self)

    def end(self) -> None:
        """Signal that nothing follows, see `Stream`; the client's own signal is not awaited."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()

    # What the writer asks.

    def encrypt(self, data: bytes) -> int:
        """Encrypt bytes, to be handed over by `hand_over`; return how many they became."""
        assert not self._pending, "what was encrypted before was handed over"
        # Record by record, for a memory BIO keeps the room that it once needed.
        whole, records = memoryview(data), []
        for first in range(0, len(data), _RECORD_BYTES):
            self._tls.write(whole[first : first + _RECORD_BYTES])
            records.append(self._outgoing.read())
        self._pending = memoryview(b"".join(records))
        return len(self._pending)

    def hand_over(self) -> int:
        """Hand the kernel what it takes; return how many bytes it took.

        Raises:
            OSError: It took none: there is no room (BlockingIOError), or the connection is gone.
        """
        count = self._socket.send(self._pending)
        self._pending = self._pending[count:]
        self.handed_bytes += count
        return count

    @property
    def is_empty(self) -> bool:
        """Whether everything was handed over."""
        return not self._pending

    def _flush(self, flags: int = 0) -> bool:
        """Hand over what there is; return whether all of it was taken: it is less than a connection takes at once."""
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
    """Reads an image in pieces, encrypts each and hands it over."""

    may_half_close = False

    __slots__ = ("_lead_bytes", "_payload_bytes", "_piece", "_reported_bytes", "_stream")

    def __init__(self, stream: TlsStream) -> None:
        self._stream = stream
        self._lead_bytes = stream.handed_bytes
        # Of the piece that is being handed over: payload, bytes of it as encrypted, how many of these were taken.
        self._piece = (0, 0, 0)
        self._payload_bytes = 0
        self._reported_bytes = 0

    def send(self, file_descriptor: int, offset_bytes: int, most_bytes: int) -> int:
        """Hand over pieces, see `Writer`."""
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
        """Return the least that can be image among what was acknowledged, never less than before; see `Writer`."""
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
