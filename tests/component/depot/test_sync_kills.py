"""A sync that is killed at any step leaves no name with wrong bytes, and costs a chunk at most when gone on with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashferry.depot.catalogue.folder import CatalogueFolder
from tests.component.depot.sync_bench import CHUNK, NAME, USER, WORD, SyncBench, sync_bench

SIZE = 4 * CHUNK + 10_000


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncBench]:
    with sync_bench(tmp_path_factory.mktemp("kills"), size_bytes=SIZE) as found:
        yield found


class Syncing:
    """The process that syncs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, catalogue: CatalogueFolder, last: int = 0) -> str:
        """Sync, killed at a step; return what became of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{catalogue.path} {last}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def syncing(bench: SyncBench) -> Iterator[Syncing]:
    words = [sys.executable, "-m", "tests.component.depot.killed_sync", bench.url, USER, WORD, NAME]
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        try:
            yield Syncing(process)
        finally:
            process.stdin.close()


def assert_no_wrong_name(bench: SyncBench, catalogue: CatalogueFolder) -> None:
    path = catalogue.path / NAME
    if path.exists():
        assert path.read_bytes() == bench.data
    proven = catalogue.proven(NAME)
    assert proven is None or proven.sha512 == bench.manifest.sha512


@pytest.mark.soak
def test_killed_at_every_step(bench: SyncBench) -> None:
    """Right before and behind each call that changes something on disk, all chunk boundaries among them."""
    with syncing(bench) as sync:
        steps = int(sync(bench.catalogue("whole")).removeprefix("done "))
        worst = 0
        for last in range(1, steps + 1):
            catalogue, before = bench.catalogue(f"at-{last}"), bench.settled_bytes()
            said = sync(catalogue, last)
            # How many pieces the bytes come in, and so how many calls there are, is the line's affair.
            assert said == "killed" or int(said.removeprefix("done ")) < last
            assert_no_wrong_name(bench, catalogue)
            assert sync(catalogue).startswith("done"), last
            assert (catalogue.path / NAME).read_bytes() == bench.data
            assert catalogue.proven(NAME) is not None
            again = bench.settled_bytes() - before - SIZE
            worst = max(worst, again)
            assert again <= CHUNK, f"{again} bytes were sent again after a kill at step {last}"
    print(f"{steps} steps, at worst {worst} bytes sent again, of chunks of {CHUNK}")  # noqa: T201


def test_killed_again_and_again(bench: SyncBench) -> None:
    """One that never gets further than some steps gets the image all the same."""
    catalogue, before, tries = bench.catalogue("again"), bench.settled_bytes(), 0
    with syncing(bench) as sync:
        while (said := sync(catalogue, 60)) == "killed":
            tries += 1
            assert_no_wrong_name(bench, catalogue)
            assert tries < 40
    assert said.startswith("done")
    assert tries > 1
    assert (catalogue.path / NAME).read_bytes() == bench.data
    assert bench.settled_bytes() - before <= SIZE + tries * CHUNK


def test_a_bit_that_fell_over_in_what_was_verified(bench: SyncBench) -> None:
    """It is found before the image gets its name, and its chunk alone is fetched again."""
    catalogue, before = bench.catalogue("flipped"), bench.settled_bytes()
    with syncing(bench) as sync:
        # Far enough that the first chunk is kept.
        number = 100
        while sync(catalogue, number) == "killed" and not verified(catalogue):
            number += 20
        part = catalogue.path / f".{NAME}.part"
        with part.open("r+b") as file:
            byte = os.pread(file.fileno(), 1, 77)[0]
            os.pwrite(file.fileno(), bytes([byte ^ 8]), 77)
        assert sync(catalogue).startswith("done")
    assert (catalogue.path / NAME).read_bytes() == bench.data
    assert bench.settled_bytes() - before >= SIZE + CHUNK


def verified(catalogue: CatalogueFolder) -> int:
    return sum(one.verified_bytes for one in catalogue.list())
