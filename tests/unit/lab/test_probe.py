"""Where the lab cannot run it says why."""

from pathlib import Path

import pytest

from flashferry.lab import namespaces
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import Probe, probe
from flashferry.lab.world import start_world


def _refuse() -> None:
    raise PermissionError(1, "Operation not permitted")


def _refuse_tun(name: str) -> int:
    raise PermissionError(1, "Operation not permitted")


def test_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user is told to use root, and a world refuses to start with that sentence."""
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 1000)
    assert probe() == Probe(may_run=False, reason="The lab needs root to make network namespaces; run it as root.")
    with pytest.raises(LabError, match="needs root"), start_world():
        pass


def test_without_tun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without the TUN device is told which module it wants."""
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "_TUN_PATH", tmp_path / "tun")
    assert "modprobe tun" in probe().reason


def test_where_the_kernel_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A container without the capabilities learns which one it lacks."""
    (tmp_path / "tun").touch()
    monkeypatch.setattr(namespaces.os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespaces, "_TUN_PATH", tmp_path / "tun")
    monkeypatch.setattr(namespaces, "unshare_network", lambda: None)
    monkeypatch.setattr(namespaces, "open_tun", _refuse_tun)
    assert "CAP_NET_ADMIN" in probe().reason
    monkeypatch.setattr(namespaces, "unshare_network", _refuse)
    seen = probe()
    assert not seen.may_run
    assert "CAP_SYS_ADMIN" in seen.reason
