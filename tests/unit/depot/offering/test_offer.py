"""What is offered follows the catalogue: what is new once it rests, and never a file under a wrong manifest."""

import json
import os
from pathlib import Path

import pytest

from flashferry.depot.offering.offer import Offer, OfferFolders, Offering
from flashferry.images.manifest import from_text, manifest_of
from flashferry.images.safe_open import FileIdentity

PLAN = f"plan-{'ab' * 32}.json"


@pytest.fixture
def folders(tmp_path: Path) -> OfferFolders:
    found = OfferFolders(
        catalogue=tmp_path / "catalogue",
        plans=tmp_path / "catalogue" / "plans",
        made=tmp_path / "state" / "offer",
        kept=tmp_path / "state" / "manifests.json",
        digests=tmp_path / "state" / "digests.json",
    )
    found.plans.mkdir(parents=True)
    return found


def put(folders: OfferFolders, name: str = "image.bin", data: bytes = b"x" * 5000, age_s: int = 3600) -> Path:
    path = folders.catalogue / name
    path.write_bytes(data)
    return path


class Clock:
    """A clock that is ahead of all files."""

    def __init__(self, ahead_s: float = 10) -> None:
        self.ahead_s = ahead_s

    def __call__(self) -> float:
        import time

        return time.time() + self.ahead_s


def offering(folders: OfferFolders, ahead_s: float = 10) -> Offering:
    return Offering(folders, clock=Clock(ahead_s))


def all_of(made: Offering) -> Offer:
    """Look until there is nothing new."""
    last: Offer | None = None
    while (found := made.update()) is not None:
        last = found
    assert last is not None
    return last


def test_images_manifests_plans_and_the_list(folders: OfferFolders) -> None:
    """Each as a file that can be fetched; the list has name, size and SHA-512."""
    put(folders)
    (folders.plans / PLAN).write_text("{}")
    offer = all_of(offering(folders))
    assert {one.name for one in offer.files} == {"image.bin", "image.bin.manifest.json", "catalogue.json", PLAN}
    files = {one.name: one for one in offer.files}
    manifest = from_text(files["image.bin.manifest.json"].path.read_text())
    assert manifest == manifest_of(folders.catalogue / "image.bin")
    assert json.loads(files["catalogue.json"].path.read_text())["images"] == [
        {"name": "image.bin", "size_bytes": 5000, "sha512": manifest.sha512}
    ]
    assert all(FileIdentity.of(one.path.lstat()) == one.identity for one in offer.files)
    assert (folders.made / "image.bin").read_bytes() == b"x" * 5000
    assert (offer.images, offer.plans) == (1, 1)


def test_nothing_new_is_told_once(folders: OfferFolders) -> None:
    """A look that finds nothing new says so."""
    put(folders)
    made = offering(folders)
    all_of(made)
    assert made.update() is None


def test_a_change_is_offered_without_a_restart(folders: OfferFolders) -> None:
    """An image that was put there, replaced or taken away."""
    path = put(folders)
    made = offering(folders)
    first = all_of(made)
    put(folders, "other.bin")
    assert all_of(made).images == 2
    fresh = path.with_name(".fresh")
    fresh.write_bytes(b"y" * 6000)
    fresh.replace(path)
    second = all_of(made)
    sha512 = {one.name: one.sha512 for one in second.files}
    assert sha512["image.bin"] != {one.name: one.sha512 for one in first.files}["image.bin"]
    path.unlink()
    last = all_of(made)
    assert {one.name for one in last.files} == {"other.bin", "other.bin.manifest.json", "catalogue.json"}
    assert sorted(one.name for one in folders.made.iterdir()) == [
        "catalogue.json",
        "other.bin",
        "other.bin.manifest.json",
    ]


def test_a_file_that_is_being_copied_is_not_offered_yet(folders: OfferFolders) -> None:
    """It looks like an image, and is none until nobody has written to it for a while."""
    put(folders)
    made = offering(folders, ahead_s=0)
    assert all_of(made).images == 0


def test_what_was_read_is_not_read_again(folders: OfferFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor by the next process."""
    put(folders)
    all_of(offering(folders))
    monkeypatch.setattr("flashferry.depot.offering.offer.read_manifest", lambda *_, **__: pytest.fail("read again"))
    assert all_of(offering(folders)).images == 1


def test_what_cannot_be_offered_is_told(folders: OfferFolders, tmp_path: Path) -> None:
    """Links, pipes, names that no copy can have or that are a small file's; hidden and empty ones are passed over."""
    (tmp_path / "elsewhere").write_bytes(b"x")
    (folders.catalogue / "link.bin").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folders.catalogue / "pipe.bin")
    for name in ("a b.bin", "catalogue.json", PLAN, ".hidden.bin"):
        put(folders, name)
    (folders.catalogue / "empty.bin").touch()
    offer = all_of(offering(folders))
    assert offer.images == 0
    assert len(offer.left_out) == 5


def test_a_folder_that_is_not_there_offers_nothing(tmp_path: Path) -> None:
    """But the list, which says so."""
    gone = tmp_path / "gone"
    folders = OfferFolders(
        catalogue=gone, plans=gone / "plans", made=tmp_path / "o", kept=tmp_path / "m", digests=tmp_path / "d"
    )
    assert [one.name for one in all_of(offering(folders)).files] == ["catalogue.json"]
