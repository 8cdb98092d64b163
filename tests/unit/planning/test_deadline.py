"""Who still fits before the end of the time, and when what is under way is ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flashferry.planning import deadline as module
from flashferry.planning.deadline import Deadline
from inventory.time_window import TimeWindow

NIGHT = (TimeWindow(opens="22:00", closes="05:00"),)


def at(hour, minute=0, day=2):
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def deadline(now, **values):
    given = {"until": None, "windows": {}, "expected_s": {}, "now": Clock(now)}
    return Deadline(**(given | values))


def test_without_an_end_everything_fits():
    """Neither the run nor the site has an end: a device begins at any time and is never ended."""
    found = deadline(at(12))
    assert found.fit("r1") is None
    assert found.closing("r1")() is None


def test_what_does_not_fit_any_more_is_not_begun():
    """50 minutes are left and it takes an hour: left out for good, with both figures."""
    found = deadline(at(4, 10), until=at(5), expected_s={"r1": 3600.0})
    hold = found.fit("r1")
    assert hold.for_good
    assert hold.kind == "WindowClosed"
    assert "in 50 min" in hold.reason
    assert "about 60 min" in hold.reason


def test_a_device_nobody_knows_is_begun_until_the_margin():
    """How long it takes is not known: it begins, but not in the minutes that restoring needs."""
    assert deadline(at(4, 57), until=at(5)).fit("r1") is None
    assert deadline(at(4, 58), until=at(5)).fit("r1").for_good


def test_the_earlier_end_holds():
    """The site's window closes before the run's end, and the other way round."""
    assert deadline(at(4), until=at(6), windows={"r1": NIGHT}).ends_at("r1") == at(5)
    assert deadline(at(4), until=at(4, 30), windows={"r1": NIGHT}).ends_at("r1") == at(4, 30)


def test_a_window_that_opens_soon_is_waited_for():
    """Half an hour before it opens a device waits; at noon it is another night's."""
    soon, late = (deadline(now, windows={"r1": NIGHT}).fit("r1") for now in (at(21, 30), at(12)))
    assert not soon.for_good
    assert late.for_good
    assert "opens 2026-03-02 22:00" in late.reason


def test_what_is_under_way_is_ended_before_the_end():
    """Two minutes before the end that held when the device began; what comes after is another window's."""
    clock = Clock(at(4))
    closing = Deadline(until=None, windows={"r1": NIGHT}, expected_s={}, now=clock).closing("r1")
    clock.now = at(4, 57)
    assert closing() is None
    clock.now = at(5) - timedelta(seconds=120)
    assert "ends 2026-03-02 05:00" in closing()
    clock.now = at(23)
    assert closing() is not None


def test_devices_of_a_site_share_one_look_at_its_windows(monkeypatch):
    """Two thousand that wait for their window are asked about every second: the calendar is worked out once."""
    looks = []
    monkeypatch.setattr(module, "closes_at", lambda windows, now: looks.append(now))
    night = TimeWindow(opens="22:00", closes="05:00", timezone="Europe/Lisbon")
    names = [f"r{number}" for number in range(50)]
    windows = dict.fromkeys(names, (night,))
    noon = datetime(2031, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
    deadline = Deadline(until=None, windows=windows, expected_s={}, now=lambda: noon)
    assert all("closed" in deadline.fit(name).reason for name in names)
    assert len(looks) == 1
