"""The keys `transports` and `clear_text`: what they allow, and how mistakes in them are told."""

from __future__ import annotations

import re

import pytest

from flashferry.core.errors import ConfigInvalid
from inventory.host_view import HostView, view
from inventory.nornir_loader import open_inventory
from inventory.transport_policy import CLEAR_TEXT, NAMES, ORDER, PUSH, TransportPolicy


def one(folder, data: str = "{}", group: str = "{}", defaults: str = "{}") -> HostView:
    (folder / "hosts.yaml").write_text(f"r1: {{hostname: h, platform: ios, groups: [east], data: {data}}}")
    (folder / "groups.yaml").write_text(f"east: {{data: {group}}}")
    (folder / "defaults.yaml").write_text(f"data: {defaults}")
    return view(open_inventory(folder).inventory.hosts["r1"])


@pytest.mark.parametrize(
    ("data", "group", "defaults", "names"),
    [
        ("{}", "{}", "{}", ORDER),
        ("{transports: [http, scp]}", "{}", "{}", ("http", "scp")),
        ("{transports: [scp, http, ftp]}", "{}", "{}", ("scp", "http", "ftp")),
        ("{transports: 'http; scp'}", "{}", "{}", ("http", "scp")),
        ("{clear_text: false}", "{}", "{}", ("scp", "https", "sftp")),
        ("{clear_text: 'no'}", "{}", "{}", ("scp", "https", "sftp")),
        ("{transports: [http, scp]}", "{clear_text: false}", "{}", ("scp",)),
        ("{clear_text: true}", "{clear_text: false}", "{}", ORDER),
        ("{transports: null}", "{transports: [scp]}", "{}", ORDER),
        ("{}", "{transports: [sftp]}", "{transports: [ftp]}", ("sftp",)),
        ("{}", "{}", "{transports: [http], clear_text: true}", ("http",)),
        ("{transports: [push, scp]}", "{}", "{}", ("push", "scp")),
    ],
)
def test_what_the_keys_allow(tmp_path, data, group, defaults, names):
    """The list's order is the order; push only where it is named; false takes out what is clear; the nearest wins."""
    assert one(tmp_path, data, group, defaults).transport_policy.names == names


@pytest.mark.parametrize(
    ("data", "group", "sentence"),
    [
        ("{transports: [tftp]}", "{}", "data key 'transports': expected some of ftp, .*push, found 'tftp'"),
        ("{transports: [secret1]}", "{}", "'transports': .*found text of 7 characters"),
        ("{}", "{transports: [http, http]}", "'transports': expected each transport once, found http twice"),
        ("{transports: []}", "{}", "'transports': expected at least one of ftp.* found an empty list"),
        ("{transports: {a: 1}}", "{}", "'transports': expected a list of ftp.* found a mapping with 1 key"),
        ("{transports: [[ftp]]}", "{}", "'transports': expected some of .* found a list with 1 entry"),
        ("{clear_text: maybe}", "{}", "'clear_text': expected true or false, found text of 5 characters"),
        ("{clear_text: 0}", "{}", "'clear_text': expected true or false, found 0"),
        ("{transport: [ftp]}", "{}", "unknown key 'transport'; did you mean 'transports'"),
    ],
)
def test_a_wrong_value_is_told_in_one_sentence(tmp_path, data, group, sentence):
    """With the host, the key, what was expected and what was found; a secret in the wrong place is not shown."""
    with pytest.raises(ConfigInvalid, match=sentence) as caught:
        one(tmp_path, data, group)
    assert caught.value.hint


def test_keys_that_leave_none_are_told_with_host_key_and_both_origins(tmp_path):
    """A group's list and the defaults' prohibition may each make sense by themselves."""
    sentence = (
        "r1: data key 'transports' of group 'east': expected one of scp, https, sftp among them, since 'clear_text' of "
        "the defaults is false, found ftp, http alone"
    )
    with pytest.raises(ConfigInvalid, match=sentence):
        one(tmp_path, "{}", "{transports: [ftp, http]}", "{clear_text: false}")


@pytest.mark.parametrize(
    ("policy", "name", "objection"),
    [
        (TransportPolicy(), "scp", None),
        (TransportPolicy(), PUSH, "is not among"),
        (TransportPolicy(stated=("http", "scp")), "http", None),
        (TransportPolicy(stated=("http", "scp")), "ftp", r"is not among the transports .*\(http, scp\)"),
        (TransportPolicy(clear_text=False), "http", "carries clear text, which the inventory forbids"),
    ],
)
def test_why_a_transport_is_not_allowed(policy, name, objection):
    """In words for behind its name."""
    found = policy.objection(name)
    assert (found is None) == (objection is None)
    assert objection is None or re.search(objection, found)


def test_every_name_is_known_once():
    """The usual order has each, push stands apart, and what is clear is part of it."""
    assert len(set(NAMES)) == len(NAMES) == len(ORDER) + 1
    assert set(ORDER) > CLEAR_TEXT
