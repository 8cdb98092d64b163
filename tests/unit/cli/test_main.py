"""A command that talks to no device starts without the libraries that do."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import sys
from flashferry.cli.main import build
build([sys.argv[1]])
print(*sorted({"napalm", "netmiko", "paramiko"} & set(sys.modules)))
"""


@pytest.mark.parametrize("verb", ["serve", "images", "doctor", "recover", "stage", "report", "--help"])
def test_what_a_command_imports(verb):
    """NAPALM, netmiko and paramiko take half a second; they are imported with the first login, not before."""
    done = subprocess.run([sys.executable, "-P", "-c", LOOK, verb], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
