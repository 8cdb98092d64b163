"""A run waits for its plan's window with a countdown, or is refused; until then it does not exist."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from flashferry.api.staging import wait_for_window
from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import Interrupted
from flashferry.model.fleet_plan import PlanWindow

OPENS = datetime.fromisoformat("2026-11-30T22:00:00+01:00")
NIGHT = PlanWindow(opens_at=OPENS, ends_at=OPENS + timedelta(hours=7))


class Waiting:
    """A wait on a clock that goes as it sleeps, ten times as fast."""

    def __init__(self, at: datetime, jump: timedelta = timedelta()) -> None:
        self.at, self.jump = at, jump
        self.lines: list[str] = []

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds <= 1
        self.at += self.jump or timedelta(seconds=10 * seconds)

    def through(self, *, interrupted: bool = False) -> Waiting:
        wait_for_window(
            NIGHT,
            emit=lambda event: self.lines.append(f"{event.step} {event.status}: {event.text}"),
            interrupted=lambda: interrupted,
            now=lambda: self.at,
            sleep=self.sleep,
        )
        return self


def test_a_start_six_hours_before_waits_with_a_countdown() -> None:
    """A line at once, then each hour, and 30, 10 and 1 min before; it ends once the window is open."""
    found = Waiting(OPENS - timedelta(hours=6)).through()
    assert found.at >= OPENS
    assert found.lines[0] == (
        "run waiting: the run waits: its window opens 2026-11-30 22:00 UTC+01:00, in 6 h 00 min; "
        "Ctrl-C ends it, and nothing is changed"
    )
    times = [line.split(", in ")[1].split(";")[0] for line in found.lines]
    assert times == ["6 h 00 min", *(f"{h} h 00 min" for h in (5, 4, 3, 2)), "60 min", "30 min", "10 min", "60 s"]


def test_a_start_within_the_window_does_not_wait() -> None:
    """And prints nothing."""
    assert Waiting(OPENS).through().lines == []


def test_a_start_more_than_a_day_before_is_refused() -> None:
    """At once, with when the window opens; a day before is waited for."""
    with pytest.raises(ConfigInvalid, match=r"opens within 24 h 00 min: its window opens 2026-11-30 22:00 UTC\+01:00"):
        Waiting(OPENS - timedelta(hours=24, seconds=1)).through()
    assert Waiting(OPENS - timedelta(hours=24)).through().at >= OPENS


def test_a_wait_that_is_stopped_says_that_nothing_was_changed() -> None:
    """There is no run yet, and nothing to restore."""
    with pytest.raises(Interrupted, match="no run was made, no device was touched"):
        Waiting(OPENS - timedelta(hours=6)).through(interrupted=True)


def test_a_window_that_passed_while_the_host_slept_is_refused() -> None:
    """A laptop that was closed in the evening and opened in the morning starts nothing by daylight."""
    with pytest.raises(ConfigInvalid, match="its window has passed: it was to end by 2026-12-01 05:00"):
        Waiting(OPENS - timedelta(hours=1), jump=timedelta(hours=9)).through()
