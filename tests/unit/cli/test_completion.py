"""Completion is the command-line library's own; the names of devices and groups are those of the inventory's folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def completed(typed: str, folder, **environment: str) -> list[str]:
    """Return what bash is given to choose from behind a command line."""
    asked = {"_FLASHFERRY_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split(" ")) - 1)}
    code = "import sys; sys.argv = ['flashferry']; from flashferry.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=os.environ | asked | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.fixture
def inventory(tmp_path):
    (tmp_path / "hosts.yaml").write_text("ams-1:\n  hostname: 192.0.2.1\n'ams-2': {}\nlim-1: {}\n# no: name\n")
    (tmp_path / "groups.yaml").write_text("edge: {}\n")
    return tmp_path


def test_commands_and_options_are_completed(tmp_path):
    assert {"stage", "status", "state"} <= set(completed("flashferry sta", tmp_path))
    assert completed("flashferry plan --image-ru", tmp_path) == ["--image-rules"]


def test_names_are_those_of_the_inventory_that_is_typed_or_in_the_environment(inventory, tmp_path):
    """Keys at the beginning of a line alone; an inventory that is not there has none."""
    assert completed(f"flashferry check -i {inventory} --host ams", tmp_path) == ["ams-1", "ams-2"]
    assert completed("flashferry stage -H lim", tmp_path, FLASHFERRY_INVENTORY=str(inventory)) == ["lim-1"]
    assert completed(f"flashferry check -i {inventory} --group ", tmp_path) == ["edge"]
    assert completed("flashferry check -i nowhere --host ", tmp_path) == []
