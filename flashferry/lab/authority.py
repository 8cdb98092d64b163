"""A certificate authority for rehearsals of TLS: it goes into a device's trustpoint and gives servers certificates.

Clients get them too, where a server asks for one.

The keys are made anew and kept nowhere: a lab's authority is worth nothing outside of it.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

_KEY_BITS = 2048
_YEAR = timedelta(days=365)
_FILE_MODE = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCertificate:
    """A certificate and its key, as files in PEM: a server's, or a client's."""

    certificate: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Return what a server of the lab speaks TLS with (`flashferry.lab.web.running_web`)."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """An authority with a key of its own.

    `now`: The time it is made at; its certificate holds from a year before to a year after.
    """

    def __init__(self, name: str = "Lab CA", *, now: datetime | None = None) -> None:
        self._key = _new_key()
        self._name = _named(name)
        now = now or datetime.now(UTC)
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = _builder(self._name, self._name, self._key, now - _YEAR, now + _YEAR)
        self._certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            # Without these Python 3.13 takes it for no authority (ssl.VERIFY_X509_STRICT; RFC 5280 4.2.1).
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        """The authority's certificate, for a trustpoint."""
        return self._certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(
        self, folder: Path, hosts: Sequence[str], *, begins: datetime | None = None, ends: datetime | None = None
    ) -> ServerCertificate:
        """Write a server's certificate and key into a folder, for its owner's eyes only.

        `folder`: An existing folder; the files are `server.pem` and `server.key`. `hosts`: Names and addresses that it
        is for; the first is the common name, too. `begins`: From when on it holds; None for a day ago. `ends`: Until
        when; None for a year from now.
        """
        names = [
            x509.IPAddress(ipaddress.ip_address(host)) if _is_address(host) else x509.DNSName(host) for host in hosts
        ]
        key, now = _new_key(), datetime.now(UTC)
        builder = _builder(_named(hosts[0]), self._name, key, begins or now - timedelta(days=1), ends or now + _YEAR)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return self._signed(builder, key, folder / "server")

    def issue_client(self, folder: Path, name: str) -> ServerCertificate:
        """Write a certificate by which a client shows who it is, and its key, into a folder, for its owner's eyes only.

        `folder`: An existing folder; the files are `NAME.pem` and `NAME.key`.
        """
        key, now = _new_key(), datetime.now(UTC)
        builder = _builder(_named(name), self._name, key, now - timedelta(days=1), now + _YEAR)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._signed(builder.add_extension(usage, critical=False), key, folder / name)

    def _signed(self, builder: x509.CertificateBuilder, key: rsa.RSAPrivateKey, stem: Path) -> ServerCertificate:
        """Sign a certificate and write it and its key beside each other."""
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier)
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        files = ServerCertificate(
            certificate=stem.with_name(f"{stem.name}.pem"), key=stem.with_name(f"{stem.name}.key")
        )
        _write(files.certificate, certificate.public_bytes(serialization.Encoding.PEM))
        _write(files.key, private)
        return files


_SIGNS_CERTIFICATES = x509.KeyUsage(
    key_cert_sign=True, crl_sign=True, digital_signature=False, content_commitment=False, key_encipherment=False,
    data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
)  # fmt: skip


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE), "wb") as file:
        file.write(content)
