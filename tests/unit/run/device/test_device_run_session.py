"""The session of a device's run: told when it is opened, never missed when it cannot be ended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from nornir.core.inventory import Host

from flashferry.core.values import replace
from flashferry.devices.connection import NAME as CONNECTION
from flashferry.devices.errors import DeviceUnreachable, Interrupted
from flashferry.run.device import device_run
from flashferry.run.device.device_run import DeviceRun
from tests.unit.run.device.scripted import Steps, context


def login(**changes):
    """Return what logs in and out, and the events that it tells."""
    events = []
    return DeviceRun(Steps(), replace(context(), emit=events.append, **changes)), events


def told(events):
    return [(event.step, event.status) for event in events]


def test_logging_in_is_a_step_that_is_told():
    """And whoever was logged out is not any more."""
    found, events = login()
    found.log_out()
    assert found.is_logged_out
    found.connect()
    assert not found.is_logged_out
    assert told(events) == [("connect", "started"), ("connect", "done")]


def test_who_cannot_be_reached_stays_logged_out(monkeypatch):
    """The failure is told and raised as it is; the login slot is free again."""

    def fails(task):
        raise DeviceUnreachable("no route")

    monkeypatch.setattr(device_run, "session_of", fails)
    found, events = login()
    found.is_logged_out = True
    with pytest.raises(DeviceUnreachable):
        found.connect()
    assert found.is_logged_out
    assert told(events) == [("connect", "started"), ("connect", "failed")]
    assert found.context.slots.logins.inside == 0


def test_nobody_logs_in_where_the_run_is_stopped():
    """Not even a slot is waited for."""
    found, events = login(interrupted=lambda: True)
    with pytest.raises(Interrupted):
        found.connect()
    assert events == []


@pytest.mark.parametrize(("end", "status"), [("log_out", "note"), ("end_session", "failed")])
def test_a_session_that_cannot_be_ended_costs_nothing_but_a_word(monkeypatch, end, status):
    """It is not used any more either way."""

    def fails(host):
        raise OSError("broken pipe")

    monkeypatch.setattr(Host, "close_connections", fails)
    found, events = login()
    getattr(found, end)()
    assert told(events) == [("connect", status)]


def test_a_session_that_is_not_trusted_any_more_is_abandoned():
    """The next step finds none, and opens one."""
    found, _ = login()
    abandoned = []
    connection = SimpleNamespace(abandon=lambda: abandoned.append(1))
    found.task.host.connections[CONNECTION] = SimpleNamespace(connection=connection)
    found.drop_session()
    found.drop_session()
    assert abandoned == [1]
    assert CONNECTION not in found.task.host.connections
