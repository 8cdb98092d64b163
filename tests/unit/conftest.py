"""A journal, and what enters devices in it and takes them in hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from flashferry.store.journal import Journal
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import Change, TcpLines

SNAPSHOT = Snapshot(
    running=TcpLines(lines=("ip tcp window-size 65535",)),
    startup=TcpLines(lines=()),
    running_fingerprint=Fingerprint(whole="w", lines=("l",)),
    salt="00ff",
)
CHANGES = (Change(keyword="window-size", before="ip tcp window-size 65535", ours="ip tcp window-size 1250000"),)


def take(journal: Journal, run_id: str, host: str, identity: str) -> None:
    journal.acquire_lease(run_id, host, identity=identity, snapshot=SNAPSHOT, changes=CHANGES, target="flash:x.bin")


@pytest.fixture
def journal(tmp_path: Path):
    with Journal(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
def enter() -> Callable[..., None]:
    """Return what enters devices of a run."""

    def enter(journal: Journal, run_id: str, *hosts: str, **more) -> None:
        for number, host in enumerate(hosts):
            journal.add_device(run_id, host=host, address=f"192.0.2.{number}", port=22, platform="ios", **more)

    return enter


@pytest.fixture
def touch() -> Callable[..., None]:
    """Return what takes a device in hand."""
    return lambda journal, run_id, host: take(journal, run_id, host, f"SN/{host}")


@pytest.fixture
def touch_as() -> Callable[..., None]:
    """Return what takes a device in hand under an identity."""
    return take
