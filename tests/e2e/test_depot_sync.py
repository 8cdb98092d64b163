"""A catalogue is filled from the depot of the centre as a person does it: by two commands, through what may happen."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.component.httpserver.conftest import make_certificate
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.soak]

NAME, SIZE, CHUNK = "c9300.17.12.04.bin", 60_000_000, 16 << 20
WORD = "branch-word-2026"


class Ground:
    """A centre with images, and a site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.images.mkdir()
        self.catalogue = folder / "site" / "catalogue"
        self.certificate, self.key = make_certificate(folder)
        self.mirrors = folder / "mirrors.toml"
        self.mirrors.touch(mode=0o600)
        self.mirrors.write_text(f'[sites.branch]\nuser = "branch"\npassword = "{WORD}"\nlink_mbps = 160\n')
        self.log = folder / "centre.log"
        self.port = 0
        self.put(os.urandom(SIZE))

    def put(self, data: bytes) -> None:
        """Put an image there, as somebody does who copies it beside first."""
        self.data = data
        (self.images / ".fresh").write_bytes(data)
        os.utime(self.images / ".fresh", (1e9, 1e9))
        (self.images / ".fresh").replace(self.images / NAME)

    def environment(self, who: str) -> dict[str, str]:
        return os.environ | {"FLASHFERRY_STATE_DIR": str(self.folder / who)}

    @contextmanager
    def centre(self) -> Iterator[subprocess.Popen[str]]:
        """Run the centre's depot, until it offers the image."""
        words = ["depot", "--transports", "https", "--listen", "127.0.0.1", "--https-port", str(self.port), "--json"]
        words += ["--certificate", str(self.certificate), "--key", str(self.key)]
        words += ["--catalogue", str(self.images), "--mirrors", str(self.mirrors), "--log-file", str(self.log)]
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment("centre"),
        ) as process:
            try:
                assert process.stdout is not None
                self.port = json.loads(process.stdout.readline())["ports"]["https"]
                until(lambda: "offers 1 image " in process.stdout.readline(), "the depot's offer")
                yield process
            finally:
                process.kill()

    @contextmanager
    def sync(self, *more: str) -> Iterator[subprocess.Popen[str]]:
        words = ["depot", "sync", "--from", f"https://127.0.0.1:{self.port}", "--user", "branch", "--json"]
        words += ["--ca", str(self.certificate), *more]
        with subprocess.Popen(
            [sys.executable, "-P", "-m", "flashferry", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment("site") | {"FLASHFERRY_DEPOT_PASSWORD": WORD},
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def written(self) -> int:
        """Return how much of the image is written at the site, verified or not."""
        state, place = (self.catalogue / f".{NAME}{ending}" for ending in (".part.json", ".part.at"))
        try:
            verified = json.loads(state.read_text())["verified_bytes"]
            at = place.read_bytes()
        except (OSError, ValueError):
            return 0
        return verified + (int.from_bytes(at[8:], "big") % CHUNK)

    def fetched_bytes(self) -> int:
        """Return how much of the image has left, by the centre's log."""
        found = re.findall(rf"fetched {re.escape(NAME)} from byte \d+: (\d+) bytes", self.log.read_text())
        return sum(map(int, found))

    def assert_no_wrong_name(self) -> None:
        path = self.catalogue / NAME
        assert not path.exists() or path.read_bytes() == self.data


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_a_sync_that_is_killed_again_and_again(ground: Ground) -> None:
    """At the chunks' boundaries and between them: never a wrong name, and a chunk at most is sent again each time."""
    points = (3_000_000, CHUNK - 200_000, CHUNK + 1_000_000, 2 * CHUNK, 3 * CHUNK - 500_000, 3 * CHUNK + 2_000_000)
    with ground.centre():
        for point in points:
            with ground.sync() as process:
                until(lambda at=point: ground.written() >= at or process.poll() is not None, "the point of the kill")
                process.send_signal(signal.SIGKILL)
                process.wait(PATIENCE_S)
            ground.assert_no_wrong_name()
        with ground.sync() as process:
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0, err
        (image,) = json.loads(out)["images"]
        assert (ground.catalogue / NAME).read_bytes() == ground.data
        until(lambda: ground.fetched_bytes() >= SIZE, "all bytes in the log")
        time.sleep(0.5)
    again = ground.fetched_bytes() - SIZE
    print(f"{again} bytes were sent again after {len(points)} kills; the last one fetched {image['came_bytes']}")  # noqa: T201
    assert again <= len(points) * CHUNK
    assert WORD not in out + err + ground.log.read_text()


def test_a_centre_that_is_killed_and_changes_its_image(ground: Ground) -> None:
    """The sync waits, sees that there is another image, and brings that one whole; the old one never gets the name."""
    with ground.centre() as centre, ground.sync("--wait-minutes", "2") as process:
        until(lambda: ground.written() >= CHUNK, "a chunk on disk")
        centre.send_signal(signal.SIGKILL)
        centre.wait(PATIENCE_S)
        assert not (ground.catalogue / NAME).exists()
        ground.put(os.urandom(SIZE))
        with ground.centre():
            out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert (ground.catalogue / NAME).read_bytes() == ground.data
    (image,) = json.loads(out)["images"]
    assert image["outcome"] == "proven"
    assert "tried again in" in err


def test_ctrl_c_keeps_what_is_verified(ground: Ground) -> None:
    """It ends with 130, and the same command goes on."""
    with ground.centre():
        with ground.sync() as process:
            until(lambda: ground.written() >= CHUNK + 1_000_000, "more than a chunk on disk")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 130, err
        assert json.loads(out)["images"][0]["kind"] == "SyncStopped"
        with ground.sync() as process:
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["images"][0]["kept_bytes"] >= CHUNK
    assert (ground.catalogue / NAME).read_bytes() == ground.data
