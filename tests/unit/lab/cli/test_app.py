"""`flashferry lab exec` with what cannot be run: a sentence, no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.lab.cli import app as lab


def test_flashferry_itself_is_found_without_a_search_path(monkeypatch: pytest.MonkeyPatch):
    """What `lab up` tells to type also works where this command was called by its path."""
    called: list[list[str]] = []
    monkeypatch.setattr(lab, "_become", lambda command, _site: called.append(command))
    monkeypatch.setattr("sys.argv", ["/opt/venv/bin/flashferry", "lab", "exec", "flashferry", "check"])
    monkeypatch.setenv("PATH", "/nowhere")
    lab.run_inside(["flashferry", "check"])
    assert called == [["/opt/venv/bin/flashferry", "check"]]


@pytest.mark.parametrize("as_json", [False, True])
def test_what_the_system_cannot_run_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool):
    """An executable file that is neither a program nor names its interpreter; nobody is in a running lab here."""
    monkeypatch.setattr(lab, "_enter", lambda *_: None)
    script = tmp_path / "script"
    script.write_bytes(b"\x00no program")
    script.chmod(0o700)
    with pytest.raises(ConfigInvalid, match="script: expected a program, found what the system cannot run: "):
        lab.run_inside([str(script)], json=as_json)
