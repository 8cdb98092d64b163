"""The WAN and the wire: SYN options and windows of the published experiment, links that are changed or lose all."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.patience import PATIENCE_S
from tests.some import some

pytestmark = pytest.mark.lab

SYN, RST = 0x02, 0x04
MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS = 2, 3, 4, 8


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(devices=(DeviceSpec(name="r1"), DeviceSpec(name="r2")))) as started:
        yield started


def _largest_window(segments: list[Any], *, scale: int) -> int:
    """Return the largest window advertised after the handshake."""
    return max(each.window << scale for each in segments if not each.flags & (SYN | RST))


def test_untuned_a_syn_has_no_option_but_the_segment_size(
    world: World, ftp: Any, connection: Any, copy: Any, wire: Any
) -> None:
    """Without an `ip tcp` line: no window scale, no SACK, no timestamps."""
    ftp.add("small.bin", 50_000)
    wire.segments()
    copy(connection, f"copy {ftp.url('small.bin')} null:")
    opened = wire.syns()
    assert opened[0].ports[1] == ftp.port
    assert len(opened) >= 2
    assert all(set(syn.options) == {MSS} for syn in some(opened))


@pytest.mark.parametrize(
    ("lines", "window_bytes", "mss_bytes", "options", "has_df"),
    [
        (["ip tcp window-size 4128"], 4128, 1460, [MSS], False),
        (["ip tcp window-size 4128", "ip tcp mss 1000", "ip tcp path-mtu-discovery"], 4128, 1000, [MSS], True),
        (["ip tcp window-size 65536", "ip tcp selective-ack", "ip tcp timestamp"], 65535, 1460,
         [MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS], False),
    ],
)  # fmt: skip
def test_a_syn_is_that_of_ios(
    ftp: Any, connection: Any, copy: Any, wire: Any, lines: list[str], window_bytes: int, mss_bytes: int,
    options: list[int], has_df: bool,
) -> None:  # fmt: skip
    """Window to the byte, segment size by `ip tcp mss`, TTL 255, DF by path MTU discovery, options in IOS's order.

    p0f has ``4128:255:0:44:M*`` for IOS: window, TTL, no DF, and the segment size alone.
    """
    ftp.add("small.bin", 50_000)
    connection.send_config_set(lines)
    wire.segments()
    copy(connection, f"copy {ftp.url('small.bin')} null:")
    connection.send_config_set([f"no {line}" for line in lines])
    for syn in some(wire.syns()):
        assert (syn.window, syn.ttl, syn.has_df) == (window_bytes, 255, has_df)
        assert int.from_bytes(syn.options[MSS]) == mss_bytes
        assert list(syn.options) == options


@pytest.mark.soak
def test_tuned_offers_scale_and_sack_and_keeps_to_the_window(
    world: World, ftp: Any, connection: Any, copy: Any, wire: Any
) -> None:
    """With the published settings the SYN offers both, and the window advertised is never more than configured."""
    ftp.add("image.bin", 20_000_000)
    connection.send_config_set(["ip tcp window-size 2500000", "ip tcp selective-ack"])
    wire.segments()
    copy(connection, f"copy {ftp.url('image.bin')} null:", timeout_s=PATIENCE_S)
    connection.send_config_set(["no ip tcp window-size", "no ip tcp selective-ack"])
    segments = wire.segments()
    opened = [each for each in segments if each.flags == SYN]
    assert len(opened) >= 2
    assert all(set(syn.options) == {MSS, WINDOW_SCALE, SACK_PERMITTED} for syn in some(opened))
    scale = opened[-1].options[WINDOW_SCALE][0]
    # A scaled window is a multiple of the scale's unit; Linux rounds up to it.
    assert 1_250_000 < _largest_window(segments, scale=scale) < 2_500_000 + (1 << scale)


@pytest.mark.parametrize("window_bytes", [65535, 131072])
def test_the_window_is_the_configured_one(ftp: Any, connection: Any, copy: Any, wire: Any, window_bytes: int) -> None:
    """The window advertised is at most the configured one, and scaled only above 65535."""
    ftp.add("middle.bin", 500_000)
    connection.send_config_set([f"ip tcp window-size {window_bytes}", "ip tcp timestamp"])
    wire.segments()
    copy(connection, f"copy {ftp.url('middle.bin')} null:", timeout_s=PATIENCE_S)
    connection.send_config_set(["no ip tcp window-size", "no ip tcp timestamp"])
    segments = wire.segments()
    opened = [each for each in segments if each.flags == SYN]
    expected = {MSS, TIMESTAMPS} | ({WINDOW_SCALE} if window_bytes > 65535 else set())
    assert all(set(syn.options) == expected for syn in some(opened))
    scale = opened[-1].options.get(WINDOW_SCALE, b"\0")[0]
    assert 0.9 * window_bytes < _largest_window(segments, scale=scale) < window_bytes + (1 << scale)


@pytest.mark.soak
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
                connection.read_until_pattern(r"bytes/sec\)", read_timeout=PATIENCE_S)
    opened = wire.syns()
    assert len(opened) >= 12
    for syn in some(opened):
        tuned = {MSS, WINDOW_SCALE, SACK_PERMITTED, TIMESTAMPS}
        assert set(syn.options) == (tuned if syn.source == second.address else {MSS})


def test_the_link_is_changed_while_it_runs(world: World, device: Any) -> None:
    """What is sent after a change is on the changed link, and what is not a setting is refused by name."""
    before = world.link_counters()
    world.set_link(to_core={"delay_s": 0.1})
    try:
        with in_core(world):
            socket.create_connection((device.address, 22), PATIENCE_S).close()
        changed = world.link_counters()
    finally:
        world.set_link(to_core={"delay_s": 0.05})
    assert changed["profile"]["to_core"]["delay_s"] == 0.1
    assert changed["to_site"]["offered_packets"] > before["to_site"]["offered_packets"]
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
