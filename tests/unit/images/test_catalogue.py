"""The catalogue: names to files with digests, hashed once per state of a file."""

import hashlib
import logging
import os
from pathlib import Path

import pytest

from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import CatalogueInvalid, ImageUnknown, ImageUnreadable
from flashferry.images.safe_open import open_unchanged


def test_images_have_size_and_digests(tmp_path: Path) -> None:
    """Files of a directory and single files are images by their own names."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.bin").write_bytes(b"alpha")
    (tmp_path / "d" / ".hidden").write_bytes(b"x")
    (tmp_path / "b.bin").write_bytes(b"beta")
    catalogue = Catalogue((tmp_path / "d", tmp_path / "b.bin"))
    assert catalogue.names() == ("a.bin", "b.bin")
    image = catalogue.image("a.bin")
    assert (image.size_bytes, image.md5) == (5, hashlib.md5(b"alpha").hexdigest())
    assert image.sha512 == hashlib.sha512(b"alpha").hexdigest()


@pytest.mark.parametrize("name", ["", "..", "d/a.bin", "/a.bin", "A.BIN", "b.bin"])
def test_names_are_looked_up_never_resolved(tmp_path: Path, name: str) -> None:
    """Whatever is not exactly a known name is unknown."""
    (tmp_path / "a.bin").write_bytes(b"x")
    with pytest.raises(ImageUnknown, match=r"not in the catalogue, which has a.bin"):
        Catalogue((tmp_path / "a.bin",)).image(name)


def test_a_file_is_hashed_once_per_state(tmp_path: Path) -> None:
    """The second question costs no reading; a changed file is hashed anew."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 3_000_000)
    catalogue = Catalogue((path,))
    steps: list[tuple[int, int]] = []
    first = catalogue.image("a.bin", on_progress=lambda done, size: steps.append((done, size)))
    assert steps == [(1 << 20, 3_000_000), (2 << 20, 3_000_000), (3_000_000, 3_000_000)]
    assert catalogue.image("a.bin", on_progress=lambda done, size: steps.append((done, size))) == first
    assert len(steps) == 3
    path.write_bytes(b"y" * 3_000_000)
    os.utime(path, ns=(1, 1))
    assert catalogue.image("a.bin").md5 != first.md5


def test_digests_are_kept_between_runs(tmp_path: Path) -> None:
    """A second catalogue with the same cache file reads nothing of the image."""
    (tmp_path / "a.bin").write_bytes(b"CW_BEGIN$$CW_IMAGE$C870-ADVIPSERVICESK9-M$")
    cache = tmp_path / "cache" / "hashes.json"
    first = Catalogue((tmp_path / "a.bin",), cache_path=cache).image("a.bin")
    assert first.inside == "C870-ADVIPSERVICESK9-M"
    again = Catalogue((tmp_path / "a.bin",), cache_path=cache)
    assert again.image("a.bin", on_progress=lambda done, size: pytest.fail("hashed again")) == first


@pytest.mark.parametrize("text", ["", "[]", "{", '{"k": 5}', '{"k": ["a"]}'])
def test_a_broken_cache_costs_time_only(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A cache that cannot be read is reported and done without."""
    (tmp_path / "a.bin").write_bytes(b"x")
    cache = tmp_path / "hashes.json"
    cache.write_text(text)
    with caplog.at_level(logging.WARNING):
        catalogue = Catalogue((tmp_path / "a.bin",), cache_path=cache)
    assert catalogue.image("a.bin").md5 == hashlib.md5(b"x").hexdigest()
    assert "images are hashed again" in caplog.text


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file where the cache's directory should be is a warning, not an error."""
    (tmp_path / "a.bin").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert Catalogue((tmp_path / "a.bin",), cache_path=tmp_path / "file" / "hashes.json").image("a.bin").size_bytes
    assert "cannot be" in caplog.text


def test_a_file_that_changes_while_it_is_hashed_is_refused(tmp_path: Path) -> None:
    """Digests of half old and half new bytes are never kept."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x" * 2_000_000)

    def change(done: int, size: int) -> None:
        with path.open("ab") as file:
            file.write(b"more")

    with pytest.raises(ImageUnreadable, match="changed while it was hashed"):
        Catalogue((path,)).image("a.bin", on_progress=change)


@pytest.mark.parametrize("what", ["missing", "empty-directory", "no-paths", "bad-name", "twice"])
def test_bad_image_paths_are_one_sentence(tmp_path: Path, what: str) -> None:
    """What cannot serve is refused before anything starts, with what to do."""
    (tmp_path / "d").mkdir()
    if what == "bad-name":
        (tmp_path / "d" / "two words.bin").write_bytes(b"x")
    if what == "twice":
        (tmp_path / "d" / "a.bin").write_bytes(b"x")
        (tmp_path / "a.bin").write_bytes(b"y")
    paths, message = {
        "missing": ((tmp_path / "nope",), "No such file or directory. Give a readable file or directory"),
        "empty-directory": ((tmp_path / "d",), "expected image files in this directory, found none"),
        "no-paths": ((), "expected at least one image file or directory"),
        "bad-name": ((tmp_path / "d",), "visible ASCII without spaces; rename it"),
        "twice": ((tmp_path / "d", tmp_path / "a.bin"), "share the name 'a.bin'. Rename one"),
    }[what]
    with pytest.raises(CatalogueInvalid, match=message):
        Catalogue(paths)


def test_empty_and_vanished_images_are_refused(tmp_path: Path) -> None:
    """An image without bytes is no image, and one that is gone is named with its path."""
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "gone.bin").write_bytes(b"x")
    catalogue = Catalogue((tmp_path,))
    with pytest.raises(ImageUnreadable, match="found an empty file"):
        catalogue.image("empty.bin")
    (tmp_path / "gone.bin").unlink()
    with pytest.raises(ImageUnreadable, match=r"gone.bin: No such file or directory. Put the file back"):
        catalogue.image("gone.bin")


def test_only_the_hashed_state_is_opened(tmp_path: Path) -> None:
    """The file as it was hashed opens; grown, replaced or turned into a pipe it does not."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"x")
    image = Catalogue((path,)).image("a.bin")
    os.close(open_unchanged(path, image.identity))
    path.write_bytes(b"xy")
    with pytest.raises(ImageUnreadable, match="changed on disk since it was hashed"):
        open_unchanged(path, image.identity)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ImageUnreadable, match="changed on disk"):
        open_unchanged(path, image.identity)


def test_a_name_that_cannot_be_used_does_not_block_the_others(tmp_path: Path) -> None:
    """A file with a blank in a folder is left out, with the reason; asked for by itself it is refused with the same."""
    (tmp_path / "good.bin").write_bytes(b"x")
    for name in ("with blank.bin", "\u00e9.bin"):
        (tmp_path / name).write_bytes(b"y")
    catalogue = Catalogue((tmp_path,))
    assert catalogue.names() == ("good.bin",)
    reason = f"{tmp_path}/with blank.bin: expected a name of visible ASCII without spaces; rename it"
    assert reason in catalogue.left_out
    assert len(catalogue.left_out) == 2
    with pytest.raises(ImageUnknown, match=r"which has good\.bin \(.*expected a name of visible ASCII"):
        catalogue.image("with blank.bin")
    with pytest.raises(CatalogueInvalid, match=r"with blank\.bin: expected a name of visible ASCII without spaces"):
        Catalogue((tmp_path / "with blank.bin",))


def test_a_folder_of_nothing_but_such_names_says_so(tmp_path: Path) -> None:
    """Then there is nothing to offer, and each file's reason is told."""
    (tmp_path / "with blank.bin").write_bytes(b"y")
    with pytest.raises(
        CatalogueInvalid, match=r"expected image files in this directory, found none \(.*without spaces"
    ):
        Catalogue((tmp_path,))
