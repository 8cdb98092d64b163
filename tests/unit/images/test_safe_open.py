"""What may be an image: a regular file of the folder on offer, in the state that was hashed, nothing in its place."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.images.catalogue import Catalogue
from flashferry.images.errors import CatalogueInvalid, ImageUnreadable
from flashferry.images.safe_open import (
    FileIdentity,
    administration,
    has_content_of,
    open_in,
    open_unchanged,
    resolve_in,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"image")
    (folder / "sub" / "b.bin").write_bytes(b"deeper")
    (tmp_path / "secret.txt").write_bytes(b"not for routers")
    return folder


def _put_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def _put_device(path: Path) -> None:
    try:
        os.mknod(path, 0o20600, os.makedev(1, 5))  # /dev/zero: it would never end
    except PermissionError:
        pytest.skip("needs root: a device node")


_NO_IMAGES: dict[str, Callable[[Path], None]] = {
    "a named pipe": os.mkfifo,
    "a socket": _put_socket,
    "a device": _put_device,
}


@pytest.mark.parametrize("kind", _NO_IMAGES)
def test_what_is_no_regular_file_is_left_out_of_a_folder(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A FIFO, a socket or a device beside the images is named and left out; nobody waits for it."""
    monkeypatch.chdir(folder)  # a socket's path must be short
    _NO_IMAGES[kind](Path("odd.bin"))
    catalogue = Catalogue((folder,))
    assert catalogue.names() == ("a.bin",)
    assert catalogue.left_out == (
        f"{folder / 'odd.bin'}: expected a regular file, found {kind}; put a plain file there",
    )


@pytest.mark.parametrize("kind", _NO_IMAGES)
def test_what_is_no_regular_file_is_refused_as_an_image(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as the image it is one sentence at once, and so it is when it takes the place of one later."""
    monkeypatch.chdir(folder)
    _NO_IMAGES[kind](Path("odd.bin"))
    with pytest.raises(CatalogueInvalid, match=f"odd.bin: expected a regular file, found {kind}"):
        Catalogue((folder / "odd.bin",))
    catalogue = Catalogue((folder,))
    Path("odd.bin").replace("a.bin")
    with pytest.raises(ImageUnreadable, match=f"expected a regular file, found {kind}"):
        catalogue.image("a.bin")


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    """In a folder it is left out and named, as the image it is refused, and in an image's place it is not followed."""
    (folder / "out.bin").symlink_to(folder.parent / "secret.txt")
    catalogue = Catalogue((folder,))
    assert catalogue.names() == ("a.bin",)
    assert "out.bin: expected a file of this folder, found a link out of it" in catalogue.left_out[0]
    with pytest.raises(CatalogueInvalid, match=r"found a link out of it, to .*secret.txt. Put the file itself there"):
        Catalogue((folder / "out.bin",))
    image = catalogue.image("a.bin")
    (folder / "out.bin").replace(folder / "a.bin")
    with pytest.raises(ImageUnreadable, match=r"found a link out of it"):
        catalogue.image("a.bin")
    with pytest.raises(ImageUnreadable, match="changed on disk"):
        open_unchanged(image.path, image.identity)


def test_a_folder_of_links_out_alone_has_no_image(folder: Path) -> None:
    """The sentence says why nothing in it can be offered."""
    only = folder.parent / "links"
    only.mkdir()
    (only / "a.bin").symlink_to(folder / "a.bin")
    with pytest.raises(CatalogueInvalid, match=r"found none .*found a link out of it"):
        Catalogue((only,))


@pytest.mark.parametrize("target", ["a.bin", "sub/b.bin", "./sub/../a.bin"])
def test_a_link_within_the_folder_is_the_file_it_leads_to(folder: Path, target: str) -> None:
    """Its name is the link's, its content and place are the file's, and it is opened without following anything."""
    (folder / "latest.bin").symlink_to(target)
    catalogue = Catalogue((folder,))
    image = catalogue.image("latest.bin")
    assert (image.name, image.path) == ("latest.bin", (folder / target).resolve())
    os.close(open_unchanged(image.path, image.identity))
    assert Catalogue((folder / "latest.bin",)).image("latest.bin").md5 == image.md5


def test_a_folder_that_is_itself_a_link_is_the_operator_s_choice(folder: Path) -> None:
    """What lies in the folder it leads to is on offer, and what that folder's links lead out to is not."""
    (folder.parent / "current").symlink_to(folder)
    (folder / "out.bin").symlink_to(folder.parent / "secret.txt")
    assert Catalogue((folder.parent / "current",)).names() == ("a.bin",)


def test_a_link_that_leads_nowhere_is_left_out(folder: Path) -> None:
    """Neither a missing target nor a circle of links keeps the rest from being offered."""
    (folder / "gone.bin").symlink_to("nothing")
    (folder / "round.bin").symlink_to("round.bin")
    catalogue = Catalogue((folder,))
    assert catalogue.names() == ("a.bin",)
    assert [reason.partition(": ")[2] for reason in catalogue.left_out] == [
        "No such file or directory",
        "Too many levels of symbolic links",
    ]


def test_a_link_put_in_the_way_between_two_looks_is_not_followed(folder: Path) -> None:
    """A folder on the way, or the file, that becomes a link after it was looked at is an error, not a way out."""
    place = resolve_in(folder / "sub" / "b.bin", folder)
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "b.bin").write_bytes(b"not for routers")
    (folder / "sub").rename(folder / "was")
    (folder / "sub").symlink_to(outside)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        open_in(folder, place)
    (folder / "sub").unlink()
    (folder / "was").rename(folder / "sub")
    place.unlink()
    place.symlink_to(outside / "b.bin")
    with pytest.raises(ImageUnreadable, match="expected a regular file, found a link"):
        open_in(folder, place)


def test_nothing_stays_open(folder: Path) -> None:
    """Looking at images, good or refused, leaves no descriptor behind."""
    os.mkfifo(folder / "odd.bin")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("a.bin", "sub/b.bin", "odd.bin", "nothing"):
        try:
            os.close(open_in(folder, folder / name))
        except (OSError, ImageUnreadable):
            continue
    Catalogue((folder,)).image("a.bin")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_write_whose_time_was_set_back_is_another_state(folder: Path) -> None:
    """Size and modification time as before do not hide that the file was written to: the change time tells."""
    path = folder / "a.bin"
    catalogue = Catalogue((folder,))
    image, before = catalogue.image("a.bin"), path.stat()
    path.write_bytes(b"IMAGE")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert catalogue.image("a.bin").sha512 != image.sha512
    with pytest.raises(ImageUnreadable, match="changed on disk since it was hashed"):
        open_unchanged(image.path, image.identity)


@pytest.mark.parametrize(
    ("what", "same"),
    [("nothing", True), ("unlink", True), ("chmod", True), ("link", True), ("written", False), ("grown", False)],
)
def test_an_open_file_is_judged_by_its_content(folder: Path, what: str, same: bool) -> None:
    """One that lost its name or got another mode is still the image; one that was written to is not."""
    path = folder / "a.bin"
    with path.open("r+b") as file:
        opened = os.fstat(file.fileno())
        if what == "unlink":
            path.unlink()
        elif what == "chmod":
            path.chmod(0o400)
        elif what == "link":
            (folder / "other.bin").hardlink_to(path)
        elif what in ("written", "grown"):
            os.pwrite(file.fileno(), b"IMAGE" if what == "written" else b"IMAGES", 0)
            os.utime(file.fileno(), ns=(opened.st_atime_ns, opened.st_mtime_ns))
        assert has_content_of(FileIdentity.of(opened), administration(opened), os.fstat(file.fileno())) is same


def test_an_image_with_a_time_in_the_future_is_offered_anew(folder: Path) -> None:
    """When it has rested is told by our own clock, whatever the file's time says."""
    now = [100.0]
    catalogue = Catalogue((folder,), clock=lambda: now[0])
    image, path = catalogue.image("a.bin"), folder / "a.bin"
    assert not catalogue.was_replaced(image)
    path.write_bytes(b"newer")
    os.utime(path, (4e9, 4e9))
    assert not catalogue.was_replaced(image)
    now[0] += 1.9
    path.write_bytes(b"newer still")  # being written: the rest begins anew
    os.utime(path, (4e9, 4e9))
    assert not catalogue.was_replaced(image)
    now[0] += 1.9
    assert not catalogue.was_replaced(image)
    now[0] += 0.1
    assert catalogue.was_replaced(image)
    assert not catalogue.was_replaced(catalogue.image("a.bin"))
