"""Where only port 22 is open: by rsync over SSH from a real sshd of our own, with resumption and the same proofs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.catalogue.folder import CatalogueFolder
from flashferry.depot.catalogue.part import Part
from flashferry.depot.sync import syncing
from flashferry.depot.sync.filling import SourceRefused, SourceUnreachable, SourceWrong, SyncStopped
from flashferry.depot.sync.rsync import RsyncSource
from flashferry.depot.sync.syncing import Offered, offered_as
from flashferry.images.manifest import Manifest, manifest_of, to_text
from tests.needs import lacking, need_root
from tests.patience import PATIENCE_S, until

CHUNK, SIZE, NAME = 65_536, 20 * 65_536 + 999, "image.bin"
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin:/sbin")


sync_image = partial(syncing.sync_image, give_up_s=0)
"""Nothing here is worth a second try."""


@dataclass
class SshHost:
    """A host with sshd and a folder of images."""

    folder: Path
    port: int
    data: bytes
    manifest: Manifest

    @property
    def source(self) -> RsyncSource:
        return RsyncSource(
            target=f"root@127.0.0.1:{self.folder}/images",
            port=self.port,
            identity=self.folder / "key",
            known_hosts=self.folder / "known_hosts",
        )

    @property
    def wanted(self) -> Offered:
        return Offered(name=NAME, size_bytes=SIZE, sha512=self.manifest.sha512)


def _key(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    need_root("an sshd")
    if missing := [name for name, found in {"rsync": shutil.which("rsync"), "sshd": SSHD}.items() if not found]:
        lacking(f"{', '.join(missing)} not installed")
    folder = tmp_path_factory.mktemp("ssh")
    (folder / "images").mkdir()
    data = os.urandom(SIZE)
    (folder / "images" / NAME).write_bytes(data)
    manifest = manifest_of(folder / "images" / NAME, chunk_bytes=CHUNK)
    (folder / "images" / f"{NAME}.manifest.json").write_text(to_text(manifest))
    _key(folder / "key")
    _key(folder / "host_key")
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "sshd_config"
    lines = (
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host_key\nAuthorizedKeysFile {folder}/authorized_keys",
        "StrictModes no\nPidFile none\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no",
    )
    config.write_text("\n".join(lines))
    public = (folder / "host_key.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {public[0]} {public[1]}\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    assert SSHD is not None
    with subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=subprocess.PIPE) as sshd:
        try:
            listening = f":{port:04X} 00000000:0000 0A"
            until(
                lambda: sshd.poll() is not None or listening in Path("/proc/net/tcp").read_text(),
                "sshd listens",
            )
            if sshd.poll() is not None:
                why = (sshd.stderr.read() if sshd.stderr else b"").decode()
                lacking(f"sshd does not start: {why}")
            yield SshHost(folder=folder, port=port, data=data, manifest=manifest)
        finally:
            sshd.terminate()


@pytest.fixture
def catalogue(tmp_path: Path) -> CatalogueFolder:
    return CatalogueFolder(tmp_path / "catalogue")


def test_an_image_comes_by_it(host: SshHost, catalogue: CatalogueFolder) -> None:
    """Its manifest first, then the image; proven as by HTTP, and not again where it is there."""
    wanted = offered_as(host.source, NAME)
    assert wanted == host.wanted
    synced = sync_image(host.source, wanted, catalogue)
    assert (synced.by, synced.came_bytes) == ("rsync", SIZE)
    assert (catalogue.path / NAME).read_bytes() == host.data
    assert sync_image(host.source, wanted, catalogue).came_bytes == 0


@pytest.mark.parametrize("there_bytes", [1, CHUNK, 3 * CHUNK + 17, SIZE - 1])
def test_what_a_killed_one_wrote_is_gone_on_with(host: SshHost, catalogue: CatalogueFolder, there_bytes: int) -> None:
    """From the byte where it ends."""
    with catalogue.locked(), Part(catalogue.path, host.manifest):
        pass
    (catalogue.path / f".{NAME}.part").write_bytes(host.data[:there_bytes])
    synced = sync_image(host.source, host.wanted, catalogue)
    assert synced.came_bytes == SIZE - there_bytes
    assert (catalogue.path / NAME).read_bytes() == host.data


def test_what_is_wrong_in_it_is_fetched_again(host: SshHost, catalogue: CatalogueFolder) -> None:
    """From its chunk on, where nothing behind it is known to be right; else it alone."""
    with catalogue.locked(), Part(catalogue.path, host.manifest):
        pass
    (catalogue.path / f".{NAME}.part").write_bytes(host.data[: 2 * CHUNK] + b"x" * (3 * CHUNK))
    assert sync_image(host.source, host.wanted, catalogue).came_bytes == SIZE - 2 * CHUNK
    with (catalogue.path / NAME).open("r+b") as file:
        os.pwrite(file.fileno(), b"damaged", 5 * CHUNK)
    assert catalogue.verify()[0].bad_chunks == (5,)
    sync_image(host.source, host.wanted, catalogue)
    assert (catalogue.path / NAME).read_bytes() == host.data


def test_a_source_whose_image_is_not_its_manifest_s(host: SshHost, catalogue: CatalogueFolder) -> None:
    """It is blamed after three times."""
    other = host.folder / "images" / "wrong.bin"
    other.write_bytes(host.data[:-1] + bytes([host.data[-1] ^ 1]))
    text = (host.folder / "images" / f"{NAME}.manifest.json").read_text().replace(NAME, "wrong.bin")
    (host.folder / "images" / "wrong.bin.manifest.json").write_text(text)
    wanted = Offered(name="wrong.bin", size_bytes=SIZE, sha512=host.manifest.sha512)
    with pytest.raises(SourceWrong, match="expected chunk 20"):
        sync_image(host.source, wanted, catalogue)
    assert not (catalogue.path / "wrong.bin").exists()


@pytest.mark.parametrize("size_bytes", [SIZE - CHUNK - 5, SIZE + 3 * CHUNK])
def test_a_source_whose_image_has_another_size(host: SshHost, catalogue: CatalogueFolder, size_bytes: int) -> None:
    """It is blamed at once: rsync brings nothing more and says that all is well. And no disk is filled by it."""
    (host.folder / "images" / "size.bin").write_bytes((host.data + bytes(3 * CHUNK))[:size_bytes])
    text = (host.folder / "images" / f"{NAME}.manifest.json").read_text().replace(NAME, "size.bin")
    (host.folder / "images" / "size.bin.manifest.json").write_text(text)
    wanted = Offered(name="size.bin", size_bytes=SIZE, sha512=host.manifest.sha512)
    until_s = time.monotonic() + PATIENCE_S
    with pytest.raises(SourceWrong, match="another size"):
        sync_image(host.source, wanted, catalogue, interrupted=lambda: time.monotonic() > until_s)
    assert (catalogue.path / ".size.bin.part").stat().st_size <= SIZE
    assert not (catalogue.path / "size.bin").exists()


def test_a_catalogue_whose_path_looks_like_an_option(
    host: SshHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or like a host: it is a folder all the same."""
    monkeypatch.chdir(tmp_path)
    for folder in ("--rsync-path=x", "host:x"):
        sync_image(host.source, host.wanted, CatalogueFolder(Path(folder)))
        assert (tmp_path / folder / NAME).read_bytes() == host.data


def test_a_refusal_is_told(host: SshHost, catalogue: CatalogueFolder, tmp_path: Path) -> None:
    """A file that is not there, a key that is not known, a host that is another one: at once. No line: in the end."""
    with pytest.raises(SourceRefused, match=r"none\.bin"):
        offered_as(host.source, "none.bin")
    stranger = tmp_path / "stranger"
    _key(stranger)
    target = host.source.target
    with pytest.raises(SourceRefused, match=r"(?i)permission denied"):
        offered_as(
            RsyncSource(target=target, port=host.port, identity=stranger, known_hosts=host.folder / "known_hosts"), NAME
        )
    (tmp_path / "nobody").touch()
    with pytest.raises(SourceRefused, match=r"(?i)host key"):
        offered_as(
            RsyncSource(target=target, port=host.port, identity=host.folder / "key", known_hosts=tmp_path / "nobody"),
            NAME,
        )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    gone = RsyncSource(target=target, port=port, identity=host.folder / "key", known_hosts=host.folder / "known_hosts")
    with pytest.raises(SourceUnreachable, match=r"(?i)refused"):
        sync_image(gone, host.wanted, catalogue)


def test_it_ends_where_somebody_wants_it_to(host: SshHost, catalogue: CatalogueFolder) -> None:
    """And no rsync goes on behind us."""
    slow = RsyncSource(
        target=host.source.target,
        port=host.port,
        identity=host.folder / "key",
        known_hosts=host.folder / "known_hosts",
        cap_bytes_per_s=200_000,
    )
    asked = 0

    def interrupted() -> bool:
        nonlocal asked
        path = catalogue.path / f".{NAME}.part"
        asked += path.exists() and path.stat().st_size > 0
        return asked > 1

    with pytest.raises(SyncStopped):
        sync_image(slow, host.wanted, catalogue, interrupted=interrupted)
    size_bytes = (catalogue.path / f".{NAME}.part").stat().st_size
    assert 0 < size_bytes < SIZE
    assert sync_image(host.source, host.wanted, catalogue).came_bytes <= SIZE - size_bytes + CHUNK


@pytest.mark.parametrize(
    "target", ["", "host:/x", "u@h", "u@h:", "u@-oProxyCommand=x:/x", "-u@h:/x", "u@h:/x y", "u@h:$(id)", "u@h:/a/../b"]
)
def test_a_target_that_is_none(target: str) -> None:
    """No option, no command and no way out is made of it."""
    with pytest.raises(ConfigInvalid, match="--rsync: expected USER@HOST:FOLDER"):
        RsyncSource(target=target)


def test_no_secret_is_in_its_command(host: SshHost) -> None:
    """Which everybody on the host can read; it asks nobody and trusts no new host."""
    words = " ".join(host.source.command(NAME, Path("/x"), "--partial"))
    assert "BatchMode=yes" in words
    assert "StrictHostKeyChecking=yes" in words
    assert (host.folder / "key").read_text().split()[5] not in words
