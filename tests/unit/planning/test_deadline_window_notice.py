"""What a run waits for is told with its time, once, however often and for how many devices it is asked."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

from flashferry.planning.deadline import Deadline, WindowNotice
from inventory.time_window import TimeWindow

NIGHT = (TimeWindow(opens="22:00", closes="05:00"),)
VIEWS = {
    "a1": SimpleNamespace(site="a"),
    "a2": SimpleNamespace(site="a"),
    "b1": SimpleNamespace(site="b"),
    "x": SimpleNamespace(site=None),
}


def told(hour, minute=0, *, windows=None):
    """Return what is told where every device is asked about three times."""
    now = datetime(2026, 3, 2, hour, minute, tzinfo=UTC)
    found = []
    deadline = Deadline(until=None, windows=windows or {}, expected_s={}, now=lambda: now)
    notice = WindowNotice(deadline, VIEWS, lambda text, site: found.append((text, site)))
    for _ in range(3):
        assert [notice.fit(host) for host in VIEWS] == [deadline.fit(host) for host in VIEWS]
    return found


def test_a_site_that_waits_is_told_once():
    """Two devices of it wait, one elsewhere does not; one without a site is named itself."""
    assert told(21, 30, windows=dict.fromkeys(("a1", "a2", "x"), NIGHT)) == [
        ("waits: site a: its time window is closed, and opens 2026-03-02 22:00 UTC", "a"),
        ("waits: x: its time window is closed, and opens 2026-03-02 22:00 UTC", None),
    ]


def test_what_is_not_waited_for_is_not_told():
    """Open, or another night's: those that are left out say so themselves."""
    assert told(23, windows={"a1": NIGHT}) == []
    assert told(12, windows={"a1": NIGHT}) == []
