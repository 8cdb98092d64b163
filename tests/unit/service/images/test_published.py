"""The vendor's file of hashes counts only where its signature is his: files of Cisco's form, by a CA of our own."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256, SHA512
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from flashferry.core.values import replace
from tests.served import BEGIN
from tests.unit.service.images.conftest import CONTENT, IMAGES, sha512_of

GOOD, BAD = "c2960x-universalk9-mz.152-7.E8.bin", "c2900-universalk9-mz.SPA.157-3.M.bin"
PUBLISHED = "/api/v1/published"
CSV = (
    "IMAGE_NAME,MD5,SHA512\n"
    f"{GOOD},,{sha512_of(CONTENT)}\n"
    f"{BAD},{'2' * 32},{'AB' * 64}\n"
    f'"../../etc/x.bin",,{"c" * 128}\n'
    "nonsense\n"
)


@pytest.fixture(scope="module")
def keys() -> dict[str, RSAPrivateKey]:
    return {name: generate_private_key(65537, 2048) for name in ("root", "signer", "stranger")}


def certificate(keys: Mapping[str, RSAPrivateKey], name: str, issuer: str, *, days: int = 30, is_ca: bool = True):
    named = {one: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer)}
    return (
        x509.CertificateBuilder()
        .subject_name(named[name])
        .issuer_name(named[issuer])
        .public_key(keys[name].public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(BEGIN - timedelta(days=60))
        .not_valid_after(BEGIN + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
        .sign(keys[issuer], SHA256())
    )


def tarred(files: Mapping[str, bytes], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


@pytest.fixture
def bulk(keys):
    """Return what makes a file of hashes."""

    def bulk(pack=zipped, *, text: str = CSV, signed_by: str = "signer", issuer: str = "root", **parts: Any) -> bytes:
        inner = tarred({"BulkHash.csv": text.encode()}, parts.pop("mode", "w:gz"))
        signer = certificate(keys, "signer", issuer, days=parts.pop("days", 30), is_ca=False)
        files = {
            "README.txt": b"read me",
            "BulkHash.tar": inner,
            "BulkHash.tar.signature": keys[signed_by].sign(inner, PKCS1v15(), SHA512()),
            "BULKHASH-CCO_RELEASE.cer": signer.public_bytes(parts.pop("encoding", Encoding.PEM)),
        }
        files |= parts
        return pack({name: content for name, content in files.items() if content is not None})

    return bulk


@pytest.fixture
def trusting(served, keys, tmp_path):
    """Return the service that trusts our root."""
    path = tmp_path / "vendor.pem"
    path.write_bytes(certificate(keys, "root", "root").public_bytes(Encoding.PEM))
    settings = served.service.settings
    images = replace(settings.images, vendor_certificates=path)
    object.__setattr__(served.service, "settings", replace(settings, images=images))
    return served


@pytest.mark.parametrize("pack", [zipped, tarred])
@pytest.mark.parametrize("more", [{}, {"encoding": Encoding.DER}, {"mode": "w"}])
def test_images_are_held_against_what_was_published(trusting, chief, upload, bulk, pack, more):
    """Those that are here at once, those that come when they come; also against an admin's word."""
    upload(GOOD)
    upload(BAD, b"tampered with")
    trusting.call("POST", f"{IMAGES}/{BAD}/vouch", chief, json={"reason": "why"})
    answer = trusting.call("POST", PUBLISHED, chief, content=bulk(pack, **more))
    assert answer.json() == {"rows": 2, "new": 2, "changed": {BAD: "mismatch", GOOD: "published"}}
    assert "signed by CN=signer" in trusting.call("GET", f"{IMAGES}/{GOOD}", chief).json()["told"]
    assert not (trusting.service.images / BAD).exists()
    assert upload("renamed.bin")["told"].endswith(f"has its SHA-512, as {GOOD}")
    assert trusting.audit()[-3].action == "published.taken"
    assert trusting.call("POST", PUBLISHED, chief, content=bulk(pack)).json()["new"] == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"signed_by": "stranger"}, "its signature is not that of its certificate"),
        ({"issuer": "stranger"}, "is not trusted by vendor_certificates"),
        ({"days": -1}, "is good until 2026-11-22"),
        ({"BulkHash.tar": b"another"}, "its signature is not that of its certificate"),
        ({"BulkHash.tar.signature": None}, "expected files that end in .tar.signature"),
        ({"BULKHASH-CCO_RELEASE.cer": b"nothing"}, "its certificate cannot be read"),
        ({"BULKHASH-CCO_RELEASE.cer": b"x" * 70_000}, "expected one .cer of at most"),
        ({"text": "a,b\n"}, "expected rows with a file's name"),
    ],
)
def test_what_is_not_the_vendors_is_refused(trusting, chief, upload, bulk, more, why):
    """Nothing of it is kept, and the refusal is in the audit."""
    upload(GOOD)
    answer = trusting.call("POST", PUBLISHED, chief, content=bulk(**more))
    assert (answer.status_code, why in answer.json()["detail"]) == (422, True), answer.text
    assert trusting.call("GET", f"{IMAGES}/{GOOD}", chief).json()["state"] == "unknown"
    assert (trusting.audit()[-1].action, trusting.audit()[-1].outcome) == ("published.taken", "refused")


@pytest.mark.parametrize("content", [b"", b"nothing", b"PK\x03\x04 not quite"])
def test_what_is_no_such_file_is_refused(trusting, chief, content):
    """In a sentence, and nothing of it stays on disk."""
    answer = trusting.call("POST", PUBLISHED, chief, content=content)
    assert (answer.status_code, "a zip or a tar" in answer.json()["detail"]) == (422, True)
    assert list(trusting.service.state.glob("published.*")) == []


def test_without_certificates_of_the_vendors_none_is_taken_in(served, chief, op, bulk):
    """The certificate in the file proves nothing by itself; nor does an operator take one in."""
    answer = served.call("POST", PUBLISHED, chief, content=bulk())
    assert (answer.status_code, "vendor_certificates" in answer.json()["hint"]) == (409, True)
    assert served.call("POST", PUBLISHED, op, content=bulk()).status_code == 403


def test_the_vendors_file_is_taken_in_by_a_form(trusting, upload, bulk):
    """By an admin in a browser; the page says when it was, by whom, and how much was new."""
    browser = trusting.browser("chief")
    upload(GOOD)
    assert "Nothing imported yet" in trusting.call("GET", "/images", browser).text
    head = f'--xYx\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{browser.csrf}\r\n--xYx\r\n'
    head += 'Content-Disposition: form-data; name="file"; filename="BulkHash.zip"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=xYx", "X-CSRF-Token": ""}
    for end, status in ((b"\r\n--xYx--\r\n", 303), (b"", 400)):
        body = head.encode() + bulk() + end
        assert trusting.call("POST", "/images/published", browser, content=body, headers=kind).status_code == status
    told = trusting.view("/images", browser)
    assert (told["published"]["by"], told["published"]["new"]) == ("chief", told["published"]["rows"])
    assert [one["state"] for one in told["images"]] == ["published"]
    assert "of them new" in trusting.call("GET", "/images", browser).text
