"""The demo of sites must end well, with the figures of its own run, and leave nothing behind however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from flashferry.lab.broker import missing_broker
from flashferry.lab.demo.sites.verification import MOST_RATIO
from tests.needs import lacking
from tests.patience import PATIENCE_S, until
from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.soak]

COMMAND = (sys.executable, "-P", "-m", "flashferry", "lab", "sites-demo")
MARK = "TEST_OF_THE_DEMO_OF_SITES"
"""In the environment of all that a demo of these tests starts, with its number."""


@pytest.fixture(autouse=True, scope="module")
def _redis() -> None:
    if reason := missing_broker():
        lacking(reason)


def left(number: str) -> list[str]:
    """Return the command lines of what lives of a demo."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"{MARK}={number}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    """Run it once, as `make sites-demo` does."""
    return subprocess.run(
        COMMAND, capture_output=True, text=True, timeout=900, check=False, env=os.environ | {MARK: "whole"}
    )


def test_the_demo_ends_well(demo):
    """All sites are staged, the line that was cut among them, and all is as it was; nothing is left of it."""
    assert demo.returncode == 0, demo.stdout + demo.stderr
    for number in range(1, 8):
        assert f"\n{number}. " in demo.stdout
    assert "WRONG" not in demo.stdout
    assert "the site whose link was cut kept running" in demo.stdout
    assert not left("whole")


def test_its_figures(demo):
    """Each line carried one image, neighbours gave what they are said to have, and silence was told by the centre."""
    scenario = demo.stdout.partition("7. Results")[2]
    ratios = re.findall(r"(?m)^(?:AMS|OSL|LIM) .* MB +.* MB +(\d\.\d\d) ", scenario)
    assert len(ratios) == 3
    assert all(1 < float(one) <= MOST_RATIO for one in some(ratios))
    rows = re.findall(r"(?m)^(?:ams|osl|lim)-\S+ .*$", scenario)
    assert len(rows) == 10
    assert all(row.rstrip().endswith("as it was") for row in some(rows))
    assert sum("its depot, ftp" in row for row in rows) == 7
    assert sum("neighbour lim-c8k-" in row for row in rows) == 2
    assert "silent: OSL (last message" in demo.stdout
    assert "OSL answers again" in demo.stdout


@pytest.mark.parametrize("ends_by", [signal.SIGINT, signal.SIGKILL])
def test_it_leaves_nothing_behind_in_the_middle_of_a_copy(ends_by):
    """Interrupted, it puts the routers back; killed, its guard ends what the agents began."""
    number = ends_by.name
    with subprocess.Popen(
        COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | {MARK: number}
    ) as demo:
        try:
            assert demo.stdout is not None
            said = [next(line for line in demo.stdout if "osl-isr1: copy started" in line)]
            assert len(left(number)) > 10
            demo.send_signal(ends_by)
            if ends_by is not signal.SIGKILL:
                said += list(demo.stdout)
                demo.wait(PATIENCE_S)
        finally:
            demo.kill()
    assert demo.returncode == (130 if ends_by is signal.SIGINT else -signal.SIGKILL)
    assert ("configurations are what they were" in said[-1]) is (ends_by is signal.SIGINT)
    until(lambda: not left(number), lambda: f"the end of {left(number)}")
    assert not list(Path(tempfile.gettempdir()).glob(f"flashferry-lab-{demo.pid}-*"))
