"""HTTP follows the receive window of the device's TCP as FTP does: the rate is the window over the round trip."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.web import Web, running_web
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.clocked]

RTT_S = 0.1
SEGMENT_BYTES = 1460
TUNED_BYTES = 20_000_000
LINE_BYTES_PER_S = 50e6 / 8


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(devices=(DeviceSpec(name="r1"),))) as started:
        started.set_link(loss_ratio=0.0)
        yield started


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Web]:
    with in_core(world), running_web(world.server_address, {}, congestion="cubic") as running:
        yield running


def copied_bytes_per_s(connection: Any, copy: Any, web: Web, window_bytes: int, size_bytes: int) -> int:
    """Copy to null: with a window and return the device's own rate."""
    web.files["f"] = bytes(size_bytes)
    connection.send_config_set([f"ip tcp window-size {window_bytes}", "ip tcp selective-ack"])
    shown = copy(connection, f"copy http://{web.address}:{web.port}/f null:", timeout_s=120)
    connection.send_config_set(["no ip tcp window-size", "no ip tcp selective-ack"])
    return int(re.search(r"\((\d+) bytes/sec\)", shown)[1])


@pytest.mark.parametrize("window_bytes", [4128, 16384, 65535, 262144])
def test_the_rate_is_the_window_over_the_round_trip(connection: Any, copy: Any, web: Web, window_bytes: int) -> None:
    """Whole segments of the window per 100 ms: Linux rounds an unscaled window down to them.

    Never more than 10 % above; a busy machine may take a quarter away.
    """
    usable = window_bytes if window_bytes > 65535 else window_bytes // SEGMENT_BYTES * SEGMENT_BYTES
    expected = usable / RTT_S
    rate = copied_bytes_per_s(connection, copy, web, window_bytes, int(expected * 10))
    assert 0.75 * expected < rate < 1.1 * expected


def test_a_large_window_fills_the_link(connection: Any, copy: Any, web: Web) -> None:
    """At least three quarters of the line's 6 MB/s, slow start included; two cores are shared."""
    rate = copied_bytes_per_s(connection, copy, web, 2_500_000, TUNED_BYTES)
    assert 0.75 * LINE_BYTES_PER_S < rate < LINE_BYTES_PER_S
