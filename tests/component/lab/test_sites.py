"""Sites with a depot: a host of its own on the devices' LAN, behind the same WAN link; links that go down and up."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.lab.enter import inside
from flashferry.lab.errors import LabError
from flashferry.lab.namespaces import traffic
from flashferry.lab.world import (
    DepotSpec,
    DeviceSpec,
    Rung,
    SiteSpec,
    World,
    WorldSpec,
    in_core,
    in_depot,
    start_world,
)
from flashferry.lab.world_spec import write_inventory
from tests.component.lab.transfers import Where, at_site, fetch
from tests.patience import PATIENCE_S, killed_at_end, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

FAST, SHAPED, BARE = "fast", "shaped", "bare"
SPEC = WorldSpec(
    sites=(
        SiteSpec(
            name=FAST, profile="lan", devices=(DeviceSpec(name="f1"), DeviceSpec(name="f2")), depot=DepotSpec()
        ),
        SiteSpec(name=SHAPED, profile="dsl", devices=(DeviceSpec(name="s1"),), depot=DepotSpec(name="box"), lan="lan"),
        SiteSpec(name=BARE, profile="lan", devices=(DeviceSpec(name="b1"),)),
    )
)  # fmt: skip
SIZE_BYTES = 2_000_000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(SPEC) as started:
        yield started


def _fetch(server: tuple[Where, str], client: tuple[Where, str], size_bytes: int = SIZE_BYTES) -> tuple[int, str]:
    return fetch(server, client, size_bytes)


def _wan_bytes(world: World, site: str) -> tuple[int, int]:
    counters = world.link_counters(site)
    return counters["to_site"]["delivered_bytes"], counters["to_core"]["delivered_bytes"]


@pytest.mark.parametrize("site", [FAST, SHAPED])
def test_a_depot_is_reached_over_the_wan_and_dials_out_over_it(world: World, site: str) -> None:
    """Both ways its bytes are on its site's link, once, and on no other."""
    here, core = (lambda: in_depot(world, site)), (lambda: in_core(world))
    address = world.depots[site].address
    down, _ = _wan_bytes(world, site)
    quiet = _wan_bytes(world, BARE)
    assert _fetch((core, world.server_address), (here, address)) == (SIZE_BYTES, address)
    assert SIZE_BYTES < _wan_bytes(world, site)[0] - down < 1.1 * SIZE_BYTES
    up, small_bytes = _wan_bytes(world, site)[1], SIZE_BYTES // 10
    assert _fetch((here, address), (core, world.server_address), small_bytes) == (small_bytes, world.server_address)
    assert small_bytes < _wan_bytes(world, site)[1] - up < 1.2 * small_bytes
    assert _wan_bytes(world, BARE) == quiet


@pytest.mark.parametrize(("site", "device"), [(FAST, "f1"), (SHAPED, "s1")])
def test_devices_and_depot_meet_on_the_lan(world: World, site: str, device: str) -> None:
    """What a device fetches from the depot is on the LAN and not on the WAN link; either sees the other's address."""
    depot = world.depots[site]
    address = next(each.address for each in world.devices if each.name == device)
    wan, before = _wan_bytes(world, site), world.lan_traffic(site)
    got = _fetch((lambda: in_depot(world, site), depot.address), (at_site(world, site), address))
    assert got == (SIZE_BYTES, address)
    with in_depot(world, site), socket.create_connection((address, 22), PATIENCE_S) as session:
        assert session.getsockname()[0] == depot.address
        assert session.recv(4) == b"SSH-"
    after = world.lan_traffic(site)
    assert SIZE_BYTES < after.from_depot_bytes - before.from_depot_bytes < 1.1 * SIZE_BYTES
    assert after.to_depot_bytes > before.to_depot_bytes
    assert after.between_devices_bytes == before.between_devices_bytes
    assert _wan_bytes(world, site) == wan


def test_neighbours_meet_over_tcp_and_udp(world: World) -> None:
    """Two devices of a site exchange bytes under their own addresses: metered on the LAN, and none on the WAN link."""
    here = at_site(world, FAST)
    one, other = (each.address for each in world.devices if each.site == FAST)
    wan, before = _wan_bytes(world, FAST), world.lan_traffic(FAST).between_devices_bytes
    assert _fetch((here, one), (here, other)) == (SIZE_BYTES, other)
    with here(), socket.socket(type=socket.SOCK_DGRAM) as server, socket.socket(type=socket.SOCK_DGRAM) as client:
        for end, address in ((server, one), (client, other)):
            end.bind((address, 0))
            end.settimeout(PATIENCE_S)
        client.sendto(b"read request", server.getsockname())
        request, peer = server.recvfrom(600)
        server.sendto(bytes(516), peer)
        answer, source = client.recvfrom(600)
    assert (request, peer[0], len(answer), source[0]) == (b"read request", other, 516, one)
    assert SIZE_BYTES < world.lan_traffic(FAST).between_devices_bytes - before < 1.2 * SIZE_BYTES
    assert _wan_bytes(world, FAST) == wan


def test_a_cut_link_is_waited_for(world: World) -> None:
    """A connection in mid-transfer outlasts a cut of several retries: nothing arrives meanwhile, and all of it then."""
    depot, size_bytes = world.depots[SHAPED], 8_000_000
    done: list[tuple[int, str]] = []
    ends = ((lambda: in_core(world), world.server_address), (lambda: in_depot(world, SHAPED), depot.address))
    transfer = threading.Thread(target=lambda: done.append(_fetch(*ends, size_bytes)))
    begun, _ = _wan_bytes(world, SHAPED)
    transfer.start()
    until(lambda: _wan_bytes(world, SHAPED)[0] >= begun + 1_000_000, "a part of the transfer")
    world.cut(SHAPED)
    try:
        stopped = _wan_bytes(world, SHAPED)
        lost: set[int] = set()
        until(
            lambda: lost.add(world.link_counters(SHAPED)["to_site"]["cut_packets"]) or len(lost) > 4,
            "more and more packets that were cut",
        )
        assert _wan_bytes(world, SHAPED) == stopped
        assert world.link_counters(SHAPED)["to_site"]["cut_packets"] > 0
        assert transfer.is_alive()
    finally:
        world.mend(SHAPED)
    transfer.join(PATIENCE_S)  # TCP's next try may be as far away as the cut was long
    assert done == [(size_bytes, depot.address)]


def test_what_is_not_there_is_named(world: World) -> None:
    """A site without a depot, a site that is not, and a world without a WAN are told in a sentence."""
    with pytest.raises(LabError, match="no depot at 'bare'; there are depots at fast, shaped"), in_depot(world, BARE):
        pass
    for ask in (world.cut, world.mend, world.lan_traffic):
        with pytest.raises(LabError, match="no site 'moon'; there are fast, shaped, bare"):
            ask("moon")
    with start_world(SPEC, rung=Rung.LOOPBACK) as plain:
        assert plain.depots[SHAPED].address.startswith("127.")
        with pytest.raises(LabError, match="no WAN link"):
            plain.cut(SHAPED)
        with pytest.raises(LabError, match="no LAN to meter"):
            plain.lan_traffic(SHAPED)


def test_a_depot_is_there_without_a_wan(world: World) -> None:
    """On the rung below, depot, core and devices reach each other all the same, by plain pairs of interfaces."""
    with start_world(SPEC, rung=Rung.NAMESPACES) as plain:
        depot, core = plain.depots[FAST], plain.server_address
        here = (lambda: in_depot(plain, FAST)), depot.address
        assert _fetch(((lambda: in_core(plain)), core), here) == (SIZE_BYTES, depot.address)
        assert _fetch(here, (at_site(plain, FAST), plain.devices[0].address))[0] == SIZE_BYTES
        assert traffic(depot.pid)["lan0"].sent_bytes > SIZE_BYTES > traffic(depot.pid)["wan0"].sent_bytes


def test_commands_run_on_a_depot(world: World) -> None:
    """`python -m flashferry.lab.enter PID` takes a depot's process as well as the core's."""
    address = world.depots[FAST].address
    code = f"import socket; socket.create_server(({address!r}, 0)); raise SystemExit(7)"
    for pid, exit_code in ((world.depots[FAST].pid, 7), (world.core_pid, 1)):
        command = [*inside(pid), sys.executable, "-c", code]
        done = subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
        assert done.returncode == exit_code


def test_the_inventory_says_what_a_site_has(world: World, tmp_path: Path) -> None:
    """The depot's address and the rate of its LAN stand in the site's group, where there are any."""
    text = (write_inventory(world, tmp_path / "inventory") / "groups.yaml").read_text()
    fast, rest = text.split("shaped:")
    shaped, bare = rest.split("bare:")
    assert 'depot: "198.18.1.10"' in fast
    assert "lan_rate_bps" not in fast
    assert "lan_rate_bps: 1000000000" in shaped
    assert "depot" not in bare


def test_a_killed_owner_takes_its_depots_along() -> None:
    """After kill -9 of the owner no process and no namespace of a depot stays."""
    script = textwrap.dedent("""
        import time
        from flashferry.lab.world import DepotSpec, DeviceSpec, SiteSpec, WorldSpec, start_world
        devices = (DeviceSpec(name="r1"),)
        site = SiteSpec(name="s", profile="lan", devices=devices, depot=DepotSpec(), lan="lan")
        with start_world(WorldSpec(sites=(site,))) as world:
            print(world.depots["s"].pid, flush=True)
            time.sleep(600)
    """)
    with killed_at_end(subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)) as owner:
        assert owner.stdout is not None
        depot_pid = int(owner.stdout.readline())
        helpers = [int(each) for each in Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()]
        namespace = Path(f"/proc/{depot_pid}/ns/net").readlink()
        owner.send_signal(signal.SIGKILL)
    assert depot_pid in helpers
    assert len(helpers) == 3
    until(lambda: not any(map(_is_alive, helpers)), "the end of the helpers")
    assert namespace not in _namespaces_in_use()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _namespaces_in_use() -> set[Path]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(path.readlink())
    return found
