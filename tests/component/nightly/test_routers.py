"""A night's own look at routers, behind the product's back: SSH, configurations, and pings through an emulated WAN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.core.errors import FlashferryError
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.nightly import routers
from flashferry.nightly.backend import Deadline, LinkCondition, PlannedNode, Topology
from flashferry.nightly.inventory_files import write_inventory
from flashferry.nightly.night import NodeLogin
from flashferry.nightly.product import ProductProcesses
from flashferry.nightly.routers import SshRouters, judge_link
from templates.version import parse_version

pytestmark = [pytest.mark.lab, pytest.mark.soak]

NODE = PlannedNode(label="xe1", node_definition="csr1000v", condition_name="wan50", platform="cisco_iosxe")
PLANNED = LinkCondition(bandwidth_kbps=50_000, latency_ms=50, loss_percent=0.01)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(devices=(DeviceSpec(name="xe1", privilege=1),))) as found:
        yield found


@pytest.fixture
def login(world: World) -> NodeLogin:
    device = world.devices[0]
    return NodeLogin(username=device.username, password=device.password, secret=device.enable_secret)


def test_a_router_is_looked_at_and_read(world: World, login: NodeLogin) -> None:
    """By the product's own session, `enable` and all; two readings of one router are equal but for its stamps."""
    routers, address = SshRouters(login), world.devices[0].address
    with in_core(world):
        look = routers.read_state(NODE, address)
        found = routers.configurations(NODE, address)
    assert parse_version(look.version).release == "16.11.1a"
    assert found.running.rstrip().endswith("end")
    assert "hostname xe1" in found.startup


def test_a_wrong_password_is_an_error_of_ours(world: World) -> None:
    """Not one of a library, and without the password in it."""
    routers = SshRouters(NodeLogin(username="ferry", password="not-the-password"))
    with in_core(world), pytest.raises(FlashferryError) as caught:
        routers.read_state(NODE, world.devices[0].address)
    assert "not-the-password" not in str(caught.value)


@pytest.mark.parametrize("has_icmp", [True, False])
def test_a_link_is_measured_through_a_router(
    world: World, login: NodeLogin, monkeypatch: pytest.MonkeyPatch, has_icmp: bool
) -> None:
    """50 ms in each direction are 100 ms, by ICMP and by TCP alike; a link planned otherwise is found out."""
    if not has_icmp:
        monkeypatch.setattr(routers, "_icmp_socket", lambda: None)
    with in_core(world):
        found = SshRouters(login).ping(NODE, world.devices[0].address, PLANNED)
    assert found.is_tcp is not has_icmp
    judged = judge_link(PLANNED, found)
    assert judged.is_as_planned, judged.sentence
    assert "latency counts in each direction" in judged.sentence
    assert not judge_link(LinkCondition(latency_ms=20), found).is_as_planned


def test_the_product_takes_the_inventory_that_is_written(world: World, login: NodeLogin, tmp_path: Path) -> None:
    """It logs in with the environment's login alone, and finds the router fit."""
    topology = Topology(title="x", text="", nodes=(NODE,), links=())
    inventory = write_inventory(tmp_path / "inventory", topology, {"xe1": world.devices[0].address}, {})
    with in_core(world):
        found = ProductProcesses(tmp_path, inventory, login).run("check", "check", (), deadline=Deadline.after(60.0))
    assert found.exit_code == 0, found.said
    assert [one["host"] for one in found.document["devices"]] == ["xe1"]
    assert login.password not in "".join(path.read_text() for path in inventory.iterdir())
