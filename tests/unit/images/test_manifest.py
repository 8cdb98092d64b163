"""A manifest says of an image what it is made of, chunk by chunk; nothing that is not exactly one is taken for one."""

import hashlib
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.images.errors import ImageUnreadable, ManifestInvalid
from flashferry.images.manifest import (
    MOST_CHUNKS,
    Manifest,
    ManifestBuilder,
    from_text,
    is_image_name,
    is_plan_name,
    manifest_of,
    read_manifest,
    to_text,
)

CHUNK = 1000


def made(data: bytes = b"x" * 2500, name: str = "image.bin") -> Manifest:
    so_far = ManifestBuilder(CHUNK)
    so_far.feed(data)
    return so_far.end(name)[0]


def test_it_says_what_the_file_is_made_of(tmp_path: Path) -> None:
    """Both digests of the whole, and SHA-256 of each chunk, the last one shorter."""
    data = os.urandom(2500)
    (tmp_path / "image.bin").write_bytes(data)
    found = manifest_of(tmp_path / "image.bin", chunk_bytes=CHUNK)
    assert (found.name, found.size_bytes) == ("image.bin", 2500)
    assert found.sha512 == hashlib.sha512(data).hexdigest()
    assert found.md5 == hashlib.md5(data).hexdigest()
    assert found.chunks == tuple(hashlib.sha256(data[at : at + CHUNK]).hexdigest() for at in (0, 1000, 2000))
    assert found.span(2) == (2000, 2500)


@given(st.lists(st.binary(max_size=3000), max_size=8))
def test_how_it_comes_in_pieces_is_nothing_to_it(pieces: list[bytes]) -> None:
    """Whatever the pieces, it is that of the whole."""
    data = b"".join(pieces) or b"x"
    so_far = ManifestBuilder(CHUNK)
    for piece in pieces or [data]:
        so_far.feed(piece)
    if b"".join(pieces):
        assert so_far.end("image.bin")[0] == made(data)


def test_its_text_is_it_again() -> None:
    """And the same manifest has the same text and digest, another one another."""
    one = made()
    assert from_text(to_text(one)) == one
    assert one.digest == made().digest != made(b"y" * 2500).digest


def changed(**changes: object) -> str:
    return json.dumps(json.loads(to_text(made())) | changes)


def without(key: str) -> str:
    data = json.loads(to_text(made()))
    del data[key]
    return json.dumps(data)


NAMES = (
    "../image.bin",
    "/etc/passwd",
    ".image.bin",
    "..",
    "a/b",
    "a b",
    "",
    "-rf",
    "a\0b",
    "a\n",
    "é.bin",
    "x" * 201,
    "catalogue.json",
    "image.bin.manifest.json",
    f"plan-{'0' * 64}.json",
    "a\\b",
    "%2e%2e",
)


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_anywhere(name: str) -> None:
    """Paths, hidden names, options, those of small files: no image is called so."""
    assert not is_image_name(name)
    with pytest.raises(ManifestInvalid):
        from_text(changed(name=name))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "3",
        "[" * 100_000,
        changed(schema="flashferry.manifest/2"),
        without("schema"),
        without("chunks"),
        without("md5"),
        changed(more=1),
        changed(size_bytes=0),
        changed(size_bytes=-1),
        changed(size_bytes=2001.5),
        changed(size_bytes="2500"),
        changed(size_bytes=True),
        changed(size_bytes=3001),
        changed(size_bytes=2000),
        changed(chunk_bytes=0),
        changed(chunk_bytes=1),
        changed(size_bytes=10**18, chunk_bytes=1),
        changed(sha512="0" * 127),
        changed(sha512="G" * 128),
        changed(sha512="A" * 128),
        changed(md5=""),
        changed(chunks=[]),
        changed(chunks=["0" * 63] * 3),
        changed(chunks=[1, 2, 3]),
        changed(chunks="000"),
        changed(name=None),
    ],
)
def test_anything_else_is_none(text: str) -> None:
    """Told in a sentence that says whose it is, whatever it is."""
    with pytest.raises(ManifestInvalid, match=r"^source x: "):
        from_text(text, what="source x")


def test_it_has_bounds() -> None:
    """More chunks than any image has are refused before anything is made of them."""
    with pytest.raises(ManifestInvalid, match=f"at most {MOST_CHUNKS} chunks"):
        from_text(changed(size_bytes=MOST_CHUNKS + 1, chunk_bytes=1))


def test_a_plan_has_a_name_of_its_own() -> None:
    """`plan-`, its digest, `.json`, and nothing else."""
    assert is_plan_name(f"plan-{'0a' * 32}.json")
    assert not any(map(is_plan_name, ("plan-.json", "plan-xyz.json", f"../plan-{'0a' * 32}.json")))


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """A folder, a link, nothing, an empty file; a pipe is not waited for."""
    (tmp_path / "real.bin").write_bytes(b"x")
    (tmp_path / "link.bin").symlink_to(tmp_path / "real.bin")
    os.mkfifo(tmp_path / "pipe.bin")
    (tmp_path / "folder.bin").mkdir()
    for name in ("link.bin", "pipe.bin", "folder.bin", "none.bin"):
        with pytest.raises(ImageUnreadable):
            read_manifest(tmp_path / name)
    (tmp_path / "empty.bin").touch()
    with pytest.raises(ManifestInvalid):
        read_manifest(tmp_path / "empty.bin")


def test_a_file_that_changes_while_it_is_read_is_none(tmp_path: Path) -> None:
    """What was read of it would be of no one file."""
    path = tmp_path / "image.bin"
    path.write_bytes(b"x" * 2500)

    def write(_done: int, _size: int) -> None:
        with path.open("ab") as file:
            file.write(b"y")

    with pytest.raises(ImageUnreadable, match="changed while it was read"):
        read_manifest(path, chunk_bytes=CHUNK, on_progress=write)
