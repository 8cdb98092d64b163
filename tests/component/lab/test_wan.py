"""The WAN and the wire: round-trip time, SYN options, windows and rates of the published experiment."""

import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.clocked]

PUBLISHED_UNTUNED_BYTES_PER_S = 151_542
SYN, RST = 0x02, 0x04
MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS = 2, 3, 4, 8


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(devices=(DeviceSpec(name="r1"), DeviceSpec(name="r2")))) as started:
        yield started


def _rate_bytes_per_s(shown: str) -> int:
    return int(re.search(r"\((\d+) bytes/sec\)", shown)[1])


def _largest_window(segments: list[Any], *, scale: int) -> int:
    """Return the largest window advertised after the handshake."""
    return max(each.window << scale for each in segments if not each.flags & (SYN | RST))


def _connect_s(address: str) -> float:
    start_s = time.monotonic()
    with socket.create_connection((address, 22), timeout=5):
        return time.monotonic() - start_s


def test_the_round_trip_is_what_the_profile_says(world: World, device: Any) -> None:
    """A TCP handshake takes 100 ms, within 2 ms at the best of nine: the rest is what else the machine does."""
    with in_core(world):
        times = [_connect_s(device.address) for _ in range(9)]
    assert min(times) == pytest.approx(world.profile.rtt_s, abs=0.002)


def test_untuned_is_the_published_rate_without_any_option(
    world: World, ftp: Any, connection: Any, copy: Any, wire: Any
) -> None:
    """Without an `ip tcp` line: no window scale, no SACK, no timestamps, and 0.15 MB/s within 15 %."""
    ftp.add("small.bin", 1_000_000)
    wire.segments()
    shown = copy(connection, f"copy {ftp.url('small.bin')} flash:", (r"\]\? ", "\n"))
    opened = wire.syns()
    assert opened[0].ports[1] == ftp.port
    assert len(opened) >= 2
    assert all(set(syn.options) == {MSS} for syn in some(opened))
    assert _rate_bytes_per_s(shown) == pytest.approx(PUBLISHED_UNTUNED_BYTES_PER_S, rel=0.15)


def test_tuned_offers_scale_and_sack_and_fills_the_link(
    world: World, ftp: Any, connection: Any, copy: Any, wire: Any
) -> None:
    """With the published settings the SYN offers both, the window is never exceeded, and the rate is the link's."""
    ftp.add("image.bin", 20_000_000)
    connection.send_config_set(["ip tcp window-size 2500000", "ip tcp selective-ack"])
    wire.segments()
    shown = copy(connection, f"copy {ftp.url('image.bin')} null:")
    connection.send_config_set(["no ip tcp window-size", "no ip tcp selective-ack"])
    segments = wire.segments()
    opened = [each for each in segments if each.flags == SYN]
    assert len(opened) >= 2
    assert all(set(syn.options) == {MSS, WINDOW_SCALE, SACK_PERMITTED} for syn in some(opened))
    scale = opened[-1].options[WINDOW_SCALE][0]
    # A scaled window is a multiple of the scale's unit; Linux rounds up to it.
    assert 1_250_000 < _largest_window(segments, scale=scale) < 2_500_000 + (1 << scale)
    # Half the link's rate: what is missing is the sender's business, and two cores are shared.
    assert _rate_bytes_per_s(shown) > 50e6 / 8 / 2


@pytest.mark.parametrize("window_bytes", [65535, 131072])
def test_the_configured_window_bounds_the_rate(
    ftp: Any, connection: Any, copy: Any, wire: Any, window_bytes: int
) -> None:
    """The window is at most the configured one, scaled only above 65535, and window / RTT bounds the rate."""
    ftp.add("middle.bin", 2_000_000)
    connection.send_config_set([f"ip tcp window-size {window_bytes}", "ip tcp timestamp"])
    wire.segments()
    shown = copy(connection, f"copy {ftp.url('middle.bin')} null:")
    connection.send_config_set(["no ip tcp window-size", "no ip tcp timestamp"])
    segments = wire.segments()
    opened = [each for each in segments if each.flags == SYN]
    expected = {MSS, TIMESTAMPS} | ({WINDOW_SCALE} if window_bytes > 65535 else set())
    assert all(set(syn.options) == expected for syn in some(opened))
    scale = opened[-1].options.get(WINDOW_SCALE, b"\0")[0]
    assert 0.9 * window_bytes < _largest_window(segments, scale=scale) < window_bytes + (1 << scale)
    assert 0.7 * window_bytes / 0.1 < _rate_bytes_per_s(shown) < 1.02 * window_bytes / 0.1


def test_devices_open_with_their_own_options_at_the_same_time(
    world: World, ftp: Any, wire: Any, open_session: Any
) -> None:
    """Two devices that copy at once each offer what their own configuration says."""
    ftp.add("both.bin", 200_000)
    first, second = world.devices
    with open_session(first) as one, open_session(second) as two:
        two.send_config_set(["ip tcp window-size 131072", "ip tcp selective-ack", "ip tcp timestamp"])
        wire.segments()
        for _ in range(3):
            for connection in (one, two):
                connection.write_channel(f"copy {ftp.url('both.bin')} null:\n")
            for connection in (one, two):
                connection.read_until_pattern(r"bytes/sec\)", read_timeout=60)
    opened = wire.syns()
    assert len(opened) >= 12
    for syn in some(opened):
        tuned = {MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS}
        assert set(syn.options) == (tuned if syn.source == second.address else {MSS})


def test_the_link_is_changed_while_it_runs(world: World, device: Any) -> None:
    """A longer delay holds for the next packet; what is not a setting is refused by name."""
    before = world.link_counters()
    world.set_link(to_core={"delay_s": 0.1})
    try:
        with in_core(world):
            assert _connect_s(device.address) > 0.148
    finally:
        world.set_link(to_core={"delay_s": 0.05})
    after = world.link_counters()
    assert after["to_site"]["offered_packets"] > before["to_site"]["offered_packets"]
    with pytest.raises(LabError, match=r"colour.*rate_bps"):
        world.set_link(colour="blue")


def test_everything_lost_is_counted(device: Any) -> None:
    """With loss 100 % towards the core nothing connects, and the counters say where it went."""
    with start_world(WorldSpec(profile="lan")) as other:
        other.set_link(to_core={"loss_ratio": 1.0})
        with in_core(other), pytest.raises(TimeoutError):
            socket.create_connection((device.address, 22), timeout=0.5)
        counters = other.link_counters()
    assert counters["to_core"]["lost_packets"] == counters["to_core"]["offered_packets"] > 0
    assert counters["to_site"]["lost_packets"] == 0
