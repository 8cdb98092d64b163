"""What a run waits for is told with its time, once, however often and for how many devices it is asked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from flashferry.planning.deadline import Deadline, WindowNotice
from inventory.time_window import TimeWindow

NIGHT = (TimeWindow(opens="22:00", closes="05:00"),)
VIEWS = {
    name: SimpleNamespace(name=name, site=site) for name, site in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("x", None))
}


def told(hour, minute=0, *, windows=None, until=None):
    """Return what is reported where every device is asked about three times."""
    now = datetime(2026, 3, 2, hour, minute, tzinfo=UTC)
    found = []
    deadline = Deadline(until=until, windows=windows or {}, expected_s={}, now=lambda: now)
    notice = WindowNotice(deadline, VIEWS, lambda text, site: found.append((text, site)))
    for _ in range(3):
        assert [notice.fit(host) for host in VIEWS] == [deadline.fit(host) for host in VIEWS]
    return found


def test_a_site_that_waits_is_told_once():
    """Two devices of it wait, one elsewhere does not; one without a site is named itself."""
    assert told(21, 30, windows=dict.fromkeys(("a1", "a2", "x"), NIGHT)) == [
        ("waits: site a: its time window is closed, and opens 2026-03-02 22:00 UTC, in 30 min", "a"),
        ("waits: x: its time window is closed, and opens 2026-03-02 22:00 UTC, in 30 min", None),
    ]


def test_a_site_that_waits_has_a_countdown():
    """A line at once, by the hour, and 30, 10 and 1 min before; none while nothing new is to be said."""
    clock, found = [datetime(2026, 3, 2, 19, 30, tzinfo=UTC)], []
    deadline = Deadline(until=None, windows={"a1": NIGHT}, expected_s={}, now=lambda: clock[0])
    notice = WindowNotice(deadline, VIEWS, lambda text, site: found.append(text.rsplit(", in ", 1)[1]))
    while notice.fit("a1") is not None:
        clock[0] += timedelta(seconds=20)
    assert clock[0].hour == 22
    assert found == ["2 h 30 min", "2 h 00 min", "60 min", "30 min", "10 min", "60 s"]


def test_what_is_not_waited_for_is_not_reported():
    """Open, or too late for the run: those that are left out have their reason."""
    assert told(23, windows={"a1": NIGHT}) == []
    assert told(12, windows={"a1": NIGHT}, until=datetime(2026, 3, 2, 20, tzinfo=UTC)) == []
