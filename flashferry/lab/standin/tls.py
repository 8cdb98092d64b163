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

import socket
import ssl
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.standin.trustpoints import validity_of

if TYPE_CHECKING:
    from datetime import datetime

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """What decides about a handshake.

    Attributes:
        trusted: Certificates of authorities, in DER.
        host: The name or address in the URL.
        now: What the device takes the time to be.
        pace: How fast it decrypts; None for as fast as the host.
    """

    trusted: tuple[bytes, ...]
    host: str
    now: datetime
    pace: Pace | None = None


class TlsStream:
    """A TLS connection; `recv` and `sendall` are those of a socket.

    Args:
        connection: Open, with a patience of its own.
        settings: Whom to trust.

    Raises:
        TlsError: The server is not trusted, or there was no handshake.
        OSError: The connection failed.
    """

    def __init__(self, connection: socket.socket, settings: TlsSettings) -> None:
        self._connection = connection
        self._settings = settings
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = _context(settings.trusted)
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=settings.host)
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
        if self._settings.pace is not None:
            waiting = len(self._connection.recv(_RAW_BYTES, socket.MSG_PEEK))
            self._settings.pace.spend(waiting)
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
        authorities = [each for each in map(validity_of, self._settings.trusted) if each.subject in signers]
        if not all(each.holds(self._settings.now) for each in (*chain, *authorities)):
            self._connection.sendall(_EXPIRED_ALERT)
            raise TlsError("certificate_date")


def certificates_in(flight: bytes) -> tuple[bytes, ...] | None:
    """Return the certificates (DER) in the records that a server has sent so far; None while they have not come whole.

    What is no TLS 1.2 has none: OpenSSL refuses it behind this.
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
    """Split a list of certificates, each behind its length."""
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
