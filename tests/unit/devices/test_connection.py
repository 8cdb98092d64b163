"""What of an inventory's options reaches the session."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.devices import connection
from flashferry.devices.connection import KEY_RULES, FlashferryConnection
from flashferry.devices.errors import HostKeyRefused
from flashferry.devices.host_keys import HostKeys
from flashferry.devices.login import Login, open_driver
from inventory.host_key_rules import HostKeyPolicy, KeyRules


def test_no_log_of_what_is_typed(monkeypatch: pytest.MonkeyPatch):
    """A copy's credentials are typed: netmiko's session log is dropped, all else is passed on, nothing is changed."""
    logins: list[Login] = []
    monkeypatch.setattr(connection, "DeviceSession", lambda login: logins.append(login) or SimpleNamespace())
    rules = KeyRules(policy=HostKeyPolicy.STRICT, known_hosts=Path("known_hosts"))
    given = {"session_log": "/tmp/log", "session_log_record_writes": True, "conn_timeout": 7}
    FlashferryConnection().open("192.0.2.1", "u", "p", 22, "ios", {KEY_RULES: rules, "optional_args": given})
    assert logins[0].optional_args == {"conn_timeout": 7}
    assert "session_log" in given


@pytest.mark.parametrize("field", ["username", "password", "enable_secret"])
def test_nothing_is_opened_with_what_no_line_can_hold(field: str):
    """The last look before anything is sent, whoever made the login: the enable secret is typed into a line."""
    keys = HostKeys(path=Path("known_hosts"), policy=HostKeyPolicy.STRICT, device="r1")
    given = {"username": "u", "password": "p", "enable_secret": None} | {field: "Word\nreload"}
    login = Login(name="r1", address="192.0.2.1", port=22, host_keys=keys, **given)
    with pytest.raises(ConfigInvalid, match=r"^r1: connect: .*expected one line of text, found a line break") as caught:
        open_driver(login)
    assert "Word" not in str(caught.value)


RULES = KeyRules(policy=HostKeyPolicy.STRICT, known_hosts=Path("known_hosts"))


@pytest.mark.parametrize("given", ["/etc/shadow", "../outside", 7])
def test_netmikos_file_of_known_hosts_is_below_the_state(monkeypatch, tmp_path, given):
    """It is one more way to name a file that is read and written to; nothing is opened."""
    monkeypatch.setenv("FLASHFERRY_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(connection, "DeviceSession", lambda login: pytest.fail("opened"))
    arguments = {"alt_host_keys": True, "alt_key_file": given}
    with pytest.raises(ConfigInvalid, match=r"^r1: connect: alt_key_file: expected "):
        FlashferryConnection().open(
            "h", "u", "p", 22, "ios", {"name": "r1", KEY_RULES: RULES, "optional_args": arguments}
        )


@pytest.mark.parametrize("key", ["key_file", "ssh_config_file"])
def test_a_pipe_is_no_key_file(monkeypatch, tmp_path, key):
    """A library would open it and wait without end."""
    monkeypatch.setattr(connection, "DeviceSession", lambda login: pytest.fail("opened"))
    os.mkfifo(tmp_path / "pipe")
    extras = {"name": "r1", KEY_RULES: RULES, "optional_args": {key: str(tmp_path / "pipe")}}
    with pytest.raises(ConfigInvalid, match=rf"{key}: expected a regular file, found a named pipe"):
        FlashferryConnection().open("h", "u", "p", 22, "ios", extras)


def test_known_hosts_are_not_waited_for(tmp_path):
    """A pipe in their place is refused, with what it is; the device is not logged in to."""
    os.mkfifo(tmp_path / "pipe")
    keys = HostKeys(path=tmp_path / "pipe", policy=HostKeyPolicy.ACCEPT_NEW, device="r1")
    with pytest.raises(HostKeyRefused, match="cannot be read: expected a regular file, found a named pipe"):
        keys.known("192.0.2.1")


@pytest.mark.parametrize(("job", "told"), [("j1", "service.toml"), ("", "set FLASHFERRY_USERNAME")])
def test_who_has_no_login_is_told_where_to_give_it(monkeypatch, job, told):
    """A job of a service is not told of variables that the service takes away."""
    monkeypatch.setenv("FLASHFERRY_JOB", job)
    monkeypatch.setattr(connection, "view", lambda host: SimpleNamespace(name="r1"))
    nothing = SimpleNamespace(username=None, password=None)
    host = SimpleNamespace(get_connection_parameters=lambda name: nothing)
    with pytest.raises(ConfigInvalid, match="no username or no password") as caught:
        connection._open(host, SimpleNamespace(), SimpleNamespace())
    assert told in caught.value.hint


@pytest.mark.parametrize("given", ["secret hidden-word", ["secret"], 7])
def test_options_that_are_no_mapping_are_refused_in_a_sentence(given):
    """An inventory plugin may leave anything there; nothing was opened, and nothing of it is quoted."""
    extras = {"name": "r1", KEY_RULES: RULES, "optional_args": given}
    with pytest.raises(ConfigInvalid, match=r"r1: connect: .*optional_args: expected a mapping") as caught:
        FlashferryConnection().open("h", "u", "p", 22, "ios", extras)
    assert "hidden-word" not in str(caught.value)
