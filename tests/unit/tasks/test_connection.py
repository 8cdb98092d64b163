"""What of an inventory's options reaches the session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from inventory.access import HostKeyPolicy, KeyRules
from inventory.errors import ConfigInvalid
from tasks import connection
from tasks.connection import KEY_RULES, FlashferryConnection
from tasks.host_keys import HostKeys
from tasks.login import Login, open_driver


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
