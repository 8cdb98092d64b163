"""A controller whose nodes are stand-in routers: what its interface says of them is so, and nothing stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from flashferry.lab.cml.clock_runtime import BootTimes
from flashferry.lab.cml.pcap import frames_of
from flashferry.lab.cml.routers.house import House, started_house
from flashferry.lab.cml.routers.path import LatencyCounts
from flashferry.lab.namespaces import in_namespace
from tests.component.lab.cml.conftest import Plain
from tests.unit.lab.cml.topologies import TWO_ROUTERS

pytestmark = [pytest.mark.lab, pytest.mark.long]

QUICK = BootTimes(queued_s=0.2, started_s=0.5, stagger_s=0.1)
STATIC, LEASE = "198.18.1.51", "198.18.1.101"
_DAY0 = """hostname {name}
ip domain name lab
username ferry privilege 15 secret Word1
foo bar
interface GigabitEthernet1
 ip address {address}
 no shutdown
line vty 0 4
 login local
 transport input ssh"""


def topology() -> bytes:
    """Return two routers that let SSH in: one with an address of its own, one that asks for one."""
    lab = YAML(typ="safe").load(TWO_ROUTERS)
    *_, one, two = lab["nodes"]
    for node, address in ((one, f"{STATIC} 255.255.255.0"), (two, "dhcp")):
        day0 = _DAY0.format(name=node["label"], address=address)
        node["image_definition"] = None
        node["configuration"] = [{"name": "iosxe_config.txt", "content": day0}]
    lab["links"][1]["conditioning"] = {"bandwidth": 20000, "latency": 40}
    return json.dumps(lab).encode()


class Client:
    """Asks a house's controller, from within its core."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._plain = Plain(house)  # type: ignore[arg-type]
        with in_namespace(house.pid):
            self._plain.log_in()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        with in_namespace(self._house.pid):
            said = self._plain.ask(method, path, body)
        assert said.status < 300, said
        return said.json if said.body and said.content_type.startswith("application/json") else said.body

    def states(self, lab: str) -> list[str]:
        return [self.ask("GET", f"labs/{lab}/nodes/{node}/state")["state"] for node in self.nodes(lab)]

    def nodes(self, lab: str) -> list[str]:
        """Return the ids of the two routers."""
        return list(self.ask("GET", f"labs/{lab}/nodes"))[2:]

    def links(self, lab: str) -> list[str]:
        return list(self.ask("GET", f"labs/{lab}/links"))

    def rtt_ms(self, address: str) -> float:
        """Return the median round trip of handshakes with a router's SSH port."""
        took = []
        with in_namespace(self._house.pid):
            for _ in range(7):
                began_s = time.monotonic()
                socket.create_connection((address, 22), 5).close()
                took.append(time.monotonic() - began_s)
        return 1e3 * statistics.median(took)


def until(what: Callable[[], bool], seconds: float = 30.0) -> bool:
    ends_s = time.monotonic() + seconds
    while not what():
        if time.monotonic() > ends_s:
            return False
        time.sleep(0.05)
    return True


def namespaces_of(pid: int) -> set[str]:
    """Return the network namespaces of a house's process and of all that it started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if pid in {parent, int(path.parent.name)}:
                found.add(str((path.parent / "ns/net").readlink()))
    return found


def in_use() -> set[str]:
    found = set()
    for path in Path("/proc").glob("[0-9]*/ns/net"):
        with contextlib.suppress(OSError):
            found.add(str(path.readlink()))
    return found


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    with started_house(boot=QUICK) as started:
        yield started


@pytest.fixture
def client(house: House) -> Client:
    return Client(house)


@pytest.fixture
def lab(client: Client) -> Iterator[str]:
    """Yield a started lab whose routers have booted; it is removed at the end."""
    made = client.ask("POST", "import", topology())["id"]
    client.ask("PUT", f"labs/{made}/start")
    assert until(lambda: client.states(made) == ["BOOTED", "BOOTED"])
    yield made
    remove(client, made)


def remove(client: Client, lab: str) -> None:
    client.ask("PUT", f"labs/{lab}/stop")
    assert until(lambda: set(client.states(lab)) <= {"STOPPED", "DEFINED_ON_CORE"})
    client.ask("PUT", f"labs/{lab}/wipe")
    client.ask("DELETE", f"labs/{lab}")


def test_a_router_goes_through_its_states(client):
    """QUEUED, STARTED, BOOTED, each to be seen and in this order, and STOPPED once its processes have ended."""
    made = client.ask("POST", "import", topology())["id"]
    client.ask("PUT", f"labs/{made}/start")
    seen: list[str] = []

    def look() -> bool:
        state = client.states(made)[0]
        if state not in seen:
            seen.append(state)
        return state == "BOOTED"

    assert until(look)
    assert seen == ["QUEUED", "STARTED", "BOOTED"]
    assert until(lambda: client.states(made) == ["BOOTED", "BOOTED"])
    remove(client, made)


def test_routers_are_where_the_controller_says(client, lab, house):
    """SSH answers at the address of the configuration, and at the one that DHCP gave; both are told by interface."""
    told = client.ask("GET", f"labs/{lab}/layer3_addresses")
    addresses = [address for node in told.values() for each in node["interfaces"].values() for address in each["ip4"]]
    assert sorted(addresses) == [LEASE, STATIC]
    with in_namespace(house.pid):
        for address in addresses:
            with socket.create_connection((address, 22), 5) as connection:
                assert connection.recv(7) == b"SSH-2.0"


def test_consoles_tell_the_boot(client, lab):
    """What was refused of the first configuration is told in CVAC's words, and that the router is up."""
    logs = [json_text(client.ask("GET", f"labs/{lab}/nodes/{node}/consoles/0/log")) for node in client.nodes(lab)]
    for log in logs:
        assert "%CVAC-4-CLI_FAILURE: Configuration command failure: 'foo bar' was rejected" in log
        assert "Press RETURN to get started!" in log
        assert "Word1" not in log


def json_text(said: Any) -> str:
    return str(said["log"]) if isinstance(said, dict) else str(said)


@pytest.mark.clocked
def test_a_condition_works_and_changes_while_it_runs(client, lab):
    """The imported latency is the round trip; a PATCH changes it for the next packet, and without one it is gone."""
    link = client.links(lab)[1]
    assert client.rtt_ms(STATIC) == pytest.approx(40, abs=6)
    client.ask("PATCH", f"labs/{lab}/links/{link}/condition", {"bandwidth": 20000, "latency": 80})
    read = client.ask("GET", f"labs/{lab}/links/{link}/condition?operational=true")
    assert read["operational"]["latency"] == 80
    assert client.rtt_ms(STATIC) == pytest.approx(80, abs=8)
    client.ask("DELETE", f"labs/{lab}/links/{link}/condition")
    assert client.rtt_ms(STATIC) < 15


def test_a_capture_has_what_went_over_the_link(client, lab):
    """Both directions of a handshake with the router are in it, as Ethernet frames, and nothing of another router."""
    one, other = client.links(lab)[1:]
    for link in (one, other):
        client.ask("PUT", f"labs/{lab}/links/{link}/capture/start", {"maxpackets": 1000})
    client.rtt_ms(STATIC)
    key = client.ask("GET", f"labs/{lab}/links/{one}/capture/key")
    frames = [frame for _, frame in frames_of(client.ask("GET", f"pcap/{key}"))]
    ends = {(socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])) for frame in frames}
    assert ends == {("198.18.0.1", STATIC), (STATIC, "198.18.0.1")}


def test_a_stopped_lab_leaves_nothing(client, house):
    """Its namespaces, processes and files are gone once it is STOPPED; an address is free for the next lab."""
    before, files = namespaces_of(house.pid), sorted((house.directory / "nodes").iterdir())
    for _ in range(2):
        made = client.ask("POST", "import", topology())["id"]
        client.ask("PUT", f"labs/{made}/start")
        assert until(lambda lab=made: client.states(lab) == ["BOOTED", "BOOTED"])  # type: ignore[misc]
        assert len(namespaces_of(house.pid)) == len(before) + 2
        remove(client, made)
        assert until(lambda: namespaces_of(house.pid) == before)
        assert sorted((house.directory / "nodes").iterdir()) == files


def test_an_address_that_is_taken(client, lab, house):
    """The second router with an address does not run, and its console tells why; the first one is left alone."""
    made = client.ask("POST", "import", topology())["id"]
    client.ask("PUT", f"labs/{made}/start")
    assert until(lambda: client.states(made) == ["DISCONNECTED", "BOOTED"])
    log = json_text(client.ask("GET", f"labs/{made}/nodes/{client.nodes(made)[0]}/consoles/0/log"))
    assert f"Address {STATIC} is taken" in log
    remove(client, made)
    assert client.states(lab) == ["BOOTED", "BOOTED"]


@pytest.mark.clocked
def test_latency_that_counts_each_way():
    """The other reading of the interface: a packet has the latency in each direction."""
    with started_house(boot=QUICK, counts=LatencyCounts.EACH_WAY) as house:
        client = Client(house)
        made = client.ask("POST", "import", topology())["id"]
        client.ask("PUT", f"labs/{made}/start")
        assert until(lambda: client.states(made)[0] == "BOOTED")
        assert client.rtt_ms(STATIC) == pytest.approx(80, abs=8)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Yield a folder whose path leaves room for those of sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ff", dir="/tmp") as folder:
        yield Path(folder)


def test_nothing_is_left_when_the_owner_is_killed(short_folder):
    """Processes, namespaces and files of a house with a running lab are gone soon after `kill -9` of who started it."""
    code = (
        "import sys, time\n"
        "from flashferry.lab.cml.routers.house import started_house\n"
        "from flashferry.lab.cml.clock_runtime import BootTimes\n"
        "from tests.component.lab.cml.test_house import Client, QUICK, topology, until\n"
        "with started_house(boot=QUICK) as house:\n"
        "    client = Client(house)\n"
        "    lab = client.ask('POST', 'import', topology())['id']\n"
        "    client.ask('PUT', f'labs/{lab}/start')\n"
        "    assert until(lambda: client.states(lab) == ['BOOTED', 'BOOTED'])\n"
        "    print(house.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    environment = os.environ | {"TMPDIR": str(short_folder), "PYTHONPATH": str(Path.cwd())}
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    namespaces = namespaces_of(pid)
    assert len(namespaces) == 3
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert until(lambda: not namespaces & in_use())
    assert until(lambda: not list(short_folder.iterdir()))
