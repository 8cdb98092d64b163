"""Reader of Cisco's Bulk Hash file of published hashes, which checks its signature first.

Facts
-----
* The file is a zip or a tar with `BulkHash.tar`, `BulkHash.tar.signature` and `BULKHASH-CCO_RELEASE.cer`, and a
  script that checks them, `cisco_x509_verify_release.py -e BULKHASH-CCO_RELEASE.cer -i BulkHash.tar -s
  BulkHash.tar.signature -v dgst -sha512`: the signature is over the inner tar, with SHA-512 and the key of the
  certificate, which is issued by Cisco's subordinate and root certificates. The inner tar holds a CSV with MD5 and
  SHA-512 of all images (Cisco, "Secure Software Publishing - Bulk Hash File Download Center", and the README in the
  file).
* The CSV's columns are documented nowhere: a row counts if one cell is a SHA-512 and one can be a file name.
* A certificate in the file proves nothing by itself: the configuration must name it or its issuer.

Never tried on Cisco's own file, which was not available: tests build one of the same form.
"""

from __future__ import annotations

import csv
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA512

from flashferry.core.errors import ConfigInvalid, reason_of
from flashferry.service.images.verification import MOST_PUBLISHED_BYTES, is_image_name
from flashferry.store.service.images import Published

_SMALL_BYTES = 64 << 10
_SHA512, _MD5 = re.compile(r"[0-9a-fA-F]{128}"), re.compile(r"[0-9a-fA-F]{32}")
_TAR, _SIGNATURE, _CERTIFICATE = ".tar", ".tar.signature", ".cer"
_AGAIN = "Fetch the file again from the vendor, and send it as it is"


def read_bulk(path: Path, vendor: Path, now: datetime, at: str) -> Iterator[Published]:
    """Check the signature and yield the published hashes.

    `vendor` has the vendor's certificates (PEM), which must be valid at `now`; `at` is that time in the format of the
    tables.

    Raises:
        ConfigInvalid: The file is of another kind, its certificate is not trusted, or the signature does not match.
    """
    parts = _parts(path)
    signer = _certificate(parts[_CERTIFICATE])
    _check_chain(signer, _trusted(vendor), now)
    key = signer.public_key()
    if not isinstance(key, RSAPublicKey):
        raise _invalid("expected a certificate with an RSA key, found another kind")
    try:
        key.verify(parts[_SIGNATURE], parts[_TAR], PKCS1v15(), SHA512())
    except InvalidSignature:
        raise _invalid("its signature is not that of its certificate over its hashes") from None
    source = f"the vendor's file of hashes, signed by {_name_of(signer)}"
    return _rows(parts[_TAR], source, at)


def _parts(path: Path) -> dict[str, bytes]:
    """Return the inner tar, its signature and the certificate."""
    found: dict[str, bytes] = {}
    try:
        for name, size_bytes, file in _members(path):
            ending = next((end for end in (_SIGNATURE, _TAR, _CERTIFICATE) if name.endswith(end)), None)
            if ending is None:
                continue
            most_bytes = MOST_PUBLISHED_BYTES if ending == _TAR else _SMALL_BYTES
            if ending in found or size_bytes > most_bytes:
                raise _invalid(f"expected one {ending} of at most {most_bytes:,} bytes, found more")
            found[ending] = file.read(most_bytes + 1)[:most_bytes]
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError):
        raise _invalid("expected a zip or a tar, found a file that cannot be read as one") from None
    if lacking := [end for end in (_TAR, _SIGNATURE, _CERTIFICATE) if end not in found]:
        raise _invalid(f"expected files that end in {', '.join(lacking)} in it, found none")
    return found


def _members(path: Path) -> Iterator[tuple[str, int, BinaryIO]]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                with archive.open(one) as file:
                    yield one.filename, one.file_size, file  # type: ignore[misc]
        return
    with tarfile.open(path) as archive:
        yield from _files(archive)


def _files(archive: tarfile.TarFile) -> Iterator[tuple[str, int, BinaryIO]]:
    for one in archive:
        if one.isfile() and (file := archive.extractfile(one)) is not None:
            yield one.name, one.size, file  # type: ignore[misc]


def _rows(inner: bytes, source: str, at: str) -> Iterator[Published]:
    is_any = False
    try:
        with tarfile.open(fileobj=io.BytesIO(inner)) as archive:
            for name, size_bytes, file in _files(archive):
                if not name.endswith(".csv"):
                    continue
                if size_bytes > MOST_PUBLISHED_BYTES:
                    raise _invalid(f"expected a CSV of at most {MOST_PUBLISHED_BYTES:,} bytes, found {size_bytes:,}")
                for cells in csv.reader(io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")):
                    if (row := _row(cells, source, at)) is not None:
                        is_any = True
                        yield row
    except (tarfile.TarError, csv.Error, OSError, EOFError):
        raise _invalid("its hashes cannot be read, though they are signed") from None
    if not is_any:
        raise _invalid("expected rows with a file's name and a SHA-512 in it, found none")


def _row(cells: Sequence[str], source: str, at: str) -> Published | None:
    cells = [cell.strip() for cell in cells]
    sha512 = next((cell for cell in cells if _SHA512.fullmatch(cell)), None)
    md5 = next((cell for cell in cells if _MD5.fullmatch(cell)), "")
    name = next((cell for cell in cells if cell not in (sha512, md5) and "." in cell and is_image_name(cell)), None)
    if sha512 is None or name is None:
        return None
    return Published(name=name, md5=md5.lower(), sha512=sha512.lower(), source=source, at=at)


def _trusted(vendor: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(vendor.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigInvalid(
            f"vendor_certificates {vendor}: expected certificates as PEM, cannot be read: {reason_of(error)}",
            hint="Put the vendor's certificates there, one after the other",
        ) from None


def _certificate(content: bytes) -> x509.Certificate:
    try:
        is_pem = b"-----BEGIN" in content
        return x509.load_pem_x509_certificate(content) if is_pem else x509.load_der_x509_certificate(content)
    except ValueError:
        raise _invalid("its certificate cannot be read") from None


def _check_chain(signer: x509.Certificate, trusted: Sequence[x509.Certificate], now: datetime) -> None:
    """Refuse a certificate that is neither trusted nor issued by a trusted one, or not valid now."""
    issuer = next((one for one in trusted if one == signer or _has_issued(one, signer)), None)
    if issuer is None:
        raise _invalid(f"its certificate, of {_name_of(signer)}, is not trusted by vendor_certificates")
    for one in (signer, issuer):
        if not one.not_valid_before_utc <= now <= one.not_valid_after_utc:
            raise _invalid(f"the certificate of {_name_of(one)} is good until {one.not_valid_after_utc:%Y-%m-%d}")


def _has_issued(issuer: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        if not issuer.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return False
        signer.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return True


def _name_of(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()[:200]


def _invalid(sentence: str) -> ConfigInvalid:
    return ConfigInvalid(f"published hashes: {sentence}", hint=_AGAIN)
