"""TLS 1.2 over a connection of the device: `ssl` does the cryptography, the connection stays the device's own.

Facts
-----

- The bytes go through memory, so that the socket keeps its receive window, its place in `show tcp` and its reader: a
  device whose processor decrypts slowly is one whose reader takes data slowly, and the window closes by itself.
- In TLS 1.2 the server's certificates cross in clear (RFC 5246 7.4.2). Their dates are held against the device's clock
  before OpenSSL sees them, and what does not hold is answered as RFC 5246 7.2.2 has it, with the alert
  ``certificate_expired``. OpenSSL would take the host's clock.
- Which versions and ciphers an IOS client offers, and whether it compares names, is not known; here TLS 1.2, the
  ciphers of OpenSSL, and the name or address of the URL.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import time
from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from flashferry.lab.standin import clock, device_tcp
from flashferry.lab.standin.flash import Pace
from flashferry.lab.standin.ftp_client import (
    CHUNK_BYTES,
    END,
    AbortedError,
    Answer,
    Pull,
    PullHooks,
    Push,
    WordedTransfer,
    read_head,
    request_head,
)
from flashferry.lab.standin.server_url import PullResult
from flashferry.lab.standin.trustpoints import validity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import BinaryIO

    from flashferry.lab.standin.flash import Pace

_RAW_BYTES = 16384
_IGNORE_THE_HOSTS_CLOCK = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, openssl/x509_vfy.h
_WRONG_NAME = (62, 64)  # X509_V_ERR_HOSTNAME_MISMATCH and ..._IP_ADDRESS_MISMATCH, openssl/x509_vfy.h
_HANDSHAKE, _CERTIFICATE = 22, 11
_EXPIRED_ALERT = bytes((21, 3, 3, 0, 2, 2, 45))
"""A record of one fatal alert, certificate_expired."""


class TlsError(Exception):
    """The handshake failed; ``text`` is the name of the device's text for it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class TlsStream:
    """A TLS connection over an open socket, with `recv` and `sendall`; `now` is the device's time.

    Raises TlsError: the server is not trusted, or there was no handshake; OSError: the connection failed.
    """

    def __init__(
        self, connection: socket.socket, *, trusted: tuple[bytes, ...], host: str, now: datetime, pace: Pace | None
    ) -> None:  # fmt: skip
        self._connection = connection
        self._trusted, self._now, self._pace = trusted, now, pace
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = _context(trusted)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        self._flight = b""
        self._are_dates_checked = False
        try:
            self._shake_hands()
        except ssl.SSLCertVerificationError as error:
            raise TlsError("certificate_name" if error.verify_code in _WRONG_NAME else "not_trusted") from error
        except ssl.SSLError as error:
            raise TlsError("no_handshake") from error

    def recv(self, most_bytes: int) -> bytes:
        """Return up to so many bytes; none when the server has ended."""
        while True:
            try:
                return self._tls.read(most_bytes)
            except ssl.SSLWantReadError:
                self._take()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise ConnectionResetError(str(error)) from error

    def sendall(self, data: bytes) -> None:
        """Send all."""
        self._tls.write(data)
        self._flush()

    def _shake_hands(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
            except ssl.SSLError:
                self._flush()  # the alert
                raise
            else:
                self._flush()
                return

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            self._connection.sendall(data)

    def _take(self) -> None:
        """Have OpenSSL read what has come; a slow processor takes its time before it takes the data."""
        if self._pace is not None:
            waiting = len(self._connection.recv(_RAW_BYTES, socket.MSG_PEEK))
            self._pace.spend(waiting)
        data = self._connection.recv(_RAW_BYTES)
        if not data:
            self._incoming.write_eof()
        elif not self._are_dates_checked:
            self._check_dates(data)
        self._incoming.write(data)

    def _check_dates(self, data: bytes) -> None:
        self._flight += data
        certificates = certificates_in(self._flight)
        if certificates is None:
            return
        self._are_dates_checked, self._flight = True, b""
        try:
            chain = [validity_of(each) for each in certificates]
        except ValueError as error:
            raise TlsError("no_handshake") from error
        signers = {each.issuer for each in chain}
        authorities = [each for each in map(validity_of, self._trusted) if each.subject in signers]
        if not all(each.holds(self._now) for each in (*chain, *authorities)):
            self._connection.sendall(_EXPIRED_ALERT)
            raise TlsError("certificate_date")


def certificates_in(flight: bytes) -> tuple[bytes, ...] | None:
    """Return the certificates (DER) in the records that a server has sent so far; None while they have not come whole.

    What is no TLS 1.2 has none: OpenSSL refuses it after this.
    """
    messages = b""
    while len(flight) >= 5:
        kind, _version, length = struct.unpack("!BHH", flight[:5])
        if kind != _HANDSHAKE or len(flight) < 5 + length:
            break
        messages, flight = messages + flight[5 : 5 + length], flight[5 + length :]
    while len(messages) >= 4:
        length = int.from_bytes(messages[1:4], "big")
        if len(messages) < 4 + length:
            return None
        if messages[0] == _CERTIFICATE:
            return _listed(messages[7 : 4 + length])
        messages = messages[4 + length :]
    return None


def _listed(body: bytes) -> tuple[bytes, ...]:
    found = []
    while len(body) >= 3:
        length = int.from_bytes(body[:3], "big")
        found.append(body[3 : 3 + length])
        body = body[3 + length :]
    return tuple(found)


def _context(trusted: tuple[bytes, ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    # A trustpoint is trusted whether it is a root or not (`chain-validation stop`, the default).
    context.verify_flags |= ssl.VerifyFlags(_IGNORE_THE_HOSTS_CLOCK) | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    for each in trusted:
        context.load_verify_locations(cadata=each)
    return context


_LONGEST_HEAD_BYTES = 65536


class HttpTransfer(WordedTransfer):
    """What a download and an upload by HTTP have in common."""

    def open_http(self) -> tuple[socket.socket, socket.socket | TlsStream]:
        """Open the connection, and TLS on it where the URL says so; its window holds from the first answer on."""
        self._stage = "connect"
        connection = self._connect((self.request.address, self.request.url.port))
        connection.settimeout(self.request.reply_timeout_s)
        device_tcp.before_data(connection, self.request.tcp.window_bytes, head_comes_first=True)
        self._stage = "dialogue"
        if self.request.url.scheme == "http":
            return connection, connection
        pace = self.request.decrypts_bytes_per_s
        try:
            return connection, TlsStream(
                connection, trusted=self.request.trusted, host=self.request.url.host, now=self.device_time(),
                pace=None if pace is None else Pace(pace, self._stop),
            )  # fmt: skip
        except TlsError as error:
            raise self.failed(error.text) from error

    def device_time(self) -> datetime:
        """Return what the device takes the time to be, in UTC."""
        return (clock.now() + timedelta(seconds=self.request.clock_offset_s)).astimezone(UTC)

    def answer(self, stream: socket.socket | TlsStream) -> tuple[Answer, bytes]:
        """Read the head of an answer; return it with what came after it."""
        held = b""
        while END not in held:
            chunk = stream.recv(4096)
            held += chunk
            if not chunk or len(held) > _LONGEST_HEAD_BYTES:
                raise self.failed("closed")
        head, _, rest = held.partition(END)
        self._stage = "file"
        return read_head(head), rest

    def name_of_loss(self) -> str:
        """Distinguish a body that broke off from an answer that never came."""
        return "broken" if self._stage == "file" else "closed"


class HttpPull(HttpTransfer, Pull):
    """One download by GET (RFC 9112)."""

    def _fetch(self, hooks: PullHooks) -> PullResult:
        connection, stream = self.open_http()
        stream.sendall(request_head(self.request, "GET", self.device_time()))
        answer, first = self.answer(stream)
        if answer.failure:
            raise self.failed(answer.failure)
        opened_s = time.monotonic()
        first += self._first_of_body(connection, stream, answer)
        if not hooks.may_begin():
            raise AbortedError
        sink = hooks.open_sink(answer.length_bytes)
        try:
            size = 0
            for chunk in self._body(connection, stream, first, answer.length_bytes):
                sink.write(chunk)
                size += len(chunk)
                hooks.progress(size)
        finally:
            sink.close()
        seconds = time.monotonic() - opened_s
        self.close(connection)
        if answer.length_bytes is not None and size < answer.length_bytes:
            raise self.failed("short")
        return PullResult(size_bytes=size, seconds=seconds)

    def _first_of_body(self, connection: socket.socket, stream: socket.socket | TlsStream, answer: Answer) -> bytes:
        """Set the buffer for full segments, and over plain HTTP read what comes first.

        The head has taken its part of a small window. With the buffer set before the first of the body is read, Linux
        opens the window again at once; after it, only after the server's timer has run out.
        """
        if answer.length_bytes == 0:
            return b""
        is_plain = stream is connection
        if is_plain:
            connection.recv(1, socket.MSG_PEEK)
        device_tcp.after_first_data(connection, self.request.tcp.window_bytes)
        return self._receive_some(connection, stream, CHUNK_BYTES) if is_plain else b""

    def _body(
        self, connection: socket.socket, stream: socket.socket | TlsStream, first: bytes, length_bytes: int | None
    ) -> Iterator[bytes]:
        """Yield the body: as long as announced, or to the end of the connection where nothing is announced."""
        left = 1 << 62 if length_bytes is None else length_bytes
        self._stop.wait(self.request.silent_start_s)
        chunk = first[:left] or self._receive_some(connection, stream, left)
        while chunk:
            yield chunk
            left -= len(chunk)
            chunk = self._receive_some(connection, stream, left)

    def _receive_some(self, connection: socket.socket, stream: socket.socket | TlsStream, most_bytes: int) -> bytes:
        chunk = stream.recv(min(CHUNK_BYTES, most_bytes)) if most_bytes else b""
        device_tcp.acknowledge(connection)
        if self._stop.is_set():
            raise AbortedError
        return chunk


class HttpPush(HttpTransfer, Push):
    """One upload by PUT."""

    def run(self, source: BinaryIO, *, opened: Callable[[], None], progress: Callable[[int], None]) -> PullResult:
        """Store the file; arguments and errors are those of an FTP upload."""
        with self.device_words():
            connection, stream = self.open_http()
            length = source.seek(0, os.SEEK_END)
            source.seek(0)
            stream.sendall(request_head(self.request, "PUT", self.device_time(), length_bytes=length))
            opened()
            opened_s = time.monotonic()
            size = self._send_body(stream, source, progress)
            answer, _ = self.answer(stream)
            if answer.failure not in {"", "chunked"}:
                raise self.failed(answer.failure if answer.code in {401, 403} else "not_stored")
            self.close(connection)
            return PullResult(size_bytes=size, seconds=time.monotonic() - opened_s)
