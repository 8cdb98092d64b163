"""What goes on as values: journal and events put together, sums, ends, and what is changed and not restored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from flashferry.model.states import Phase, RunState
from flashferry.service.live.presenters import device_row
from flashferry.service.live.snapshot import DeviceActivity, EventView, Forecast, limited_to, sum_up
from tests.unit.service.live.made import NOW, device, run


def copying(acked: int = 400, rate: float = 10.0) -> DeviceActivity:
    return DeviceActivity(
        phase=Phase.IN_PROGRESS, step="pull", acked_bytes=acked, size_bytes=1000, rate_bytes_per_s=rate
    )


def test_a_device_under_way_stands_where_its_events_say():
    """They are newer than the journal, and have rates."""
    found = run(device("r1", "tuned", is_held=True), heard=EventView(devices={"r1": copying()}))
    (one,) = found.devices
    assert (one.phase, one.step, one.acked_bytes, one.left_bytes) == (Phase.IN_PROGRESS, "pull", 400, 600)
    assert found.whole.copying == 1


def test_the_journals_last_word_is_the_last_word():
    """What ended is not under way, whatever was heard before."""
    found = run(device("r1", "done", outcome="done"), heard=EventView(devices={"r1": copying()}))
    assert found.devices[0].phase is Phase.DONE
    assert (found.whole.rate_bytes_per_s, found.whole.left_bytes, found.whole.acked_bytes) == (0.0, 0, 1000)


def test_of_a_run_that_died_its_events_tell_nothing_any_more():
    """No rate stands still on the screen."""
    found = run(device("r1", "copying", is_held=True), state=RunState.DIED, heard=EventView(devices={"r1": copying()}))
    assert found.whole.rate_bytes_per_s == 0
    assert found.unrestored == ("r1",)


@pytest.mark.parametrize(
    ("state", "more", "expected"),
    [
        (RunState.ALIVE, {"state": "tuned", "is_held": True}, ()),
        (RunState.DIED, {"state": "tuned", "is_held": True}, ("r1",)),
        (RunState.FINISHED, {"state": "failed", "is_held": True, "outcome": "failed"}, ("r1",)),
        (RunState.FINISHED, {"state": "failed", "outcome": "failed", "restored": "incomplete"}, ("r1",)),
        (RunState.ALIVE, {"state": "failed", "outcome": "failed", "restored": "incomplete"}, ("r1",)),
        (RunState.DIED, {"state": "planned"}, ()),
        (RunState.FINISHED, {"state": "done", "outcome": "done", "restored": "restored"}, ()),
    ],
)  # fmt: skip
def test_what_is_changed_and_nobody_is_at_it_is_not_restored(state, more, expected):
    """In the hands of a run that lives it is in order; left by a dead one, or given up, it is not."""
    assert run(device(**more), state=state).unrestored == expected


@pytest.mark.parametrize(
    ("state", "device_state", "outcome", "phase"),
    [
        (RunState.ALIVE, "planned", None, Phase.QUEUED),
        (RunState.DIED, "planned", None, Phase.NOT_STARTED),
        (RunState.ALIVE, "checked", None, Phase.IN_PROGRESS),
        (RunState.DIED, "checked", None, Phase.INTERRUPTED),
        (RunState.FINISHED, "done", "already there", Phase.DONE),
        (RunState.FINISHED, "failed", "refused", Phase.REFUSED),
        (RunState.FINISHED, "failed", "interrupted", Phase.INTERRUPTED),
        (RunState.FINISHED, "planned", "not begun", Phase.NOT_STARTED),
    ],
)
def test_where_a_device_stands_by_its_journal(state, device_state, outcome, phase):
    """In the words that an operator counts by."""
    assert run(device(state=device_state, outcome=outcome), state=state).devices[0].phase is phase


def test_a_run_ends_when_its_slowest_site_does():
    """What is left there at the rate of now."""
    fast, slow = device("r1", "copying"), device("r2", "copying", site="LIM")
    heard = EventView(devices={"r1": copying(rate=100.0), "r2": copying(rate=1.0)})
    found = run(fast, slow, heard=heard, until=(NOW + timedelta(seconds=660)).isoformat())
    assert found.ends_at == NOW + timedelta(seconds=600)
    assert found.spare == timedelta(seconds=60)
    assert not found.is_at_least


def test_a_site_that_has_not_begun_makes_the_end_a_least():
    """Unless the plan has a word on it."""
    devices = device("r1", "copying"), device("r2", "planned", site="LIM")
    heard = EventView(devices={"r1": copying()})
    found = run(*devices, heard=heard)
    assert (found.ends_at, found.is_at_least) == (NOW + timedelta(seconds=60), True)
    planned = run(*devices, heard=heard, forecast=Forecast(duration_s=7200.0))
    assert (planned.ends_at, planned.is_at_least) == (datetime(2026, 11, 22, 3, 0, tzinfo=UTC), False)


def test_a_plan_that_is_past_promises_nothing_before_now():
    """The run is late; the end is not in the past."""
    found = run(device("r2", "planned"), forecast=Forecast(duration_s=60.0))
    assert found.ends_at == NOW


def test_nothing_known_is_no_end():
    """Missing is never 0."""
    assert run(device("r1", "planned")).ends_at is None
    assert run(device("r1", "done", outcome="done"), state=RunState.FINISHED).ends_at is None


def test_who_may_see_one_site_sees_its_devices_alone():
    """Sums are of them; a run that touches none of his sites is not there."""
    both = run(
        device("r1", "done", outcome="done"), device("r2", "tuned", is_held=True, site="LIM"), state=RunState.DIED
    )
    assert both.unrestored == ("r2",)
    mine = limited_to(both, frozenset({"AMS"}), Forecast(), NOW)
    assert mine is not None
    assert ([one.host for one in mine.devices], mine.whole.devices, mine.unrestored) == (["r1"], 1, ())
    assert limited_to(both, frozenset({"GVA"}), Forecast(), NOW) is None
    assert limited_to(both, None, Forecast(), NOW) is both


def test_sites_of_several_runs_sum_up():
    """A site has one link: its cap is told once, and only where all runs know it."""
    one = run(
        device("r1", "copying"),
        heard=EventView(devices={"r1": copying()}),
        forecast=Forecast(caps_bytes_per_s={"AMS": 50.0}),
    )
    found = sum_up([one.sites["AMS"], one.sites["AMS"]], NOW)
    assert (found.devices, found.rate_bytes_per_s, found.cap_bytes_per_s) == (2, 20.0, 50.0)
    other = run(device("r9", "copying"))
    assert sum_up([one.sites["AMS"], other.sites["AMS"]], NOW).cap_bytes_per_s is None


def test_who_holds_up_a_run_is_told():
    """Paused and stopping by the journal; waiting for approval likewise, for a wave is named there."""
    assert run(device(), is_paused=True).hold == "paused"
    assert run(device(), is_paused=True, is_stopping=True).hold == "stopping"
    assert run(device(), waiting_wave=2).hold == "waiting"
    assert run(device(), waiting_wave=2, state=RunState.DIED).waiting_wave is None


def test_a_device_that_is_not_restored_keeps_the_word_of_its_outcome():
    """What became of the copy and that the configuration is changed are two facts, and both stand in its row."""
    one = run(device(state="failed", is_held=True, outcome="failed"), state=RunState.FINISHED)
    cell = device_row(one, one.devices[0], {})["state"]
    assert (cell.text, cell.tone) == ("failed, NOT RESTORED", "bad")


@pytest.mark.parametrize(("outcome", "resumable"), [("interrupted", 1), ("failed", 1), ("done", 0), ("refused", 0)])
def test_a_run_is_resumed_where_a_device_is_neither_done_nor_refused(outcome, resumable):
    """A run that was stopped in its last wave has interrupted devices alone, and can be resumed."""
    state = "done" if outcome == "done" else "failed"
    found = run(device(state=state, outcome=outcome), device("r2", "done", outcome="done"), state=RunState.FINISHED)
    assert found.whole.resumable == resumable
