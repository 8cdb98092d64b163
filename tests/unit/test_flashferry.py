"""A user's own `tasks.py`, `inventory/` and the like beside his script: told in one sentence, however we start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import flashferry
from tests.patience import PATIENCE_S

HOME = Path(flashferry.__file__).parents[1]
MINE = {
    "tasks.py": "",
    "inventory/__init__.py": "",
    "templates/__init__.py": "",
    "ftpserver.py": "",
}
"""What stands beside the script: a file or a package of the name of each of ours."""


def run(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run something in a folder, where Python looks for modules first unless it is told not to."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return subprocess.run(
        list(map(str, words)),
        cwd=folder,
        env=own | {"PYTHONPATH": str(HOME)} | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def put(folder: Path, name: str) -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    return path


def sentence(path: Path) -> str:
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return (
        f"flashferry: expected its own package '{name}' in {HOME}, found {path} in its place: rename that, put the "
        "script into another folder, or run it by 'python -P'"
    )


def test_every_package_beside_ours_is_looked_at():
    """What the wheel puts beside `flashferry` is what may be shadowed."""
    assert {name.partition("/")[0].removesuffix(".py") for name in MINE} == set(flashferry.PACKAGES)
    assert all((HOME / name / "__init__.py").is_file() for name in flashferry.PACKAGES)


@pytest.mark.parametrize("name", MINE)
def test_a_script_beside_it_is_told(tmp_path, name):
    """An ImportError, whose text says what was expected, what was found and what to do."""
    path = put(tmp_path, name)
    (tmp_path / "night.py").write_text("import flashferry.api\n")
    done = run(tmp_path, sys.executable, "night.py")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"flashferry.PackageShadowed: {sentence(path)}"


@pytest.mark.parametrize("name", ["tasks.py", "inventory/__init__.py"])
def test_the_command_says_no_more_than_the_sentence(tmp_path, name):
    """By its own name and by `python -m`: no trace, and the exit code of a wrong use."""
    path = put(tmp_path, name)
    command = Path(sys.executable).with_name("flashferry")
    for done in (
        run(tmp_path, sys.executable, "-m", "flashferry", "--version"),
        run(tmp_path, command, "--version", PYTHONPATH=f"{tmp_path}{os.pathsep}{HOME}"),
    ):
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{sentence(path)}\n")


def test_a_module_that_is_imported_already_is_told(tmp_path):
    """The script's own import came first; ours would be answered with that module."""
    path = put(tmp_path, "tasks.py")
    (tmp_path / "night.py").write_text("import sys, tasks\nsys.path.pop(0)\nimport flashferry.api\n")
    done = run(tmp_path, sys.executable, "night.py")
    assert done.stderr.splitlines()[-1] == f"flashferry.PackageShadowed: {sentence(path)}"


def test_what_shadows_nothing_is_left_alone(tmp_path):
    """Folders of data are no packages to Python, and `-P` leaves the script's own folder out."""
    for name in ("inventory/hosts.yaml", "templates/page.html"):
        put(tmp_path, name)
    (tmp_path / "night.py").write_text("import flashferry.api\n")
    assert run(tmp_path, sys.executable, "night.py").stderr == ""
    assert run(tmp_path, sys.executable, "-m", "flashferry", "--version").returncode == 0
    put(tmp_path, "tasks.py")
    assert run(tmp_path, sys.executable, "-P", "night.py").stderr == ""


def test_another_way_to_our_folder_is_ours(tmp_path):
    """A link to where we are is no stranger."""
    link = tmp_path / "link"
    link.symlink_to(HOME)
    done = run(tmp_path, sys.executable, "-P", "-c", "import flashferry.api", PYTHONPATH=f"{link}{os.pathsep}{HOME}")
    assert done.stderr == ""
