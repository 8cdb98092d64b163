"""Recovery of an activation: a device that may be at it still is not let go of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceUnreachable
from flashferry.model.activation import ActivationOutcome, Phase
from flashferry.run.activation import following as followed
from flashferry.run.activation import recovery
from tests.unit.run.test_activation_following import ADDED, BEFORE, Device, follows


def ended(monkeypatch, phase, *, minutes):
    """Return what recovery says of a device that runs the old image so long behind its command."""
    Device(monkeypatch, (ADDED, BEFORE))
    monkeypatch.setattr(followed.Following, "is_as_before", lambda _: True)
    since = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(timespec="seconds")
    activation = replace(follows(phase)[0].activation, since=since)
    device = SimpleNamespace(host="r1", run_id="run", activation=activation, snapshot=None)
    ending = SimpleNamespace(
        journal=SimpleNamespace(activating=lambda *_: None),
        notify=lambda *_: None,
        interrupted=lambda: False,
        patience_s=0.0,
    )
    task = SimpleNamespace(host=SimpleNamespace(name="r1", connections={}))
    return recovery.end_activation(task, device, activation, ending)[0]


def test_a_device_that_may_work_at_its_activation_is_not_let_go_of(monkeypatch):
    """An install command takes 40 minutes at most; by then nobody knows that it will not restart."""
    with pytest.raises(DeviceUnreachable, match="the old image runs"):
        ended(monkeypatch, Phase.ACTIVATING, minutes=20)


@pytest.mark.parametrize(("phase", "minutes"), [(Phase.ACTIVATING, 41), (Phase.RELOADING, 3), (Phase.INTENDED, 0)])
def test_a_device_that_never_restarted_is_told_as_that(monkeypatch, phase, minutes):
    """Behind all that its command could take, or before any."""
    assert ended(monkeypatch, phase, minutes=minutes).outcome is ActivationOutcome.NOT_ACTIVATED


@pytest.mark.parametrize(
    ("phase", "minutes", "logins"),
    [(Phase.ACTIVATING, 1, 3), (Phase.ROLLING_BACK, 1, 3), (Phase.ACTIVATING, 200, 1), (Phase.ORDERING, 0, 1)],
)
def test_a_device_on_its_way_up_is_waited_for(monkeypatch, phase, minutes, logins):
    """Recovery begins where the run was killed: in the middle of the restart; not where nothing restarts it."""
    tried = []

    def session_of(_):
        tried.append(1)
        if len(tried) < 2:
            raise DeviceUnreachable("no answer", host="r1")
        return "session"

    def check(_):
        # Up still at the login, and on its way down by the first question.
        if len(tried) < 3:
            raise DeviceUnreachable("the session broke", host="r1")

    monkeypatch.setattr(recovery, "session_of", session_of)
    monkeypatch.setattr(recovery, "RETRY_EVERY_S", 0.0)
    since = (datetime.now(UTC) - timedelta(minutes=minutes)).isoformat(timespec="seconds")
    device = SimpleNamespace(host="r1", activation=replace(follows(phase)[0].activation, since=since))
    ending = SimpleNamespace(notify=lambda *_: None, interrupted=lambda: False, patience_s=60.0)
    task = SimpleNamespace(host=SimpleNamespace(connections={}))
    if logins == 3:
        assert recovery.session_with(task, device, ending, check) == "session"
    else:
        with pytest.raises(DeviceUnreachable):
            recovery.session_with(task, device, ending, check)
    assert len(tried) == logins
