"""A catalogue that is filled from a real source: sites share their caps, disks fill up, sources die and change."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from flashferry import api
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import CatalogueFull, HeldState
from flashferry.depot.sync.filling import SourceChanged, SourceRefused
from flashferry.depot.sync.source import Login, Source
from flashferry.depot.sync.syncing import offered_as, offered_by, sync_image
from flashferry.fileserver import FixedLogin
from flashferry.images.manifest import CATALOGUE_NAME
from tests.component.depot.sync_bench import CHUNK, NAME, SITE, SyncBench, sync_bench
from tests.needs import lacking, need_root
from tests.patience import PATIENCE_S, until

SIZE = 20 * CHUNK


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[SyncBench]:
    with sync_bench(tmp_path, size_bytes=SIZE) as found:
        yield found


def test_what_is_there_is_not_fetched_again(bench: SyncBench) -> None:
    """The second sync asks, and takes nothing of the image."""
    first = sync_image(bench.source, offered_by(bench.source)[0], bench.catalogue())
    assert (first.came_bytes, first.kept_bytes) == (SIZE, 0)
    assert bench.settled_bytes() == SIZE
    again = sync_image(bench.source, offered_by(bench.source)[0], bench.catalogue())
    assert (again.came_bytes, again.kept_bytes) == (0, SIZE)
    assert bench.settled_bytes() == SIZE


def test_a_damaged_image_costs_its_bad_chunks(bench: SyncBench) -> None:
    """Found by 'verify', mended by the next sync, by exactly those bytes."""
    catalogue = bench.catalogue()
    sync_image(bench.source, offered_by(bench.source)[0], catalogue)
    for at in (70_000, 10 * CHUNK + 5, 11 * CHUNK):
        with (catalogue.path / NAME).open("r+b") as file:
            byte = os.pread(file.fileno(), 1, at)[0]
            os.pwrite(file.fileno(), bytes([byte ^ 1]), at)
    found = api.depot_verify(catalogue=catalogue.path)
    assert found.images[0].bad_chunks == (1, 10, 11)
    assert found.exit_code == api.ExitCode.DEVICES_FAILED
    before = bench.settled_bytes()
    mended = sync_image(bench.source, offered_by(bench.source)[0], catalogue)
    assert bench.settled_bytes() - before == mended.came_bytes == 3 * CHUNK
    assert (catalogue.path / NAME).read_bytes() == bench.data


def test_an_image_that_changes_at_the_centre(bench: SyncBench) -> None:
    """In the midst of its copy: the old one gets no name, and who wants what there is gets the new one, whole."""
    changed = threading.Event()

    def change(progress: api.SyncProgress) -> None:
        if progress.done_bytes > 5 * CHUNK and not changed.is_set():
            changed.set()
            bench.put(os.urandom(SIZE))
            # What is under way is the old one's, to its end or until the line breaks; here it breaks.
            os.kill(bench.server.pid, 9)
        elif changed.is_set() and progress.text:  # the line broke
            bench.server.revive()

    old = offered_by(bench.source)[0]
    request = api.SyncRequest(source=bench.source, catalogue=bench.catalogue().path, give_up_s=PATIENCE_S)
    result = api.depot_sync(request, on_progress=change)
    assert result.exit_code == api.ExitCode.OK, result
    assert (bench.catalogue().path / NAME).read_bytes() == bench.data
    synced = result.images[0].synced
    assert synced is not None
    assert synced.image.sha512 != old.sha512
    with pytest.raises(SourceChanged, match="found 1310720 bytes with"):
        sync_image(bench.source, old, bench.catalogue("other"))


def test_a_source_that_is_killed_and_comes_back(bench: SyncBench) -> None:
    """It is gone on with, by no more than a chunk and what the line held."""
    killed = threading.Event()

    def kill(progress: api.SyncProgress) -> None:
        if progress.done_bytes > 5 * CHUNK and not killed.is_set():
            killed.set()
            os.kill(bench.server.pid, 9)
        elif killed.is_set() and progress.text:  # the line broke
            bench.server.revive()

    synced = sync_image(bench.source, offered_by(bench.source)[0], bench.catalogue(), kill, give_up_s=PATIENCE_S)
    assert killed.is_set()
    assert synced.breaks >= 1
    assert synced.came_bytes == SIZE
    assert (bench.catalogue().path / NAME).read_bytes() == bench.data


def test_each_site_has_a_login_and_a_cap_of_its_own(bench: SyncBench) -> None:
    """The copies of a site's devices and its depot's sync have the site's cap; another site's sync has none."""
    files = bench.offered_files()
    bench.server.admit(FixedLogin(username="far", password="long-enough-2", site="far"), files)
    bench.server.set_site_cap(SITE, 400_000)
    far = Source(url=bench.url, login=Login(username="far", password="long-enough-2"))
    image = next(one for one in files if one.name == NAME)
    caps = {}
    for name, source in (("far", far), ("near", bench.source)):
        before = len(bench.records)
        with bench.device_of(image) if name == "near" else nullcontext():
            sync_image(source, offered_as(source, NAME), bench.catalogue(name))
        assert (bench.catalogue(name).path / NAME).read_bytes() == bench.data
        records = until(lambda before=before: bench.records_of_image(before), "the record of the sync")
        caps[name] = {one.sender.shared_cap_bytes_per_s for one in records}
    assert caps == {"far": {None}, "near": {400_000}}


def test_logins_are_told_apart(bench: SyncBench) -> None:
    """One that lets in from elsewhere alone, a wrong password, a user that is nobody's: each its own sentence."""
    files = bench.offered_files()
    bench.server.admit(FixedLogin(username="away", password="long-enough-3", source_addresses=("192.0.2.0/24",)), files)
    for user, word, told in (
        ("away", "long-enough-3", "does not let user away in from here"),
        ("branch", "wrong-word-9", "did not take user branch's password"),
        ("nobody", "long-enough-3", "did not take user nobody's password"),
    ):
        with pytest.raises(SourceRefused, match=told):
            Source(url=bench.url, login=Login(username=user, password=word)).fetch_small(CATALOGUE_NAME, 1000)


def mounted(folder: Path, size_bytes: int) -> bool:
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk that has less room than the image."""
    folder = tmp_path / "disk"
    need_root("mounting a small disk")
    if not mounted(folder, 12 * CHUNK):
        lacking("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_without_room_is_told_before(bench: SyncBench, small_disk: Path) -> None:
    """Before a byte of the image is asked for."""
    with pytest.raises(CatalogueFull, match=r"expected room for 1\.3 MB of image\.bin, found"):
        sync_image(bench.source, offered_by(bench.source)[0], CatalogueFolder(small_disk))
    assert bench.settled_bytes() == 0


def test_a_disk_that_fills_up_in_the_midst(bench: SyncBench, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that copies on write does, whose room cannot be taken before: what is verified is kept."""
    monkeypatch.setattr("flashferry.depot.catalogue.part.Part.reserve", lambda _self: None)
    catalogue = CatalogueFolder(small_disk)
    with pytest.raises(CatalogueFull, match="the disk says that it is full") as caught:
        sync_image(bench.source, offered_by(bench.source)[0], catalogue)
    assert "Free some space there" in (caught.value.hint or "")
    (held,) = catalogue.list()
    assert held.state is HeldState.PARTIAL
    assert held.verified_bytes >= 5 * CHUNK
    assert not (catalogue.path / NAME).exists()
    subprocess.run(["mount", "-o", f"remount,size={40 * CHUNK}", str(small_disk)], check=True)
    synced = sync_image(bench.source, offered_by(bench.source)[0], catalogue)
    assert synced.kept_bytes == held.verified_bytes
    assert (catalogue.path / NAME).read_bytes() == bench.data
