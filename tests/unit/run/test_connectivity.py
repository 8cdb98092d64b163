"""What a look without changes tells about lines that a staging run would set."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from flashferry.devices.platforms.ios import IOS_XE
from flashferry.run.connectivity import _not_set
from flashferry.transports import USUAL
from tasks.tcp_config import tcp_lines


@pytest.mark.parametrize(
    ("wanted", "present", "is_told"),
    [
        (None, "", False),
        ("Loopback0", "", True),
        ("Loopback0", "ip ftp source-interface Loopback0", False),
        ("Lo0", "ip ftp source-interface Loopback0", False),
        ("Loopback0", "ip ftp source-interface GigabitEthernet1", True),
    ],
)
def test_a_source_interface_that_only_a_run_sets_is_told(wanted, present, is_told):
    """The device's own line, if it is the same one, was in force for this look; any other was not."""
    told = _not_set(
        SimpleNamespace(source_interface=wanted), SimpleNamespace(running=tcp_lines(present, IOS_XE)), IOS_XE, USUAL
    )
    assert bool(told) is is_told
    assert ("'ip ftp source-interface Loopback0'" in told) is is_told
