"""Who still fits before the end of the time, and when what is under way is ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from flashferry.planning import deadline as module
from flashferry.planning.deadline import Deadline, left_out
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


MONDAYS = (TimeWindow(opens="22:00", closes="05:00", days=("mon",)),)

SITE_CASES = (
    ("30 min before", NIGHT, at(21, 30), None, "waits"),
    ("ten hours before", NIGHT, at(12), None, "waits"),
    ("ten hours before, an end within it", NIGHT, at(12), at(23, day=2), "waits"),
    (
        "the run ends before it opens",
        NIGHT,
        at(12),
        at(20),
        "never, too late for the run, which ends 2026-03-02 20:00 UTC",
    ),
    (
        "the run ends as it opens",
        NIGHT,
        at(12),
        at(22, 2),
        "never, too late for the run, which ends 2026-03-02 22:02 UTC",
    ),
    ("days before", MONDAYS, at(12, day=4), None, "never, and a run waits no longer than 24 h 00 min"),
    ("within", NIGHT, at(23), None, "starts"),
    ("over midnight", NIGHT, at(4, day=3), None, "starts"),
)


@pytest.mark.parametrize(("windows", "now", "until", "expected"), [case[1:] for case in SITE_CASES])
def test_a_site_is_waited_for_or_given_up_with_the_reason(windows, now, until, expected):
    """Whatever opens within a day and before the run's end is waited for; docs/plan.md has the cases."""
    hold = deadline(now, until=until, windows={"r1": windows}).fit("r1")
    if hold is None:
        assert expected == "starts"
        return
    assert (
        f"its time window is closed, and opens {'2026-03-09' if windows is MONDAYS else '2026-03-02'} 22:00 UTC"
        in hold.reason
    )
    rest = hold.reason.split(" 22:00 UTC", 1)[1]
    assert expected == (f"never{rest}" if hold.for_good else f"waits{rest}")


def test_the_documents_have_the_cases_of_a_sites_window():
    """The table of docs/plan.md says of each what happens here."""
    page = (Path(__file__).parents[3] / "docs" / "plan.md").read_text()
    for name, *_, expected in SITE_CASES:
        becomes = {"waits": "waits, with a countdown", "starts": "starts"}.get(expected, f"left out{expected[5:]}")
        assert f"| {name} | {becomes} |" in page


def test_a_site_is_waited_for_once_in_a_run():
    """A run of the evening waits for the night; what is left in the morning is another run's, not the next night's."""
    clock = Clock(at(12))
    found = Deadline(until=None, windows={"r1": NIGHT}, expected_s={}, since=at(12), now=clock)
    assert not found.fit("r1").for_good
    clock.now = at(23)
    assert found.fit("r1") is None
    clock.now = at(5, 1, day=3)
    hold = found.fit("r1")
    assert hold.for_good
    assert hold.reason == (
        "its time window is closed, and opens 2026-03-03 22:00 UTC, after the one of this run, "
        "which closed 2026-03-03 05:00 UTC"
    )


def test_sites_that_cannot_be_staged_are_named_before_the_start():
    """Each site once, with its devices and the reason; a device without a site by its name."""
    views = {name: SimpleNamespace(name=name, site=site) for name, site in (("a1", "a"), ("a2", "a"), ("x", None))}
    found = deadline(at(12), until=at(20), windows=dict.fromkeys(("a1", "a2"), NIGHT))
    holds, sentence = left_out(found, views, views)
    assert set(holds) == {"a1", "a2"}
    assert sentence.startswith(
        "site a (2 devices): its time window is closed, and opens 2026-03-02 22:00 UTC, too late"
    )
    assert left_out(deadline(at(21), windows=dict.fromkeys(views, NIGHT)), views, views) == ({}, "")


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
