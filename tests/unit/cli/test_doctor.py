"""A wheel without its extra `lab`: the lab's verbs and `doctor` say so in a sentence, with what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

WITHOUT = """
import sys
import importlib.util
usual = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in ("asyncssh", "pyroute2") else usual(name, *more)
sys.modules["asyncssh"] = sys.modules["pyroute2"] = None
from flashferry.cli.main import main
main()
"""


def without_extra(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the program where neither of the lab's packages can be imported."""
    root = str(Path(__file__).parents[3])
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=os.environ | {"PYTHONPATH": root},
    )


@pytest.mark.parametrize("words", ["up", "demo", "experiment", "sweep", "fairness", "peers", "exec true", "ssh r1"])
def test_a_verb_of_the_lab_says_what_it_needs(words):
    """One sentence, exit code 2, and the command that helps."""
    done = without_extra("lab", *words.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("flashferry: error: flashferry lab: it needs asyncssh and pyroute2, which are not ")
    assert "Install the extra 'lab': " in done.stderr
    assert done.stderr.count("\n") == 1


def test_its_help_needs_nothing():
    """Who asks what a verb does gets an answer."""
    done = without_extra("lab", "up", "-h")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Start a lab" in done.stdout


def test_doctor_says_it_too():
    """Not that root and namespaces are there, which is of no use then."""
    done = without_extra("doctor", "--json")
    (lab,) = [one for one in json.loads(done.stdout)["findings"] if one["name"] == "lab"]
    assert lab["is_good"] is False
    assert "it needs asyncssh and pyroute2, which are not installed" in lab["found"]
    assert "Install the extra 'lab': " in lab["found"]
