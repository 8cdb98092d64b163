"""A whole night on a stand-in controller whose nodes are stand-in routers: it ends well, and nothing stays behind.

The night is a process, as `flashferry lab night` plays it. Every process that comes of it carries a mark in its
environment, and whatever it writes goes below one folder, so that others on this machine do not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO
from xml.etree import ElementTree as ET

import pytest

from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

_MARK = "NIGHT_OF_A_TEST"
_STEPS = (
    "preflight", "reap", "import", "start", "reach", "condition", "check", "probe", "stage", "kill", "resume",
    "recover", "judge", "artefacts", "clean",
)  # fmt: skip
_NIGHT_S = 420.0
_INSIDE = ("lab", "exec", "--", sys.executable, "-P", "-m", "flashferry", "nightly")


class Surroundings:
    """Where a test's nights take place: folders of their own, and a mark on every process."""

    def __init__(self, folder: Path) -> None:
        self.mark = secrets.token_hex(8)
        self.temporary = folder / "t"
        self.nights = folder / "nights"
        self.temporary.mkdir()
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("FLASHFERRY_")} | {
            _MARK: self.mark,
            "TMPDIR": str(self.temporary),
            "XDG_RUNTIME_DIR": str(self.temporary),
        }

    def begin(self, *words: str, said: IO[str]) -> subprocess.Popen[str]:
        """Start `flashferry` with words; what it says goes to a file."""
        command = [sys.executable, "-P", "-m", "flashferry", *words]
        return subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.nights.parent,
            stdout=said,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def processes(self) -> dict[int, list[str]]:
        """Return the processes that came of the test, by id, with their words."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"{_MARK}={self.mark}".encode() in path.read_bytes().split(b"\0"):
                    words = (path.parent / "cmdline").read_text(errors="replace").split("\0")
                    found[int(path.parent.name)] = words
        return found

    def namespaces(self) -> set[str]:
        """Return the network namespaces of those processes, but for the test's own."""
        own = str(Path("/proc/self/ns/net").readlink())
        found = set()
        for pid in self.processes():
            with contextlib.suppress(OSError):
                found.add(str(Path(f"/proc/{pid}/ns/net").readlink()))
        return found - {own}

    def leftovers(self, spent: set[str]) -> list[str]:
        """Return what is left: processes, temporary files, and of some namespaces those that a process of ours is in.

        The kernel gives a namespace's number again, so one that others are in is theirs.
        """
        in_use, place = set(), str(self.temporary.parent).encode()
        for path in Path("/proc").glob("[0-9]*/ns/net"):
            process = path.parents[1]
            with contextlib.suppress(OSError):
                if place in (process / "environ").read_bytes() + (process / "cmdline").read_bytes():
                    in_use.add(str(path.readlink()))
        left = [f"process {pid}: {' '.join(words)}" for pid, words in self.processes().items()]
        left += [f"namespace {each}" for each in spent & in_use]
        return left + [f"file {path}" for path in self.temporary.iterdir()]

    def has_ended_clean(self, spent: set[str]) -> list[str]:
        """Return what is left, once nothing is or a while has passed."""
        until(lambda: not self.leftovers(spent), PATIENCE_S)
        return self.leftovers(spent)


def until(what: Callable[[], object], seconds: float) -> bool:
    ends_s = time.monotonic() + seconds
    while not what():
        if time.monotonic() > ends_s:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def surroundings() -> Iterator[Surroundings]:
    with tempfile.TemporaryDirectory(prefix="ff", dir="/tmp") as folder:
        yield Surroundings(Path(folder))


@pytest.fixture
def said(tmp_path: Path) -> Iterator[IO[str]]:
    with (tmp_path / "said").open("w+") as file:
        yield file


def text_of(said: IO[str]) -> str:
    return Path(said.name).read_text()


def small_night(surroundings: Surroundings, said: IO[str]) -> subprocess.Popen[str]:
    words = ("lab", "night", "--folder", str(surroundings.nights), "--routers", "1", "--copies", "1")
    return surroundings.begin(*words, said=said)


def reports(surroundings: Surroundings) -> list[Path]:
    return sorted(surroundings.nights.glob("ff-nightly-*/report.json"))


def test_a_night_is_good_and_leaves_its_report_only(surroundings, said):
    """All steps pass on two routers at two conditions; the report is there; processes, namespaces and files are not."""
    process = small_night(surroundings, said)
    spent: set[str] = set()
    assert until(lambda: spent.update(surroundings.namespaces()) or process.poll() is not None, _NIGHT_S)
    assert process.returncode == 0, text_of(said)
    assert re.findall(r"(?m)^ *[\d.]+ s  (\w+)", text_of(said)) == list(_STEPS)
    assert len(spent) >= 3  # the core, and one for each router: else the next line tells nothing
    assert surroundings.has_ended_clean(spent) == []
    (path,) = reports(surroundings)
    report = json.loads(path.read_text())["night"]
    assert {each["outcome"] for each in report["steps"]} == {"passed"}
    branch, metro = (each["rtt_ms"] for each in report["links"])
    # No packet comes sooner than its link lets it through; how much later it does is the machine's affair.
    assert (branch > 0.95 * 60, metro > 0.95 * 20) == (True, True)
    names = {str(each.relative_to(path.parent)) for each in path.parent.rglob("*") if each.is_file()}
    assert {"report.html", "junit.xml", "console/branch-csr1000v-1.log", "console/metro-csr1000v-1.log"} <= names
    suite = ET.parse(path.parent / "junit.xml").getroot()
    assert not list(suite.iter("failure"))
    assert not list(suite.iter("error"))
    assert "%CVAC-4-CONFIG_DONE" in (path.parent / "console/branch-csr1000v-1.log").read_text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_night_that_is_interrupted_leaves_nothing(surroundings, said, number):
    """In the middle of its copies it ends what is under way, removes its lab, writes its report, and all is gone."""
    process = small_night(surroundings, said)
    assert until(lambda: "  check  " in text_of(said) or process.poll() is not None, _NIGHT_S)
    time.sleep(2)  # the speed test has begun
    spent = surroundings.namespaces()
    assert len(spent) >= 3
    process.send_signal(number)
    process.wait(_NIGHT_S)
    assert process.returncode == 130, text_of(said)
    assert "the lab is gone" in text_of(said)
    assert surroundings.has_ended_clean(spent) == []
    assert len(reports(surroundings)) == 1


def test_a_night_whose_owner_is_killed_leaves_nothing(surroundings, said):
    """After `kill -9` of `lab night` the controller, its routers and the night on it end by themselves."""
    process = small_night(surroundings, said)
    assert until(lambda: "  reach  " in text_of(said) or process.poll() is not None, _NIGHT_S)
    spent = surroundings.namespaces()
    assert len(spent) >= 3
    process.kill()
    process.wait()
    # The night asks a controller that is gone as long as a clean-up may take.
    assert until(lambda: not surroundings.processes(), 150), surroundings.processes()
    assert surroundings.has_ended_clean(spent) == []


def test_a_killed_night_is_reaped(surroundings, said):
    """After `kill -9` of `nightly run` its lab runs on, until `nightly reap` removes it, with all its routers."""
    up = surroundings.begin("lab", "up", "--cml", "--json", said=said)
    try:
        assert until(lambda: '"description"' in text_of(said), 60)
        house = json.loads(text_of(said))
        surroundings.environment |= {
            "FLASHFERRY_CML_USERNAME": house["username"],
            "FLASHFERRY_CML_PASSWORD": house["password"],
            "FLASHFERRY_STATE_DIR": str(surroundings.nights / "state"),
        }
        before = surroundings.namespaces()
        with (surroundings.nights.parent / "night").open("w+") as told:
            night = surroundings.begin(*_INSIDE, "run", house["description"], said=told)
            assert until(lambda: "  check  " in text_of(told) or night.poll() is not None, _NIGHT_S), text_of(told)
            assert night.poll() is None, text_of(told)
            night.kill()
            night.wait()
            assert len(surroundings.namespaces()) == len(before) + 4
            reap = surroundings.begin(*_INSIDE, "reap", house["description"], said=told)
            assert reap.wait(PATIENCE_S) == 0, text_of(told)
        assert until(lambda: surroundings.namespaces() == before, PATIENCE_S)
    finally:
        down = surroundings.begin("lab", "down", said=said)
        down.wait(PATIENCE_S)
        up.wait(PATIENCE_S)
    # What the killed night itself left is its own scratch, which the next night sweeps; the lab is the controller's.
    # A step that the killed night had started tries for minutes to restore its router: it is ended here.
    steps = {pid for pid, words in surroundings.processes().items() if any("/nightly/scratch/" in one for one in words)}
    assert until(lambda: not surroundings.processes().keys() - steps, PATIENCE_S), surroundings.processes()
    for pid in steps:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
