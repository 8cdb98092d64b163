"""`python -m tests.mutants`: break the product in one place at a time, and see whether a test of the gate notices.

Each mutant of `mutants.toml` is put into a copy of the tree with an environment of its own, so nothing of the checkout
is touched and every command that a test starts imports the copy. A test that fails without the mutant, too, has not
killed it: the first tests of all have to pass once before, and a wider one that fails is run again without it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("flashferry", "tasks", "ftpserver", "inventory", "templates")
LIMIT_S = 1200.0
"""A run of tests that takes longer hangs: that is noticed, too."""

GATE = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not soak and not quarantined")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class End(StrEnum):
    """What became of a mutant."""

    DIED = "died"
    SURVIVED = "survived"
    STALE = "stale"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One place that is broken.

    Attributes:
        name: What is wrong with it then.
        file: Where it is put, below the tree.
        old: Text of that file, which stands there once.
        new: What stands there instead.
        why: What would happen to a user.
        tests: What is run first.
        wider: What is run where those notice nothing.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]
    wider: tuple[str, ...]


@dataclass(kw_only=True)
class Tree:
    """A copy of the checkout with an environment of its own.

    Attributes:
        folder: Where it is.
        workers: How many pytest workers there are.
    """

    folder: Path
    workers: int

    @classmethod
    def copied(cls, folder: Path, *, workers: int) -> Tree:
        """Copy what Git knows of the checkout, and its environment."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (source := ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, folder / name)
        _copy_environment(folder)
        tree = cls(folder=folder, workers=workers)
        tree.check()
        return tree

    def check(self) -> None:
        """Stop where a command would import anything but the copy."""
        code = f"import {', '.join(PACKAGES)}; print(*(one.__file__ for one in ({', '.join(PACKAGES)})))"
        for command in ([self._bin("python"), "-c", code], [self._bin("flashferry"), "--version"]):
            done = subprocess.run(
                command, cwd="/", capture_output=True, text=True, check=True, env={"PATH": "/usr/bin"}
            )
            if "-c" in command and not all(Path(one).is_relative_to(self.folder) for one in done.stdout.split()):
                raise SystemExit(f"expected the packages of {self.folder}, found {done.stdout}")

    def run(self, tests: Sequence[str], *, workers: int = 0) -> str | None:
        """Run tests of the gate; return the one that failed, None where all passed."""
        command = [self._bin("python"), "-m", "pytest", *GATE, "-n", str(workers), *tests]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(self.folder)}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as running:
            try:
                output, _ = running.communicate(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(running.pid, signal.SIGKILL)
                return "(the tests hang)"
        if running.returncode == 0:
            return None
        found = _FAILED.search(output)
        if found is None:
            raise SystemExit(f"pytest ended with {running.returncode} and names no test:\n{output[-3000:]}")
        return found[1]

    def _bin(self, name: str) -> str:
        return str(self.folder / ".venv" / "bin" / name)


def _copy_environment(folder: Path) -> None:
    """Have an environment in the copy whose packages are links and its own path the copy."""
    ours, theirs = ROOT / ".venv", folder / ".venv"
    shutil.copytree(ours / "bin", theirs / "bin", symlinks=True)
    shutil.copy2(ours / "pyvenv.cfg", theirs)
    for script in (theirs / "bin").iterdir():
        if script.is_file() and not script.is_symlink() and script.read_bytes().startswith(b"#!"):
            script.write_text(script.read_text().replace(str(ours), str(theirs)))
    site = next((ours / "lib").glob("python*/site-packages"))
    new = theirs / site.relative_to(ours)
    new.mkdir(parents=True)
    for entry in site.iterdir():
        if entry.name == "_editable_impl_flashferry.pth":
            (new / entry.name).write_text(f"{folder}\n")
        else:
            (new / entry.name).symlink_to(entry)


def read_mutants(path: Path) -> tuple[Mutant, ...]:
    """Return the mutants of a file, each with the wider tests of its room."""
    data = tomllib.loads(path.read_text())
    found = []
    for one in data["mutant"]:
        wider, tests = data["room"][one.pop("room")]["wider"], one.pop("tests")
        found.append(Mutant(**one, tests=tuple(tests), wider=tuple(wider)))
    names = [one.name for one in found]
    assert len(names) == len(set(names)), "two mutants have one name"
    return tuple(found)


def is_stale(mutant: Mutant, root: Path) -> bool:
    """Return whether the text of a mutant does not stand in its file once, or would not be Python."""
    text = (root / mutant.file).read_text() if (root / mutant.file).is_file() else ""
    if text.count(mutant.old) != 1:
        return True
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    return False


def tried(mutant: Mutant, tree: Tree, *, is_brief: bool) -> tuple[End, str]:
    """Put a mutant in, run its tests, take it out again; return its end, and the test that noticed.

    Args:
        mutant: It.
        tree: Where it is put; without it, all first tests pass there.
        is_brief: Whether its first tests alone are run.
    """
    if is_stale(mutant, tree.folder):
        return End.STALE, "its text does not stand there once"
    path = tree.folder / mutant.file
    text = path.read_text()
    for tests, workers in ((mutant.tests, 0), (mutant.wider, tree.workers))[: 1 if is_brief else 2]:
        _write(path, text.replace(mutant.old, mutant.new))
        try:
            noticed = tree.run(tests, workers=workers)
        finally:
            _write(path, text)
        if noticed is not None:
            is_killed = tests is mutant.tests or noticed.startswith("(") or tree.run([noticed]) is None
            return (End.DIED, noticed) if is_killed else (End.UNJUDGED, f"fails without it: {noticed}")
    return End.SURVIVED, ""


def _write(path: Path, text: str) -> None:
    """Write a module; bytecode is known by size and second, which may both be those of before."""
    path.write_text(text)
    for kept in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        kept.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the mutants that were asked for; return 1 where one survived, is stale, or could not be judged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="part of a mutant's name or file; none: all")
    parser.add_argument("--list", action="store_true", help="print the mutants with their tests; run nothing")
    parser.add_argument("--brief", action="store_true", help="run the first tests of each alone, not the wider ones")
    parser.add_argument("--workers", type=int, default=2, help="pytest workers of wider tests (default: 2)")
    options = parser.parse_args(arguments)
    asked = [
        one
        for one in read_mutants(Path(__file__).with_name("mutants.toml"))
        if not options.names or any(name in f"{one.file} {one.name}" for name in options.names)
    ]
    if options.list:
        for one in asked:
            state = "STALE " if is_stale(one, ROOT) else ""
            sys.stdout.write(f"{state}{one.name}: {one.file}; {' '.join(one.tests)}\n")
        return 0
    ends: list[End] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Tree.copied(Path(folder).resolve(), workers=options.workers)
        first = sorted({test for one in asked for test in one.tests})
        if first and (broken := tree.run(first, workers=options.workers)) is not None:
            raise SystemExit(f"{broken} fails without any mutant")
        for one in asked:
            started_s = time.monotonic()
            end, words = tried(one, tree, is_brief=options.brief)
            ends.append(end)
            sys.stdout.write(f"{end.value:9} {time.monotonic() - started_s:4.0f} s  {one.name}: {words}\n")
            sys.stdout.flush()
    counts = ", ".join(f"{ends.count(end)} {end.value}" for end in End if end in ends)
    sys.stdout.write(f"{len(ends)} mutants: {counts}\n")
    return int(any(end is not End.DIED for end in ends))


if __name__ == "__main__":
    sys.exit(main())
