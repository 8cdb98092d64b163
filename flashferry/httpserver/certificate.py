"""Check of the server's certificate and key before any device is served.

The operator provides both, and devices already trust the issuer: nothing is created here, and no device is changed. A
device would report every fault found here as `(I/O error)`.
"""

import ipaddress
import ssl
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from flashferry.fileserver import SettingsInvalid

if TYPE_CHECKING:
    from cryptography import x509

_OTHERS_READ = stat.S_IRWXO | stat.S_IWGRP


def check_certificate(
    certificate: Path, key: Path, *, addresses: tuple[str, ...] = (), now: datetime | None = None
) -> None:
    """Check that a certificate and its key are usable.

    Args:
        certificate: File with the certificate first, in PEM.
        key: File with its private key.
        addresses: Addresses or names at which devices reach us; the certificate must contain each of them.
        now: The time, with time zone; None takes this host's clock.

    Raises:
        SettingsInvalid: A file is missing or of the wrong form, other users can read the key, it does not belong to the
            certificate, or the certificate is expired, not yet valid, or lacks an address.
    """
    data = _read(certificate, "certificate")
    _read(key, "key")
    mode = key.stat().st_mode
    if mode & _OTHERS_READ:
        raise SettingsInvalid(
            f"key {key}: expected a file that others cannot read, found mode {stat.S_IMODE(mode):04o}",
            hint=f"Remove the permission (chmod 600 {key}), and replace the certificate if others may have read it",
        )
    found = _parsed(certificate, data)
    server_context(certificate, key)
    _check_time(certificate, found, now or datetime.now(UTC))
    names = _names(found)
    for one in addresses:
        if not _is_for(names, one):
            raise SettingsInvalid(
                f"certificate {certificate}: expected it to be for {one}, which devices use, "
                f"found {', '.join(names) or 'no name at all'}",
                hint="Have devices use the name it is for (--address), or take a certificate for this one",
            )


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the server's TLS context: version 1.2 or later, no renegotiation, no session tickets.

    Raises:
        SettingsInvalid: The key does not belong to the certificate, or one of them is unusable.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    try:
        # Never ask for a passphrase: there may be no terminal.
        context.load_cert_chain(certificate, key, password=_no_passphrase)
    except _PassphraseNeeded:
        raise SettingsInvalid(
            f"key {key}: expected one without a passphrase, found one that is locked",
            hint="Write it out without (openssl pkey -in KEY -out NEW), readable by its owner alone",
        ) from None
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsInvalid(
                f"key {key}: expected that of the certificate {certificate}, found another one's",
                hint="Give the two that were made together",
            ) from None
        raise SettingsInvalid(
            f"certificate {certificate}, key {key}: expected both in PEM, found what TLS cannot use "
            f"({(error.reason or 'not understood').replace('_', ' ').lower()})",
            hint="Give the certificate, followed by its issuers, in one file, and its private key in another",
        ) from None
    return context


class _PassphraseNeeded(Exception):
    """The key is protected by a passphrase."""


def _no_passphrase() -> str:
    raise _PassphraseNeeded


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsInvalid(
            f"{what} {path}: expected a file that can be read, found: {error.strerror}",
            hint=f"Give the file of the {what}, and the right to read it",
        ) from None


def _parsed(path: Path, data: bytes) -> "x509.Certificate":
    # Start time: most commands need no certificate.
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(data)[0]
    except ValueError:
        raise SettingsInvalid(
            f"certificate {path}: expected a certificate in PEM, found none",
            hint="It begins with -----BEGIN CERTIFICATE-----; openssl x509 -inform der turns another form into it",
        ) from None


def _check_time(path: Path, found: "x509.Certificate", now: datetime) -> None:
    if now < found.not_valid_before_utc:
        raise SettingsInvalid(
            f"certificate {path}: expected one that is good now, found one that is good from "
            f"{found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC",
            hint="Wait, set this host's clock right, or take another; devices hold it against their own clocks",
        )
    if now > found.not_valid_after_utc:
        raise SettingsInvalid(
            f"certificate {path}: expected one that is good now, found one that expired at "
            f"{found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC",
            hint="Take a new one of the same issuer",
        )


def _names(found: "x509.Certificate") -> tuple[str, ...]:
    """Return a certificate's alternative names and its common name, which IOS accepts too."""
    # Start time: most commands need no certificate.
    from cryptography import x509

    names: list[str] = []
    try:
        other = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names += other.get_values_for_type(x509.DNSName)
        names += [str(address) for address in other.get_values_for_type(x509.IPAddress)]
    except x509.ExtensionNotFound:
        pass
    names += [str(one.value) for one in found.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)]
    return tuple(dict.fromkeys(names))


def _is_for(names: tuple[str, ...], address: str) -> bool:
    try:
        return str(ipaddress.ip_address(address)) in names
    except ValueError:
        host = address.lower().rstrip(".")
        parent_domain = host.partition(".")[2]
        return any(name.lower() in (host, f"*.{parent_domain}") for name in names)
