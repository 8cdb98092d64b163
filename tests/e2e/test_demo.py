"""The demo is the first thing that a stranger runs: it must end well, and its figures must be those of this run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.soak]


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    """Run it once, as `make demo` does."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "flashferry", "lab", "demo"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_demo_ends_well(demo):
    """It checks, probes and stages all routers, and proves that they are what they were."""
    assert demo.returncode == 0, demo.stderr
    for number in range(1, 8):
        assert f"\n{number}. " in demo.stdout
    for host in ("xe1", "ios1", "web1", "scp1"):
        assert f"{host}: inspected without SSH: its running and startup configurations are what" in demo.stdout
    assert demo.stdout.splitlines()[-1] == "  flashferry stage --inventory DIR --image FILE --host NAME"


def test_its_figures(demo):
    """IOS-XE gains much, IOS is held back by its flash; hashes are those of the files."""
    scenario = demo.stdout.partition("7. Results")[2]
    rows = dict(re.findall(r"(?m)^(xe1|ios1|web1|scp1)( .*)$", scenario))
    rates = {host: [float(one) for one in re.findall(r" (\d+\.\d+)", row)] for host, row in rows.items()}
    assert {host: row.split()[0] for host, row in rows.items()} == {
        "xe1": "ftp",
        "ios1": "ftp",
        "web1": "http",
        "scp1": "scp",
    }
    was, _, to_flash, link = rates["xe1"]
    # Thirty times on a calm machine; one whose processors are taken away emulates no link of 50 Mbit/s.
    assert to_flash > 2 * was
    assert to_flash < link
    for host in ("web1", "scp1"):
        was, tuned, to_flash, link = rates[host]
        assert 2 * was < to_flash < link
        assert tuned < link
    was, tuned, to_flash, _ = rates["ios1"]
    assert 0.05 < to_flash < 0.083 * 1.1
    assert tuned > 3 * to_flash
    digests = re.findall(r"MD5 computed by the router: ([0-9a-f]{32}); of the file: ([0-9a-f]{32})", scenario)
    assert len(digests) == 4
    assert all(by_router == of_file for by_router, of_file in some(digests))
