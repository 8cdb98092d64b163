"""Certificates as operators have them."""

import datetime
import ipaddress
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def pair() -> Callable[..., tuple[Path, Path]]:
    """Return a maker of a certificate and its key."""
    return made


def made(
    folder: Path,
    name: str = "a",
    *,
    days: tuple[float, float] = (-1, 30),
    passphrase: bytes = b"",
) -> tuple[Path, Path]:
    """Make a certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ferry")])
    others = [
        x509.IPAddress(ipaddress.ip_address("192.0.2.1")),
        x509.DNSName("ferry.example"),
        x509.DNSName("*.hq.example"),
    ]
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(NOW + datetime.timedelta(days=days[0]))
        .not_valid_after(NOW + datetime.timedelta(days=days[1]))
        .add_extension(x509.SubjectAlternativeName(others), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.pem", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    locked = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    paths[1].touch(mode=0o600)
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))
    return paths
