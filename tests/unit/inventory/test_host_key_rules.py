"""How host keys are judged, by inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from inventory.host_key_rules import HostKeyPolicy, key_rules, state_directory
from inventory.nornir_loader import open_inventory


def rules(folder, data):
    (folder / "hosts.yaml").write_text(f"r1: {{hostname: h, groups: [lab], data: {data}}}")
    (folder / "groups.yaml").write_text("lab: {data: {host_keys: strict}}")
    return key_rules(open_inventory(folder).inventory.hosts["r1"])


def test_the_nearest_word_counts(tmp_path, monkeypatch):
    """A group's policy holds for its devices until one of them says otherwise; the file is ours until one is given."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path / "state"))
    assert rules(tmp_path, "{}").policy is HostKeyPolicy.STRICT
    assert rules(tmp_path, "{host_keys: accept-new}").policy is HostKeyPolicy.ACCEPT_NEW
    assert rules(tmp_path, "{}").known_hosts == state_directory() / "known_hosts" == tmp_path / "state" / "known_hosts"
    assert rules(tmp_path, "{known_hosts: lab/keys}").known_hosts == tmp_path / "state" / "lab" / "keys"


ELSEWHERE = (
    "data key 'known_hosts'.*: expected a file of its own in the state folder, found a path that leads elsewhere"
)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "~/.ssh/known_hosts",
        "../outside",
        "lab/../../outside",
        "link",
        "linked/keys",
        "circle",
        ".",
        "journal.sqlite3",
        "journal.sqlite3-wal",
        "runs/any.lock",
        "lab/../digests.json",
        "to-journal",
    ],
)
def test_an_inventory_names_known_hosts_below_the_state_only(tmp_path, monkeypatch, path):
    """Neither by its way nor by a link to any file of the controller, and to no other file of our own state."""
    state = tmp_path / "state"
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(state))
    (state / "lab").mkdir(parents=True)
    (tmp_path / "outside").write_text("x")
    (state / "link").symlink_to(tmp_path / "outside")
    (state / "linked").symlink_to(tmp_path)
    (state / "circle").symlink_to(state / "circle")
    (state / "to-journal").symlink_to(state / "journal.sqlite3")
    with pytest.raises(ConfigInvalid, match=rf"^r1: {ELSEWHERE}.*--known-hosts FILE may name any file") as caught:
        rules(tmp_path, f"{{known_hosts: {path}}}")
    assert path not in str(caught.value) or path == "."


def test_a_path_object_is_somebodys_own(tmp_path):
    """What the command line or a script sets may be anywhere; no inventory can hold such a value."""
    rules(tmp_path, "{}")
    opened = open_inventory(tmp_path).inventory
    opened.hosts["r1"].data["known_hosts"] = Path("/own/file")
    assert key_rules(opened.hosts["r1"]).known_hosts == Path("/own/file")


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("{host_keys: false}", "expected accept-new or strict, found False"),
        ("{host_keys: ignore}", "expected accept-new or strict, found text of 6 characters \\(line 1\\)"),
        ("{known_hosts: false}", "expected the path of a file, found False"),
        ("{known_hosts: [a]}", "expected the path of a file"),
    ],
)
def test_a_wrong_word_is_told(tmp_path, data, sentence):
    """There is no way to switch the judgement off, and no value that is taken silently for another."""
    with pytest.raises(ConfigInvalid, match=sentence):
        rules(tmp_path, data)


def test_a_wrong_word_of_a_group_is_told_with_its_file(tmp_path):
    """It is found before anything is opened, where it stands."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: h, groups: [lab]}")
    (tmp_path / "groups.yaml").write_text("lab: {data: {host_keys: lax}}")
    with pytest.raises(
        ConfigInvalid, match=r"^lab: .*groups\.yaml: data key 'host_keys': expected accept-new or strict"
    ):
        open_inventory(tmp_path)


def test_what_a_script_sets_later_is_told_with_its_group(tmp_path):
    """There is no file to name then, but there is a group."""
    rules(tmp_path, "{}")
    opened = open_inventory(tmp_path).inventory
    opened.groups["lab"].data["known_hosts"] = 5
    with pytest.raises(ConfigInvalid, match=r"^r1: data key 'known_hosts' of group 'lab': expected the path of a file"):
        key_rules(opened.hosts["r1"])


def test_an_enable_secret_of_the_wrong_kind_is_not_shown(tmp_path):
    """Digits without quotes are told by key and kind."""
    (tmp_path / "hosts.yaml").write_text("r1: {hostname: h, data: {enable_secret: 12345678}}")
    with pytest.raises(
        ConfigInvalid, match=r"'enable_secret': expected text, found int \(line 1\). Put it in quotes"
    ) as caught:
        open_inventory(tmp_path)
    assert "12345678" not in str(caught.value)
