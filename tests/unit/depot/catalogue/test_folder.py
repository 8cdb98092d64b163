"""A catalogue: a name is there only once its image is proven, and no longer than it is what was proven."""

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import CatalogueBusy, CatalogueFull, HeldState, Part, disk_errors
from flashferry.images.manifest import Manifest, ManifestBuilder

CHUNK = 1000
DATA = bytes(range(256)) * 14
NAME = "image.bin"


def manifest(data: bytes = DATA) -> Manifest:
    so_far = ManifestBuilder(CHUNK)
    so_far.feed(data)
    return so_far.end(NAME)[0]


@pytest.fixture
def catalogue(tmp_path: Path) -> CatalogueFolder:
    return CatalogueFolder(tmp_path / "catalogue")


def fill(catalogue: CatalogueFolder, data: bytes = DATA, *, upto: int | None = None) -> None:
    """Put an image into a catalogue; or so many of its chunks alone."""
    with catalogue.locked(), Part(catalogue.path, manifest(data)) as part:
        part.reserve()
        for number in range(len(part.manifest.chunks))[:upto]:
            first, end = part.manifest.span(number)
            part.write(number, first, data[first:end])
            part.keep(number)
        if part.is_whole:
            catalogue.place(part, "https://source")


def flip(path: Path, at: int) -> None:
    """Turn a bit of a file around, as a disk does: its times stay as they are."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def states(catalogue: CatalogueFolder) -> list[HeldState]:
    return [one.state for one in catalogue.list()]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Path]]:
    """Which images are read whole."""
    seen: list[Path] = []
    from flashferry.depot.catalogue import folder

    real = folder.read_manifest

    def noted(path, **more):
        seen.append(path)
        return real(path, **more)

    monkeypatch.setattr(folder, "read_manifest", noted)
    return seen


def test_a_name_is_there_once_the_image_is(catalogue: CatalogueFolder, read: list[Path]) -> None:
    """Until its last chunk there is a hidden name; then it is proven, without being read again and again."""
    fill(catalogue, upto=2)
    assert not (catalogue.path / NAME).exists()
    assert states(catalogue) == [HeldState.PARTIAL]
    assert catalogue.list()[0].verified_bytes == 2 * CHUNK
    fill(catalogue)
    proven = catalogue.proven(NAME)
    assert proven is not None
    assert (proven.path.read_bytes(), proven.sha512) == (DATA, manifest().sha512)
    assert states(catalogue) == [HeldState.PROVEN]
    assert read == []
    assert sorted(path.name for path in catalogue.path.iterdir()) == [f".{NAME}.proof.json", ".lock", NAME]


def test_what_was_touched_is_read_again(catalogue: CatalogueFolder, read: list[Path]) -> None:
    """Once, if it is the same still; then the proof is of its new state."""
    fill(catalogue)
    os.utime(catalogue.path / NAME)
    assert catalogue.proven(NAME) is not None
    assert catalogue.proven(NAME) is not None
    assert len(read) == 1


def test_what_was_written_to_is_proven_no_more(catalogue: CatalogueFolder) -> None:
    """It is told as damaged, and has its name until somebody verifies or syncs."""
    fill(catalogue)
    with (catalogue.path / NAME).open("r+b") as file:
        file.write(b"zz")
    assert catalogue.proven(NAME) is None
    assert states(catalogue) == [HeldState.DAMAGED]


def test_verify_names_the_chunks_and_takes_the_name(catalogue: CatalogueFolder) -> None:
    """A bit that fell over changes no time: only reading finds it. What is right stays for the next sync."""
    fill(catalogue)
    flip(catalogue.path / NAME, 1500)
    (found,) = catalogue.verify()
    assert (found.state, found.bad_chunks) == (HeldState.DAMAGED, (1,))
    assert not (catalogue.path / NAME).exists()
    assert catalogue.proven(NAME) is None
    with Part(catalogue.path, manifest()) as part:
        assert part.gap() == (1000, 2000)


@pytest.mark.parametrize("size_bytes", [0, 1, 999, 1000, 2500])
def test_a_file_that_was_cut_is_repaired_from_there(catalogue: CatalogueFolder, size_bytes: int) -> None:
    """What is missing counts as damaged."""
    fill(catalogue)
    os.truncate(catalogue.path / NAME, size_bytes)
    (found,) = catalogue.verify((NAME,))
    assert found.bad_chunks == tuple(range(size_bytes // CHUNK, len(manifest().chunks)))
    with Part(catalogue.path, manifest()) as part:
        assert part.gap() == (size_bytes // CHUNK * CHUNK, len(DATA))


def test_verify_says_what_cannot_be_held_against_anything(catalogue: CatalogueFolder) -> None:
    """A file that no sync brought, one that is gone, and a name that is nobody's."""
    fill(catalogue)
    (catalogue.path / "other.bin").write_bytes(b"x")
    (catalogue.path / NAME).unlink()
    assert [one.state for one in catalogue.verify()] == [HeldState.MISSING, HeldState.UNPROVEN]
    with pytest.raises(ConfigInvalid, match="no such image"):
        catalogue.verify(("none.bin",))


def test_one_has_it_at_a_time(catalogue: CatalogueFolder) -> None:
    """Another is told whose it is."""
    with catalogue.locked(), pytest.raises(CatalogueBusy, match=f"found process {os.getpid()}"), catalogue.locked():
        pass


def test_a_state_of_another_image_counts_for_nothing(catalogue: CatalogueFolder) -> None:
    """The image changed where it comes from: it is begun anew."""
    fill(catalogue, upto=2)
    with Part(catalogue.path, manifest(DATA[::-1])) as part:
        assert part.verified_bytes == 0
        assert part.size_bytes == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"schema": "flashferry.part/1"}', '{"verified": "111"}'])
def test_a_damaged_state_counts_for_nothing(catalogue: CatalogueFolder, text: str) -> None:
    """Nothing that it might say is believed."""
    fill(catalogue, upto=2)
    (catalogue.path / f".{NAME}.part.json").write_text(text)
    with Part(catalogue.path, manifest()) as part:
        assert part.verified_bytes == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "flashferry.proof/1"}', '{"manifest": 1}'])
def test_a_damaged_proof_proves_nothing(catalogue: CatalogueFolder, text: str) -> None:
    """The name is one like any other then."""
    fill(catalogue)
    (catalogue.path / f".{NAME}.proof.json").write_text(text)
    assert catalogue.proven(NAME) is None
    assert states(catalogue) == [HeldState.UNPROVEN]


def test_a_proof_is_of_its_own_name(catalogue: CatalogueFolder) -> None:
    """One that was copied beside another name proves nothing there."""
    fill(catalogue)
    proof = json.loads((catalogue.path / f".{NAME}.proof.json").read_text())
    (catalogue.path / "other.bin").write_bytes(DATA)
    (catalogue.path / ".other.bin.proof.json").write_text(json.dumps(proof))
    assert catalogue.proven("other.bin") is None


@pytest.mark.parametrize("ending", [".part", ".part.json", ".part.at"])
def test_a_link_in_the_place_of_our_file_is_refused(catalogue: CatalogueFolder, tmp_path: Path, ending: str) -> None:
    """It would have us write wherever it leads."""
    catalogue.make()
    (tmp_path / "elsewhere").write_text("mine")
    (catalogue.path / f".{NAME}{ending}").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigInvalid, match="found a link"):
        Part(catalogue.path, manifest())
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_chunk_that_was_written_and_not_kept_is_looked_at(catalogue: CatalogueFolder) -> None:
    """A process that was killed right there costs no byte of it; one that was written wrong does not count."""
    fill(catalogue, upto=1)
    with Part(catalogue.path, manifest()) as part:
        part.write(1, 1000, DATA[1000:2000])
    with Part(catalogue.path, manifest()) as part:
        part.regain()
        assert part.gap() == (2000, len(DATA))
        part.write(2, 2000, b"x" * CHUNK)
    with Part(catalogue.path, manifest()) as part:
        part.regain()
        assert part.gap() == (2000, len(DATA))


def test_what_was_written_of_a_chunk_is_gone_on_with(catalogue: CatalogueFolder) -> None:
    """As far as it goes in the file."""
    fill(catalogue, upto=1)
    with Part(catalogue.path, manifest()) as part:
        part.write(1, 1000, DATA[1000:1300])
    with Part(catalogue.path, manifest()) as part:
        assert part.gap() == (1300, len(DATA))


def test_a_file_of_somebody_s_is_left_alone(catalogue: CatalogueFolder) -> None:
    """One with the name of an image that no sync has put there is taken for the image if it is it, else refused."""
    catalogue.make()
    (catalogue.path / NAME).write_bytes(b"somebody's")
    with pytest.raises(ConfigInvalid, match="found another file of that name"):
        catalogue.adopted(manifest(), "x")
    assert (catalogue.path / NAME).read_bytes() == b"somebody's"
    (catalogue.path / NAME).write_bytes(DATA)
    assert catalogue.adopted(manifest(), "x") is not None
    assert catalogue.proven(NAME) is not None


def test_a_folder_that_is_not_there_holds_nothing(catalogue: CatalogueFolder) -> None:
    """And looking makes none."""
    assert (catalogue.list(), catalogue.verify(), catalogue.proven(NAME)) == ((), (), None)
    assert not catalogue.path.exists()


def test_what_a_killed_process_left_half_written_goes(catalogue: CatalogueFolder) -> None:
    """Nobody else would clear it away."""
    catalogue.make()
    (catalogue.path / f"..{NAME}.part.json.abc.part").write_text("half")
    with catalogue.locked():
        assert [path.name for path in catalogue.path.iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, CatalogueFull), (errno.EDQUOT, CatalogueFull), (errno.EIO, ConfigInvalid)]
)
def test_an_error_of_the_disk_is_told(tmp_path: Path, number: int, kind: type[Exception]) -> None:
    """No room is one thing, a disk or folder that will not do another."""
    with pytest.raises(kind, match=r"image\.bin"), disk_errors(tmp_path, NAME, 5000):
        raise OSError(number, os.strerror(number))


def test_a_disk_that_is_too_small_is_told_before(catalogue: CatalogueFolder) -> None:
    """By both figures, and no room is taken."""
    catalogue.make()
    huge = Manifest(
        name=NAME, size_bytes=1 << 55, sha512="0" * 128, md5="0" * 32, chunk_bytes=1 << 50, chunks=("0" * 64,) * 32
    )
    with Part(catalogue.path, huge) as part:
        with pytest.raises(CatalogueFull, match=r"expected room for 36028.80 TB of image.bin, found "):
            part.reserve()
        assert part.size_bytes == 0


def test_who_looks_while_a_sync_gives_the_name_away_takes_no_proof_from_it(
    catalogue: CatalogueFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look has no lock, and reads for minutes; the old image's proof must not stand beside the new one then."""
    from flashferry.depot.catalogue import folder

    fill(catalogue)
    os.utime(catalogue.path / NAME)
    real, other = folder.read_manifest, bytes(reversed(DATA))
    is_first = iter((True,))

    def slow(path, **more):
        found = real(path, **more)
        if next(is_first, False):
            fill(catalogue, other)
        return found

    monkeypatch.setattr(folder, "read_manifest", slow)
    found = catalogue.proven(NAME)
    assert found is not None
    assert found.sha512 == manifest(other).sha512
    assert states(catalogue) == [HeldState.PROVEN]
    with catalogue.locked():
        catalogue.settle(NAME)
    assert (catalogue.path / NAME).read_bytes() == other


def test_a_chunk_at_hand_is_hashed_piece_by_piece(catalogue: CatalogueFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """How large a chunk is says the source: what is there of one is not taken into memory."""
    from flashferry.depot.sync.filling import Filling, silent

    monkeypatch.setattr("flashferry.depot.catalogue.part._PIECE_BYTES", 64)
    with catalogue.locked(), Part(catalogue.path, manifest()) as part:
        part.write(0, 0, DATA[:900])
        asked = []
        real = part.read
        monkeypatch.setattr(part, "read", lambda at, size: asked.append(size) or real(at, size))
        rest = iter((DATA[900:CHUNK], b""))
        Filling(part, silent, lambda: False, "source").take(lambda _: next(rest), 900, CHUNK)
        assert part.verified[0]
        assert max(asked) <= 64


def test_what_is_here_and_not_verified_is_counted(catalogue: CatalogueFolder) -> None:
    """The chunk at hand, as far as it is written; once it is verified it counts once."""
    fill(catalogue, upto=2)
    assert [(one.here_bytes, one.verified_bytes) for one in catalogue.list()] == [(2 * CHUNK, 2 * CHUNK)]
    with catalogue.locked(), Part(catalogue.path, manifest()) as part:
        part.write(2, 2 * CHUNK, DATA[2 * CHUNK : 2 * CHUNK + 300])
    assert [(one.here_bytes, one.verified_bytes) for one in catalogue.list()] == [(2 * CHUNK + 300, 2 * CHUNK)]


def test_what_rsync_has_brought_is_here_as_far_as_the_file_goes(catalogue: CatalogueFolder) -> None:
    """It takes no room for the whole before."""
    with catalogue.locked(), Part(catalogue.path, manifest()) as part:
        part.start_over()
        part.path.write_bytes(DATA[: CHUNK + 1])
    assert [(one.here_bytes, one.verified_bytes) for one in catalogue.list()] == [(CHUNK + 1, 0)]
