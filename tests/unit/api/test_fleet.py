"""Where known host keys are kept where a state folder is given; and devices as their depot sees them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashferry.api.fleet import FleetOptions, whole_fleet
from flashferry.core.errors import ConfigInvalid
from inventory.host_key_rules import key_rules
from inventory.host_view import view


def test_known_hosts_are_in_the_given_state_folder(tmp_path):
    """`--state-dir` moves them with all other state; what --known-hosts or the inventory says goes before."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1}\nr2: {data: {known_hosts: own/file}}\n")
    state = tmp_path / "state"

    def files(**more: Path) -> list[Path]:
        nornir = whole_fleet(FleetOptions(inventory=str(tmp_path), state_dir=state, **more))
        return [key_rules(host).known_hosts for host in nornir.inventory.hosts.values()]

    assert files() == [state / "known_hosts", state / "own" / "file"]
    assert files(known_hosts=tmp_path / "given") == [tmp_path / "given"] * 2


@pytest.mark.parametrize("where", ["r1", "east", "defaults"])
@pytest.mark.parametrize(
    "entry",
    ["data: {known_hosts: VALUE}", "connection_options: {napalm: {extras: {optional_args: {alt_key_file: VALUE}}}}"],
)
def test_known_hosts_out_of_the_given_state_folder_are_refused(tmp_path, monkeypatch, where, entry):
    """Wherever they stand, before anything is touched; the folder that is given counts, not the usual one."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "usual"))
    texts = {"hosts": "r1: {hostname: h, groups: [east]}", "groups": "east: {}", "defaults": "{}"}
    name = {"r1": "hosts", "east": "groups", "defaults": "defaults"}[where]
    value = entry.replace("VALUE", str(tmp_path / "usual" / "keys"))
    texts[name] = {"hosts": f"r1: {{hostname: h, {value}}}", "groups": f"east: {{{value}}}", "defaults": value}[name]
    for one, text in texts.items():
        (tmp_path / f"{one}.yaml").write_text(text)
    with pytest.raises(ConfigInvalid, match=rf"^{where}: .*expected a file of its own in the state folder"):
        whole_fleet(FleetOptions(inventory=str(tmp_path), state_dir=tmp_path / "state"))
    whole_fleet(FleetOptions(inventory=str(tmp_path)))


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_the_operators_own_file_must_be_one(tmp_path, kind):
    """It may be anywhere, but a pipe would be waited for without end."""
    path = Path("/dev/null") if kind == "device" else tmp_path / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: 192.0.2.1}")
    with pytest.raises(ConfigInvalid, match=rf"known hosts .*: expected a regular file, found a .*{kind}"):
        whole_fleet(FleetOptions(inventory=str(tmp_path), known_hosts=path))


def test_at_the_depot_devices_are_behind_the_lan(tmp_path):
    """The line to the site holds no copy back there, nobody else brings the image; devices of other sites stay."""
    depot = "data: {site: ams, link_rate_bps: 8000000, depot: store, neighbours: true, lan_rate_bps: 1000000000}"
    (tmp_path / "groups.yaml").write_text(f"ams: {{{depot}}}\nlim: {{data: {{site: lim, link_rate_bps: 4000000}}}}\n")
    devices = (
        f"{name}: {{hostname: {name}, platform: ios, groups: [{site}]}}\n"
        for name, site in (("a", "ams"), ("b", "lim"))
    )
    (tmp_path / "hosts.yaml").write_text("".join(devices))
    hosts = whole_fleet(FleetOptions(inventory=str(tmp_path), at_depot=True)).inventory.hosts
    at_home, far = view(hosts["a"]), view(hosts["b"])
    assert (at_home.link_rate_bps, at_home.depot, at_home.neighbours, at_home.site) == (1e9, None, False, "ams")
    assert far.link_rate_bps == 4e6
    (tmp_path / "groups.yaml").write_text(f"ams: {{{depot.replace(', lan_rate_bps: 1000000000', '')}}}\nlim: {{}}\n")
    hosts = whole_fleet(FleetOptions(inventory=str(tmp_path), at_depot=True)).inventory.hosts
    assert view(hosts["a"]).link_rate_bps is None
