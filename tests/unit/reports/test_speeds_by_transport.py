"""A gain of tuning is told of one transport: what another one gave before is no measure for it."""

from __future__ import annotations

from flashferry.reports.transfers import speeds_before
from flashferry.store.history import History
from flashferry.store.transfer_row import PROBE_AS_IS
from tests.unit.store.test_history import MB, NOW, measured

COPIES = (
    measured(tuned=False, device_s=500.0),
    measured(PROBE_AS_IS, days=1.0, transport="http", steady_bytes_per_s=3.0 * MB),
)


def test_the_speed_before_is_that_of_the_same_transport():
    """Of a transport that was never measured as the device is, there is none."""
    found = {
        name: speeds_before(History(COPIES, now=NOW), {"r1": name}, NOW.isoformat()).get("r1")
        for name in ("ftp", "http", "scp")
    }
    assert {name: one and one.bytes_per_s / MB for name, one in found.items()} == {"ftp": 1.0, "http": 3.0, "scp": None}
