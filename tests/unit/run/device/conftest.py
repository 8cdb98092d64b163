"""Whoever asks for a session of a device's run gets the scripted one."""

from __future__ import annotations

import pytest

from flashferry.run.device import copy_recovery, device_run, tickets
from tests.unit.run.device.scripted import Router


@pytest.fixture(autouse=True)
def no_session(monkeypatch):
    for module in (device_run, copy_recovery):
        monkeypatch.setattr(module, "session_of", lambda task: Router())
    monkeypatch.setattr(tickets, "own_addresses", lambda session: ("192.0.2.1",))
