"""A disk that fills up while a state folder is backed up or put back: told in a sentence, and nothing half is left.

The disk is a small tmpfs in a mount namespace of the command's own; a shell in it looks at what is there afterwards.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from flashferry.api import back_up
from flashferry.store.journal import Journal
from tests.patience import PATIENCE_S

SHELL = ("unshare", "-Urm", "--", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size=3m,mode=700 tmpfs "$0" && '
OURS = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Return an empty folder; skip where this host grants no mount namespace."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run([*SHELL, MOUNT + "true", folder], capture_output=True, check=False).returncode:
        pytest.skip("this host lets nobody mount a small disk in a namespace of his own")
    return folder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with 8 MB that nothing makes smaller."""
    folder = tmp_path / "state"
    with Journal(folder):
        pass
    (folder / "events").mkdir(mode=0o700)
    for number in range(8):
        (folder / "events" / f"{number}.jsonl").write_bytes(random.Random(number).randbytes(1 << 20))
    return folder


def on_a_small_disk(disk: Path, verb: str, argument: Path, state: Path) -> tuple[str, list[str]]:
    """Run `flashferry state VERB` there; return what it said, and the files on the disk afterwards."""
    program = [sys.executable, "-m", "flashferry", "state", verb, str(argument), "--state-dir", str(state)]
    script = MOUNT + '{ "$@"; echo "exit $?"; find "$0" -type f; }'
    done = subprocess.run(
        [*SHELL, script, disk, *program], capture_output=True, text=True, check=True, timeout=PATIENCE_S, env=OURS
    )
    code, *files = done.stdout.splitlines()[-1 - done.stdout.count("\n/") :]
    assert code != "exit 0"
    return done.stderr, files


def test_a_backup_without_room_leaves_nothing(disk: Path, state: Path) -> None:
    """No archive that looks like one is left, and no part of one that takes the room for the next."""
    told, files = on_a_small_disk(disk, "backup", disk / "backups", state)
    assert "No space left on device" in told
    assert files == []


def test_a_state_without_room_is_not_put_back_by_half(disk: Path, state: Path, tmp_path: Path) -> None:
    """The state folder is empty, as it was, so that the same backup can be put back once there is room."""
    made = back_up(tmp_path / "backups", state=state)
    told, files = on_a_small_disk(disk, "restore", made.path, disk / "state")
    assert "No space left on device" in told
    assert "Free some space there" in told
    assert files == []
