"""Where known host keys are kept where a state folder is given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashferry.api.fleet import FleetOptions, whole_fleet
from flashferry.core.errors import ConfigInvalid
from inventory.access import key_rules


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
