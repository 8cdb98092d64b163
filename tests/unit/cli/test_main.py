"""How a command starts, without the libraries that it does not need, and how it ends where something is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from flashferry.cli import program
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import DeviceRefused
from flashferry.fileserver import ServerGone
from flashferry.images.errors import ImageUnreadable
from flashferry.model.lease import JournalUnusable

LOGINS = {"napalm", "netmiko", "paramiko"}
SERVICE = {"argon2", "fastapi", "flashferry.service", "httpx", "joserfc", "starlette", "uvicorn"}
DEVICES = {"flashferry.devices", "flashferry.fileserver", "flashferry.transports", "nornir", "ruamel", "textfsm"}
BUILD = """
from contextlib import suppress
from flashferry.cli.main import main
sys.argv = ["flashferry", *sys.argv[1:], "--help"]
with suppress(SystemExit): main()
"""


def imported(code, *words):
    """Return the modules that a process of its own has after some lines."""
    lines = f"import sys; {code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", lines, *words], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("verb", ["serve", "images", "doctor", "recover", "stage", "report", "--help"])
def test_what_a_command_imports(verb):
    """NAPALM, netmiko and paramiko take half a second, the service as long: who does without waits for neither."""
    assert not imported(BUILD, verb) & (LOGINS | SERVICE)


def test_who_only_reads_the_journal_waits_for_nothing_that_talks_to_devices():
    """`status` is asked often, and where nothing is in hand it needs no step and no platform."""
    assert not imported(f"{BUILD}\nfrom flashferry.store import status", "status") & (DEVICES | LOGINS | SERVICE)


def test_the_service_starts_without_what_talks_to_devices():
    """Its first answer comes within a second: its runs are processes of their own, and what few ask for comes later."""
    seldom = {"cryptography.x509", "flashferry.nightly.artefacts", "flashferry.planning.simulation", "httpx", "joserfc"}
    assert not imported("import flashferry.service.serving") & (DEVICES | LOGINS | seldom)


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
        monkeypatch.setattr(program, name, lambda *_: None)
    monkeypatch.setattr(program, "build", lambda: command)
    with pytest.raises(SystemExit) as ended:
        program.run([])
    assert ended.value.code == code
    assert capsys.readouterr().err.splitlines() == [f"flashferry: error: {error.message}. Check the path"]
