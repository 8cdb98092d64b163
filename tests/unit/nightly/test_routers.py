"""What routers say of their licence's throughput, in words of real ones."""

from __future__ import annotations

import pytest

from flashferry.nightly.routers import Configurations, throughput_bps


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ("The current throughput level is 1000 kbps \n", 1e6),
        ("Next reload license Level: ax\n\nThe current throughput level is 20000 kbps \n\n\nSmart Licensing", 20e6),
        ("The current throughput level is unthrottled \n", None),
        ("Cisco IOS Software, IOSv Software", None),
        ("", None),
    ],
)
def test_the_licences_throughput_is_read(told, found):
    """CSR1000v and C8000V print it in `show version`; what does not say it has no limit that is known."""
    assert throughput_bps(told) == found


def test_configurations_show_nothing_of_themselves():
    """They hold secrets, and a traceback shows what stands in it."""
    assert "hunter2" not in repr(Configurations(running="username x secret hunter2", startup=""))
