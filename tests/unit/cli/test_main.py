"""How a command starts, without the libraries that it does not need, and how it ends where something is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flashferry.cli import main as command_line
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import DeviceRefused
from flashferry.fileserver import ServerGone
from flashferry.images.errors import ImageUnreadable
from flashferry.model.lease import JournalUnusable

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


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigInvalid("no such file", hint="Check the path"), 2),
        (DeviceRefused("no", hint="Check the path"), 3),
        (JournalUnusable("locked", hint="Check the path"), 5),
        (ServerGone("killed", hint="Check the path"), 1),
        (ImageUnreadable("changed", hint="Check the path"), 1),
    ],
)
def test_an_expected_error_is_one_sentence_and_a_code(monkeypatch, capsys, error, code):
    """Also one that should have been told further in: its sentence and what to do, and no trace of ours."""

    def command(**_):
        raise error

    for name in ("keep_environment_secrets", "fit_streams", "guard"):
        monkeypatch.setattr(command_line, name, lambda *_: None)
    monkeypatch.setattr(command_line, "build", lambda _: command)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == code
    assert capsys.readouterr().err.splitlines() == [f"flashferry: error: {error.message}. Check the path"]
