"""On plain loopback the receive window is real; the stand-in is driven as on the full lab."""

from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.world import Rung, World, start_world

# Only to look at the packets: the rung itself needs no right.
pytestmark = [pytest.mark.lab, pytest.mark.soak]

SYN, RST = 0x02, 0x04


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(rung=Rung.LOOPBACK) as started:
        yield started


@pytest.mark.parametrize("window_bytes", [16384, 65535])
def test_the_window_is_the_configured_one(
    device: Any, ftp: Any, connection: Any, copy: Any, wire: Any, window_bytes: int
) -> None:
    """A copy over loopback never advertises more than the configured window after the handshake, and works."""
    ftp.add("image.bin", 3_000_000)
    connection.send_config_set([f"ip tcp window-size {window_bytes}"])
    wire.segments()
    shown = copy(connection, f"copy {ftp.url('image.bin')} null:")
    assert "3000000 bytes copied in" in shown
    seen = [each for each in wire.segments() if each.source == device.address]
    scales = {each.options.get(3, b"\0")[0] for each in seen if each.flags == SYN}
    assert len(scales) == 1
    windows = [each.window << min(scales) for each in seen if not each.flags & (SYN | RST)]
    assert 0.5 * window_bytes < max(windows) <= window_bytes + (1 << min(scales))
