"""How a depot is run, checked before anything starts; and what its server is told."""

from __future__ import annotations

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.daemon import Depot
from flashferry.depot.options import DepotOptions


def test_its_socket_is_in_the_state_folder_unless_said(tmp_path, monkeypatch):
    """One that is said is made whole: runs look for it from elsewhere."""
    monkeypatch.chdir(tmp_path)
    assert DepotOptions(state=tmp_path).at == tmp_path / "depot.sock"
    assert DepotOptions(state=tmp_path, socket=tmp_path.joinpath("a").relative_to(tmp_path)).at == tmp_path / "a"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"transports": ("gopher",)}, "found 'gopher'"),
        ({"transports": ()}, "expected at least one, found none"),
        ({"other_ports": {"http": 80}}, "--http-port: expected http among the transports served"),
        ({"transports": ("https",)}, "https: "),
    ],
)
def test_contradictions_are_told(tmp_path, wrong, told):
    """In the words of `flashferry serve`."""
    with pytest.raises(ConfigInvalid, match=told):
        DepotOptions(state=tmp_path, **wrong)


def test_its_server_has_no_image_of_its_own(tmp_path):
    """Runs bring theirs; several transports are served, each at its port."""
    options = DepotOptions(state=tmp_path, transports=("ftp", "http"), port=0, other_ports={"http": 0}, drain_s=7.0)
    settings = options.settings()
    assert settings.image_paths == ()
    assert [listener.transports for listener in settings.listeners] == [("ftp",), ("http",)]
    assert settings.limits.drain_s == 7.0


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"passive_ports": (9, 1)}, "--passive-ports: expected two ports"),
        ({"listen": "x"}, "--listen: expected an IP address"),
        ({"masquerade": "x"}, "--masquerade: expected an IP address"),
        ({"congestion_control": "x"}, "--congestion-control: expected one of"),
    ],
)
def test_a_value_out_of_range_is_named_by_its_option(tmp_path, given, expected):
    """As it was typed, not by the server's own name for the setting."""
    with pytest.raises(ConfigInvalid, match=f"^server: {expected}"):
        Depot(DepotOptions(state=tmp_path, **given)).__enter__()
