"""A depot behind the emulated WAN and its source in front of it: the path probed, and an image brought over losses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.experiment.bulk.play import Sshd
from flashferry.lab.link import load_profile
from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, World, WorldSpec, start_world
from tests.needs import lacking, need_root
from tests.patience import until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SITE, NAME, SIZE = "branch", "c9300.17.12.04.bin", 10_000_000
WORD = "branch-word-2026"
PORT, SSH_PORT, RAW_PORT = 8080, 2222, 5201
CAP_SHARE = 0.8
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com")
"""Both bring their own MAC, so that none is measured besides."""
PATIENCE_S = 600.0
SEGMENT_BYTES = 1448
RATE_BPS = 40_000_000
LOSSES = (0.0001, 0.01)
"""That of the published WAN, and that of a bad line."""


class Ground:
    """A world with a depot's host at its site, and at its core an image that `flashferry depot` offers."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.images, self.catalogue = folder / "images", folder / "catalogue"
        self.images.mkdir()
        self.data = os.urandom(SIZE)
        (self.images / NAME).write_bytes(self.data)
        # Nobody has written to it for long, so it is offered at once.
        os.utime(self.images / NAME, (1e9, 1e9))
        self.mirrors = folder / "mirrors.toml"
        self.mirrors.touch(mode=0o600)
        self.mirrors.write_text(
            f'[sites.{SITE}]\nuser = "{SITE}"\npassword = "{WORD}"\n'
            f"link_mbps = {RATE_BPS / 1e6:g}\ncap_share = {CAP_SHARE}\n"
        )

    @property
    def url(self) -> str:
        """Where the source is, as the site reaches it."""
        return f"http://{self.world.server_address}:{PORT}"

    def inside(self, pid: int, *words: str) -> list[str]:
        """Return a command of the tool in the namespace of a process."""
        return [*entering(pid), sys.executable, "-P", "-m", "flashferry", *words]

    def environment(self, who: str) -> dict[str, str]:
        return os.environ | {"FLASHFERRY_STATE_DIR": str(self.folder / who)}

    @contextmanager
    def source(self) -> Iterator[Path]:
        """Run the source until it offers the image; give what it says."""
        words = ["depot", "--transports", "http", "--http-port", str(PORT), "--json"]
        words += ["--catalogue", str(self.images), "--mirrors", str(self.mirrors)]
        said = self.folder / "source.json"
        with (
            said.open("wb") as out,
            subprocess.Popen(
                self.inside(self.world.core_pid, *words), stdout=out, stderr=out, env=self.environment("centre")
            ) as process,
        ):
            try:
                await_word(said, "offers 1 image ", process)
                yield said
            finally:
                process.terminate()
                process.wait(PATIENCE_S)

    def at_depot(self, *words: str, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Run a command on the depot's host, and return its document; something is done again and again meanwhile."""
        out, err = (self.folder / f"site.{kind}" for kind in ("out", "err"))
        with out.open("wb") as output, err.open("wb") as errors:
            process = subprocess.Popen(
                self.inside(self.world.depots[SITE].pid, "depot", *words, "--json"),
                stdout=output,
                stderr=errors,
                env=self.environment("site") | {"FLASHFERRY_DEPOT_PASSWORD": WORD},
            )
        try:
            until(lambda: meanwhile() or process.poll() is not None, "the end of the command", poll_s=0.3)
        finally:
            process.kill()
            process.wait()
        told = out.read_text() + err.read_text()
        assert process.returncode == 0, told
        assert WORD not in told
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def controls(self) -> set[str]:
        """Return the congestion controls by which the source sends at this moment."""
        words = ("ss", "-Htin", "state", "established", "sport", "=", f":{PORT}")
        done = subprocess.run([*entering(self.world.core_pid), *words], capture_output=True, text=True, check=True)
        return {line.split()[0] for line in done.stdout.splitlines() if line.startswith((" ", "\t"))}


def entering(pid: int) -> list[str]:
    return [sys.executable, "-P", "-m", "flashferry.lab.enter", str(pid), "--"]


def await_word(path: Path, word: str, process: subprocess.Popen[bytes] | None = None) -> None:
    def has_come() -> bool:
        is_there = word in path.read_text()
        assert is_there or process is None or process.poll() is None, path.read_text()
        return is_there

    until(has_come, lambda: f"{word!r} in {path.read_text()!r}")


@contextmanager
def open_ground(folder: Path) -> Iterator[Ground]:
    """Start a site whose link has a fifth of the published WAN's round trip, and yield what is there."""
    profile = load_profile("published").with_changes({"rate_bps": RATE_BPS, "delay_s": 0.01, "loss_ratio": 0.0})
    site = SiteSpec(name=SITE, profile=profile, devices=(DeviceSpec(name="r1"),), depot=DepotSpec())
    with start_world(WorldSpec(sites=(site,))) as world:
        yield Ground(world, folder)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with open_ground(tmp_path) as opened:
        yield opened


@pytest.fixture
def sshd(ground: Ground) -> Iterator[Sshd]:
    """The distribution's sshd beside the source."""
    wanted = ("sshd", "ssh", "scp", "unshare", "nsenter")
    need_root("an sshd")
    missing = [name for name in wanted if not shutil.which(name, path=everywhere())]
    if missing:
        lacking(f"{', '.join(missing)} not installed")
    folder = ground.folder / "sshd"
    folder.mkdir()
    core = ("nsenter", f"--net=/proc/{ground.world.core_pid}/ns/net")
    address = ground.world.server_address
    with Sshd(folder, address=address, port=SSH_PORT, prefix=core, ciphers=CIPHERS) as running:
        yield running


def everywhere() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def test_a_probe_of_the_wan_recommends_a_way(ground: Ground, sshd: Sshd) -> None:
    """By HTTP from a real source, and by ssh: each way is timed, and the best one is among them."""
    access = sshd.access()
    words = ["--ssh", access.shown, "--identity", access.identity, "--known-hosts", access.known_hosts]
    words += ["--from", f"{ground.url}/{NAME}", "--user", SITE, "--method", "http", "--method", "scp"]
    words += ["--size-mb", "1", "--raw-port", str(RAW_PORT), "--folder", str(ground.folder)]
    with ground.source():
        document = ground.at_depot("probe", *words)
    found, kept = document["found"], document["kept"]
    rows = {row["key"]: row for group in found["groups"] if group["name"] == "ways" for row in group["rows"]}
    assert set(rows) == {"http bbr", "http cubic", *(f"scp {cipher}" for cipher in CIPHERS)}
    assert all(row["trials"] == 3 and not row["error"] for row in rows.values()), rows
    assert all(row["rate"]["most"] > 0 for row in rows.values()), rows
    assert found["ceilings"]["rtt_s"] > 0
    assert found["ceilings"]["link_bytes_per_s"] > 0
    assert kept["rate_bytes_per_s"] == rows[kept["method"]]["rate"]["median"]
    assert set(kept["ciphers"]) == set(CIPHERS)
    assert [path.name for path in ground.folder.iterdir() if path.name.startswith(".ferry")] == []


@pytest.mark.parametrize("loss", LOSSES)
def test_a_sync_over_losses_is_whole(ground: Ground, loss: float) -> None:
    """Under BBR: the bytes are right, and none is asked for twice."""
    if shutil.which("ss", path=everywhere()) is None:
        pytest.skip("ss is not installed")
    ground.world.renew_link(SITE, 1, loss_ratio=loss, delay_s=0.05)
    words = ("sync", NAME, "--from", ground.url, "--user", SITE, "--catalogue", str(ground.catalogue))
    seen: set[str] = set()
    with ground.source() as said:
        (image,) = ground.at_depot(*words, meanwhile=lambda: seen.update(ground.controls()))["images"]
        await_word(said, f"fetched {NAME} from byte 0: {SIZE} bytes, delivered")
        assert said.read_text().count(f"fetched {NAME} from") == 1
    assert image["outcome"] == "proven"
    assert (ground.catalogue / NAME).read_bytes() == ground.data
    assert (image["came_bytes"], image["wrong_chunks"], image["breaks"]) == (SIZE, 0, 0)
    assert "bbr" in seen
    line = ground.world.link_counters(SITE)["to_site"]
    gone = line["lost_packets"] + line["dropped_packets"]
    assert gone > SIZE / SEGMENT_BYTES * loss / 4 or loss < 0.001
