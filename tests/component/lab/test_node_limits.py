"""What stands between a server and one node: a policer at its processor, a wall for some protocols."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.web import Web, running_web
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.some import some

pytestmark = [pytest.mark.lab, pytest.mark.soak]

PACKETS_PER_S = 1000
SHOW = "show platform hardware fed active qos queue stats internal cpu policer"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (
        DeviceSpec(name="sw", platform="c9300-17.6", control_plane_packets_per_s=PACKETS_PER_S),
        DeviceSpec(name="free", platform="c9300-17.6"),
        DeviceSpec(name="walled", blocked_transports=("ftp", "scp"), config_lines=("ip tcp synwait-time 5",)),
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as started:
        yield started


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Web]:
    with in_core(world), running_web(world.server_address, {"f": bytes(8_000_000)}, congestion="cubic") as running:
        yield running


def device_of(world: World, name: str) -> Any:
    return next(each for each in world.devices if each.name == name)


def test_the_switch_shows_what_it_dropped(world: World, web: Web, open_session: Any, copy: Any) -> None:
    """Rate and drops in the row of what is for itself, as the link counts them; the other switch shows none."""
    with open_session(device_of(world, "sw")) as session:
        session.send_config_set(["ip tcp window-size 131072"])
        copy(session, f"copy http://{web.address}:{web.port}/f null:")
        row = re.search(r"\n2 +14 +Forus traffic +Yes +(\d+) +(\d+) +(\d+) +(\d+)", session.send_command(SHOW))
    counted = world.link_counters()
    node = counted["nodes"][device_of(world, "sw").address]
    assert row
    assert (int(row[1]), int(row[2])) == (PACKETS_PER_S, PACKETS_PER_S)
    assert 0 < int(row[4]) <= node["dropped_packets"] == counted["to_site"]["node_policed_packets"]
    assert int(row[3]) <= node["dropped_bytes"]
    with open_session(device_of(world, "free")) as session:
        assert re.search(r"\n2 +14 +Forus traffic +Yes +4000 +4000 +0 +0\s*\n", session.send_command(SHOW))


def test_what_is_blocked_does_not_leave(
    world: World, ftp: Any, web: Web, open_session: Any, copy: Any, wire: Any
) -> None:
    """No SYN of FTP, the words of silence after the patience for a SYN; HTTP comes through."""
    ftp.add("k.bin", 1000)
    with open_session(device_of(world, "walled")) as session:
        wire.syns()
        shown = copy(session, f"copy {ftp.url('k.bin')} null:")
        assert "(Timed out)" in shown
        assert "bytes copied" in copy(session, f"copy http://{web.address}:{web.port}/f null:")
        assert {syn.ports[1] for syn in some(wire.syns())} == {web.port}


def test_a_wall_comes_and_goes(world: World, web: Web, open_session: Any, copy: Any) -> None:
    """The fault blocks beside what the world blocks."""
    line = f"copy http://{web.address}:{web.port}/f null:"
    with open_session(device_of(world, "walled")) as session:
        world.fault("walled", blocked_transports=["http"])
        assert "(I/O error)" in copy(session, line)
        world.fault("walled", blocked_transports=[])
        assert "bytes copied" in copy(session, line)
