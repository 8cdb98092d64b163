"""Running a step: what is told of it, what its time goes to, and which step goes on although the run is stopped."""

from __future__ import annotations

import pytest

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceRefused, Interrupted
from flashferry.run.device.device_run import DeviceRun
from tasks.restore import RESTORE
from tasks.snapshot import SNAPSHOT
from tasks.steps import CONNECT
from tests.unit.run.device.scripted import Steps, context


def runner(*, is_stopped=False, **scripts):
    """Return the run of a device's run with these steps, and the events that it tells."""
    events = []
    given = replace(context(), emit=events.append, interrupted=lambda: is_stopped)
    return DeviceRun(Steps(**scripts), given), events


def told(events):
    return [(event.step, event.status) for event in events]


def test_a_step_is_told_and_its_time_is_kept():
    """Begun and ended, and what it returned is handed back as it is."""
    run, events = runner(snapshot=lambda task: "before")
    assert run.run_step(SNAPSHOT, None) == "before"
    assert told(events) == [("snapshot", "started"), ("snapshot", "done")]
    assert set(run.record.seconds_by_step) == {"snapshot"}


def test_what_a_step_raises_knows_its_device_and_its_step():
    """As it was raised, not in Nornir's wrapping; its time is kept all the same."""

    def refuses(task):
        raise DeviceRefused("no")

    run, events = runner(snapshot=refuses)
    with pytest.raises(DeviceRefused) as raised:
        run.run_step(SNAPSHOT, None)
    assert (raised.value.host, raised.value.step) == ("r1", "snapshot")
    assert told(events) == [("snapshot", "started"), ("snapshot", "failed")]
    assert set(run.record.seconds_by_step) == {"snapshot"}


def test_a_run_that_is_stopped_still_restores():
    """Nothing else is begun, and what is not begun is not told as begun."""
    run, events = runner(is_stopped=True, restore=lambda task: "report", snapshot=lambda task: "before")
    with pytest.raises(Interrupted):
        run.run_step(SNAPSHOT, None)
    assert events == []
    assert run.run_step(RESTORE, None) == "report"


def test_a_step_that_is_no_task_is_told_alike():
    """The time of several turns adds up."""
    run, events = runner()
    for _ in range(2):
        with run.timed(CONNECT.word):
            pass
    with pytest.raises(DeviceRefused), run.timed(CONNECT.word):
        raise DeviceRefused("no")
    statuses = [event.status for event in events]
    assert statuses == ["started", "done", "started", "done", "started", "failed"]
    assert set(run.record.seconds_by_step) == {"connect"}
