"""The vendor's published hashes against the file that is to be offered."""

from __future__ import annotations

import hashlib

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.images.image import Digests, published_digests
from flashferry.planning.local_images import target_image


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "image.bin"
    path.write_bytes(b"an image")
    return path


def test_the_published_file_is_taken(image):
    """Both hashes fit, blanks and capitals apart."""
    md5, sha512 = (hashlib.new(kind, b"an image", usedforsecurity=False).hexdigest() for kind in ("md5", "sha512"))
    wanted = target_image(image, published_digests(f" {md5.upper()}\n", sha512))
    assert wanted.image.digests == Digests(md5=md5, sha512=sha512)


@pytest.mark.parametrize(("md5", "sha512", "kind"), [("0" * 32, None, "MD5"), (None, "0" * 128, "SHA-512")])
def test_a_damaged_download_is_refused(image, md5, sha512, kind):
    """The published hash and the file's own stand in one sentence, with what to do."""
    with pytest.raises(ConfigInvalid, match=f"expected the published {kind} 0+, the file has") as caught:
        target_image(image, published_digests(md5, sha512))
    assert "fetch it again" in caught.value.hint


@pytest.mark.parametrize("given", ["", "abc", "g" * 32, "0" * 33, "0" * 128])
def test_what_is_no_md5_is_refused(given):
    """Wrong length or digits are told before any file is read."""
    with pytest.raises(ConfigInvalid, match="--md5: expected"):
        published_digests(md5=given)


def test_nothing_published_is_nothing_compared(image):
    """Without published hashes every file is taken as it is."""
    assert target_image(image, published_digests()).image.size_bytes == 8
