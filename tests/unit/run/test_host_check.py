"""What `doctor` says of our SSH host keys, and of extras that only some need."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.depot.handshake import DepotView
from flashferry.depot.status import DepotFound
from flashferry.run import host_check as module
from flashferry.sshserver import load_host_keys
from flashferry.transports.listeners import HOST_KEYS


def finding(name: str, state: Path) -> module.Finding:
    (found,) = [one for one in module.check_host(None, state=state) if one.name == name]
    return found


def test_host_keys_are_looked_at_and_none_is_made(tmp_path: Path) -> None:
    """That there are none yet is no fault; those that are there are told with kind and fingerprints."""
    none_yet = finding("SSH host keys", tmp_path)
    assert none_yet.is_good
    assert none_yet.found.startswith("none in ")
    assert list(tmp_path.iterdir()) == []
    keys = load_host_keys(tmp_path / HOST_KEYS)
    there = finding("SSH host keys", tmp_path)
    assert there.is_good
    assert all(key.described in there.found for key in keys)


def test_a_host_key_that_others_may_read_is_told_with_what_to_do(tmp_path: Path) -> None:
    """The server would not start with it."""
    load_host_keys(tmp_path / HOST_KEYS)[0].path.chmod(0o644)
    found = finding("SSH host keys", tmp_path)
    assert (found.is_good, "found mode 644" in found.found) == (False, True)
    assert "chmod 600" in found.advice


@pytest.mark.parametrize("is_there", [True, False])
def test_the_extra_for_a_lab_controller_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_there: bool
) -> None:
    """Whether it is there, and what brings it."""
    monkeypatch.setattr(module, "find_spec", lambda name: name if is_there else None)
    found = finding("extra for Cisco Modeling Labs", tmp_path)
    assert found.is_good is is_there
    assert is_there or ("virl2_client" in found.found and "[cml]" in found.advice)


@pytest.mark.parametrize("reason", ["port 21 is in use; stop its owner or choose another port", "takes root"])
def test_a_port_that_the_depot_has_is_served_and_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str
) -> None:
    """Nobody is told to stop our own server; of ports that it does not have all is as ever."""
    view = DepotView(release="1", pid=4711, since=0.0, ports={"ftp": 21, "https": 8443})
    monkeypatch.setattr(module, "find_depot", lambda *_: DepotFound(socket=tmp_path / "depot.sock", view=view))
    monkeypatch.setattr(module, "may_bind", lambda _port: reason)
    ftp = finding("FTP port 21", tmp_path)
    assert (ftp.is_good, ftp.found, ftp.advice) == (True, "served by the depot, process 4711, for all runs", "")
    https = finding("HTTPS port 443", tmp_path)
    assert (https.is_good, https.found) == (False, f"{reason}; runs use the depot's port 8443")
    http = finding("HTTP port 80", tmp_path)
    assert (http.is_good, http.found) == (False, reason)
