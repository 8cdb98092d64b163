"""What a killed command leaves below the state is gone with the next one, and nothing else is."""

from __future__ import annotations

import signal
import subprocess
import sys

from flashferry.core.state_folder import scratch_folder, sweep
from flashferry.store.journal import Journal
from tests.patience import killed_at_end

CODE = (
    "import sys; from pathlib import Path; from flashferry.core.state_folder import scratch_folder\n"
    "with scratch_folder(Path(sys.argv[1])) as folder:\n"
    "    (folder / 'probe.bin').write_bytes(bytes(1000)); print(folder, flush=True); sys.stdin.read()"
)


def files(state):
    return list((state / "scratch").rglob("*.bin"))


def test_a_killed_commands_files_are_removed_by_the_next(tmp_path):
    """While it lives they stay, whoever else begins; after kill -9 they are gone with the next command."""
    with killed_at_end(
        subprocess.Popen(
            [sys.executable, "-c", CODE, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        with Journal(tmp_path), scratch_folder(tmp_path):
            assert len(files(tmp_path)) == 1
        child.send_signal(signal.SIGKILL)
    assert len(files(tmp_path)) == 1
    with Journal(tmp_path):
        assert files(tmp_path) == []


def test_a_folder_ends_with_its_block(tmp_path):
    """Also where the block fails; a link among the folders is nobody's to follow."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    state = tmp_path / "state"
    with scratch_folder(state) as folder:
        (folder / "x").touch()
        (state / "scratch" / "link").symlink_to(outside)
    assert not folder.exists()
    sweep(state)
    assert (outside / "precious").exists()


def test_nothing_to_sweep(tmp_path):
    """A state folder that is not there is not made by looking."""
    sweep(tmp_path / "none")
    assert not (tmp_path / "none").exists()
