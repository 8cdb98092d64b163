"""The demo is the first thing that a stranger runs: it must end well, and its figures must be those of this run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.lab


def test_the_demo_ends_well():
    """It stages, proves the hash, ends with the router as it was, and says what to do next."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "flashferry", "lab", "demo"],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    digests = re.findall(r"MD5 (?:computed by the router|of the file)\s+-\s+([0-9a-f]{32})", done.stdout)
    assert len(digests) == 2
    assert len(set(digests)) == 1
    assert "its running configuration is what it was" in done.stdout
    assert re.search(r"SYN of the router .*no scaling", done.stdout)
    as_is, tuned = map(float, re.findall(r"([\d.]+) MB/s \([\d,]+ bytes in", done.stdout))
    assert tuned > 10 * as_is
