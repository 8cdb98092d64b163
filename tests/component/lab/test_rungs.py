"""Sites have links of their own, and below the full lab each rung says what it is."""

import re
import socket
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.fileserver.sockets import read_info
from flashferry.lab.errors import LabError
from flashferry.lab.testing import loopback_world, new_world, wan_world
from flashferry.lab.world import DeviceSpec, Rung, SiteSpec, World, WorldSpec, in_core, start_world
from flashferry.lab.world_spec import write_inventory
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.soak

__all__ = ["loopback_world", "new_world", "wan_world"]  # fixtures, used by name

TWO_SITES = WorldSpec(
    sites=(
        SiteSpec(name="near", profile="lan", devices=(DeviceSpec(name="n1"), DeviceSpec(name="n2"))),
        SiteSpec(name="far", profile="published", devices=(DeviceSpec(name="f1", password="own-word"),)),
    )
)


def _is_near(world: World, name: str) -> bool:
    """Wait until one round trip is too short for the WAN's delay, which shows that no such delay is in the way."""
    return until(lambda: _rtt_s(world, name) < 0.05, f"a short round trip to {name}")


def _rtt_s(world: World, name: str) -> float:
    """Return the least round trip that the kernel saw on a connection to a device: who waits for a processor adds none.

    The handshake's own, and that of what is sent behind it: also where both ends were held up once.
    """
    device = next(each for each in world.devices if each.name == name)
    with in_core(world), socket.create_connection((device.address, device.port), timeout=PATIENCE_S) as connection:
        connection.settimeout(PATIENCE_S)
        assert connection.recv(4) == b"SSH-"
        connection.sendall(b"SSH-2.0-nobody\r\n")
        assert connection.recv(1)
        info = read_info(connection)
    assert info is not None
    assert info.min_rtt_s is not None
    return info.min_rtt_s


@pytest.mark.lab
def test_sites_have_links_of_their_own() -> None:
    """Each site has its link's delay and counters; cutting one off leaves the other reachable."""
    with start_world(TWO_SITES) as world:
        assert _is_near(world, "n1")
        assert _rtt_s(world, "f1") > 0.099
        quiet = world.link_counters("near")["to_site"]["offered_packets"]
        _rtt_s(world, "f1")
        assert world.link_counters("near")["to_site"]["offered_packets"] == quiet
        world.set_link("far", loss_ratio=1.0)
        assert _is_near(world, "n2")
        device = world.devices[2]
        with in_core(world), pytest.raises(TimeoutError):
            socket.create_connection((device.address, device.port), timeout=0.4)
        assert world.link_counters("near")["profile"]["to_site"]["loss_ratio"] == 0
        assert "hostname f1" in world.running_config("f1")
        with pytest.raises(LabError, match=r"no site 'moon'; there are near, far"):
            world.set_link("moon", loss_ratio=0.0)
        with pytest.raises(LabError, match="loss_ratio: expected a number from 0 to 1, found 7"):
            world.set_link(loss_ratio=7)


@pytest.mark.lab
def test_a_world_without_tun_has_sites_but_no_wan(new_world: Any) -> None:
    """On the rung of plain namespaces everything is reached at once, and asking for the link is refused by its name."""
    world = new_world(TWO_SITES, rung=Rung.NAMESPACES)
    assert world.rung == "namespaces without a WAN: no round-trip time, no loss, no rate"
    assert _is_near(world, "f1")
    assert _is_near(world, "n2")
    with pytest.raises(LabError, match="no WAN link to ask or change: the lab runs on namespaces without a WAN"):
        world.set_link(loss_ratio=0.5)


def test_plain_loopback_needs_no_right_and_touches_no_switch(new_world: Any) -> None:
    """Devices have addresses of 127/8, two worlds keep apart, and the host's TCP switches stay as they are."""
    switch = Path("/proc/sys/net/ipv4/tcp_sack")
    before = switch.stat().st_mtime_ns, switch.read_text()
    one, two = new_world(TWO_SITES), new_world()
    assert one.rung is two.rung is Rung.LOOPBACK
    assert "no round-trip time" in one.rung
    addresses = [device.address for world in (one, two) for device in world.devices]
    assert len(set(addresses)) == 4
    assert all(re.fullmatch(r"127\.\d+\.[12]\.1[12]", address) for address in addresses)
    assert one.server_address == "127.0.0.1"
    assert _is_near(one, "f1")
    assert _is_near(two, "r1")
    assert "hostname n2" in one.running_config("n2")
    assert (switch.stat().st_mtime_ns, switch.read_text()) == before


@pytest.mark.lab
def test_the_wan_fixture_has_the_wan(wan_world: World) -> None:
    """The fixture for the full rung starts the published world."""
    assert wan_world.rung is Rung.FULL
    assert wan_world.profile.name == "published"


def test_an_inventory_is_ready_to_use(loopback_world: World, tmp_path: Path) -> None:
    """The three files are private YAML: hosts with address and port, a group per site with the link's rate."""
    folder = write_inventory(loopback_world, tmp_path / "inventory")
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    hosts, groups, defaults = (YAML(typ="safe").load(folder / f"{n}.yaml") for n in ("hosts", "groups", "defaults"))
    device = loopback_world.devices[0]
    assert hosts == {"r1": {"hostname": device.address, "port": 2222, "groups": ["site"]}}
    assert groups == {"site": {"platform": "ios", "data": {"site": "site", "link_rate_bps": 50_000_000}}}
    assert defaults["password"] == device.password
    known_hosts = f"known_hosts_of_{loopback_world.directory.name}"
    assert defaults["data"] == {"enable_secret": device.enable_secret, "known_hosts": known_hosts}


def test_an_inventory_keeps_a_device_with_its_own_login_apart(new_world: Any, tmp_path: Path) -> None:
    """What differs from the first device's login stands with the host."""
    folder = write_inventory(new_world(TWO_SITES), tmp_path / "inventory")
    hosts = YAML(typ="safe").load(folder / "hosts.yaml")
    assert hosts["f1"]["password"] == "own-word"
    assert "password" not in hosts["n1"]
    assert [hosts[name]["groups"] for name in ("n1", "f1")] == [["near"], ["far"]]


def test_an_inventory_states_what_a_device_may_fetch_by(new_world: Any, tmp_path: Path) -> None:
    """Only where the world says something; the device itself knows nothing of it."""
    limited = DeviceSpec(name="r1", transports=("http", "scp"), clear_text=False, enable_secret="own-enable")
    world = new_world(WorldSpec(devices=(DeviceSpec(name="r2"), limited)))
    folder = write_inventory(world, tmp_path / "inventory")
    hosts = YAML(typ="safe").load((folder / "hosts.yaml").read_text())
    assert hosts["r1"]["data"] == {"enable_secret": "own-enable", "transports": ["http", "scp"], "clear_text": False}
    assert "data" not in hosts["r2"]
