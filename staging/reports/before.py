"""What a device copied at before a run, with its own TCP settings: from the history of all runs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from staging.reports.model import Speed

if TYPE_CHECKING:
    from flashferry.store.history import History, Measurement


def speeds_before(history: History, hosts: Iterable[str], started_at: str) -> dict[str, Speed]:
    """Return by device its last speed with its own settings before a run; devices never measured so are left out.

    A copy to flash says more than a speed test to `null:`, however much newer that is.

    Args:
        history: All timed copies.
        hosts: The devices asked for.
        started_at: When the run began, ISO 8601, UTC.
    """
    found: dict[str, Speed] = {}
    for host in hosts:
        earlier = [one for one in history.of(host) if not one.tuned and one.at < started_at and one.counts]
        flash = [one for one in earlier if not one.to_null]
        if earlier:
            found[host] = _speed((flash or earlier)[-1])
    return found


def _speed(one: Measurement) -> Speed:
    what = "speed test to null:" if one.to_null else "copy to flash"
    rate = (one.steady_bytes_per_s or one.rate_bytes_per_s) if one.to_null else one.whole_bytes_per_s
    return Speed(bytes_per_s=rate, source=f"{what}, {one.at[:10]}, run {one.run_id}", to_flash=not one.to_null)
