"""What of an inventory's options reaches the session."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from inventory.access import HostKeyPolicy, KeyRules
from tasks import connection
from tasks.connection import KEY_RULES, FlashferryConnection
from tasks.login import Login


def test_no_log_of_what_is_typed(monkeypatch: pytest.MonkeyPatch):
    """A copy's credentials are typed: netmiko's session log is dropped, all else is passed on, nothing is changed."""
    logins: list[Login] = []
    monkeypatch.setattr(connection, "DeviceSession", lambda login: logins.append(login) or SimpleNamespace())
    rules = KeyRules(policy=HostKeyPolicy.STRICT, known_hosts=Path("known_hosts"))
    given = {"session_log": "/tmp/log", "session_log_record_writes": True, "conn_timeout": 7}
    FlashferryConnection().open("192.0.2.1", "u", "p", 22, "ios", {KEY_RULES: rules, "optional_args": given})
    assert logins[0].optional_args == {"conn_timeout": 7}
    assert "session_log" in given
