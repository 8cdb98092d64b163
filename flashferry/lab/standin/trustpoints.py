"""Whom the device trusts: the certificates that stand in its configuration.

Facts
-----
A running configuration has ``crypto pki trustpoint NAME`` with how it was made, and ``crypto pki certificate chain
NAME`` with ``certificate ca SERIAL``, the certificate in hexadecimal (DER, eight groups of four bytes a line) and
``quit`` (captures of whole configurations). Only certificates of authorities count, and only of trustpoints that are
there: one that is taken out takes its certificates with it.

What `show crypto pki trustpoints` and its like print is in no capture at hand, so there are no such commands.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from flashferry.lab.standin.configuration import Configuration, Line

_TRUSTPOINT, _CHAIN = "crypto pki trustpoint ", "crypto pki certificate chain "
_AUTHORITY = re.compile(r"certificate ca ", re.IGNORECASE)
_HEX = re.compile(r"(?:[0-9A-F]{2,8} ?)+", re.IGNORECASE)
_ROW_BYTES = 32
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """From when to when a certificate holds, whose it is and who signed it (names in DER, to compare them)."""

    begins: datetime
    ends: datetime
    subject: bytes
    issuer: bytes

    def holds(self, moment: datetime) -> bool:
        """Return whether it holds at a time."""
        return self.begins <= moment <= self.ends


def validity_of(der: bytes) -> Validity:
    """Read a certificate. Raises ValueError: it is none."""
    from cryptography import x509

    read = x509.load_der_x509_certificate(der)
    return Validity(
        begins=read.not_valid_before_utc, ends=read.not_valid_after_utc,
        subject=read.subject.public_bytes(), issuer=read.issuer.public_bytes(),
    )  # fmt: skip


def trustpoint_lines(name: str, pem: str) -> tuple[str, ...]:
    """Return the configuration lines of a trustpoint for an authority's certificate.

    Raises LabError: either is invalid.
    """
    from cryptography import x509

    if not _NAME.fullmatch(name):
        raise LabError(f"trustpoint {name!r}: expected letters, digits, dots and hyphens after one of the first two.")
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.strip())
        serial = x509.load_der_x509_certificate(der).serial_number
    except ValueError as error:
        raise LabError(f"trustpoint {name}: expected one certificate in PEM, found none that can be read.") from error
    text = f"{serial:X}"
    rows = [der[at : at + _ROW_BYTES].hex(" ", -4).upper() for at in range(0, len(der), _ROW_BYTES)]
    return (
        f"{_TRUSTPOINT}{name}", " enrollment terminal", " revocation-check none",
        f"{_CHAIN}{name}", f" certificate ca {text.zfill(len(text) + len(text) % 2)}", *(f"  {row}" for row in rows),
        "  \tquit",
    )  # fmt: skip


def shown_row(line: str) -> str:
    """Return a line of a certificate chain as the configuration shows it: what is in a certificate stands deeper."""
    if line.strip() == "quit":
        return " \tquit"
    return f" {line}" if _HEX.fullmatch(line) else line


def trusted(configuration: Configuration) -> tuple[bytes, ...]:
    """Return the certificates (DER) of the authorities that a device trusts."""
    lines = configuration.lines()
    names = {line.text.removeprefix(_TRUSTPOINT) for line in lines if line.text.startswith(_TRUSTPOINT)}
    chains = [line for line in lines if line.text.removeprefix(_CHAIN) in names and line.text.startswith(_CHAIN)]
    return tuple(der for chain in chains for der in _authorities(chain))


def _authorities(chain: Line) -> Iterator[bytes]:
    held: list[str] | None = None
    for text in (child.text.strip() for child in chain.children):
        if _AUTHORITY.match(text):
            held = []
        elif text == "quit":
            der = _readable("".join(held or ()))
            if der is not None:
                yield der
            held = None
        elif held is not None and _HEX.fullmatch(text):
            held.append(text)


def _readable(text: str) -> bytes | None:
    """Return a certificate from its hexadecimal form; None where it is spoiled."""
    try:
        der = bytes.fromhex(text.replace(" ", ""))
        validity_of(der)
    except ValueError:
        return None
    return der
