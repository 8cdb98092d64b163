"""A controller whose nodes are stand-in routers: what its interface says of them is so, and nothing stays behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.cml.routers.host_process import ControllerProcess, started_controller
from flashferry.lab.cml.runtime import frames_of
from flashferry.lab.namespaces import in_namespace
from tests.component.lab.cml.process_client import LATENCY_MS, LEASE, QUICK, STATIC, Client, topology
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]


def namespaces_of(pid: int) -> set[str]:
    """Return the network namespaces of a controller process and of all that it started."""
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
def process() -> Iterator[ControllerProcess]:
    with started_controller(boot=QUICK) as started:
        yield started


@pytest.fixture
def client(process: ControllerProcess) -> Client:
    return Client(process)


@pytest.fixture
def lab(client: Client) -> Iterator[str]:
    """Yield a started lab whose routers have booted; it is removed at the end."""
    made = client.ask("POST", "import", topology())["id"]
    client.ask("PUT", f"labs/{made}/start")
    until(lambda: client.states(made) == ["BOOTED", "BOOTED"], "both routers booted")
    yield made
    remove(client, made)


def remove(client: Client, lab: str) -> None:
    client.ask("PUT", f"labs/{lab}/stop")
    until(lambda: set(client.states(lab)) <= {"STOPPED", "DEFINED_ON_CORE"}, "both routers stopped")
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

    until(look, "a router booted")
    assert seen == ["QUEUED", "STARTED", "BOOTED"]
    until(lambda: client.states(made) == ["BOOTED", "BOOTED"], "both routers booted")
    remove(client, made)


def test_routers_are_where_the_controller_says(client, lab, process):
    """SSH answers at the address of the configuration, and at the one that DHCP gave; both are told by interface."""
    nodes = client.ask("GET", f"labs/{lab}/layer3_addresses").values()
    addresses = [address for node in nodes for each in node["interfaces"].values() for address in each["ip4"]]
    assert sorted(addresses) == [LEASE, STATIC]
    with in_namespace(process.pid):
        for address in addresses:
            with socket.create_connection((address, 22), PATIENCE_S) as connection:
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


def test_a_condition_changes_while_it_runs(client, lab):
    """The imported latency is in operation; a PATCH changes it, and without a condition there is none."""
    condition = f"labs/{lab}/links/{client.links(lab)[1]}/condition"
    assert client.ask("GET", f"{condition}?operational=true")["operational"]["latency"] == LATENCY_MS
    client.ask("PATCH", condition, {"bandwidth": 20000, "latency": 80})
    assert client.ask("GET", f"{condition}?operational=true")["operational"]["latency"] == 80
    client.ask("DELETE", condition)
    assert not client.ask("GET", f"{condition}?operational=true").get("operational")
    # No packet that is held back for 80 ms comes back sooner: one that does says that none is.
    until(lambda: min(client.handshakes_s(STATIC)) < 0.08, "a handshake without the latency")


def test_a_capture_has_what_went_over_the_link(client, lab):
    """Both directions of a handshake with the router are in it, as Ethernet frames, and nothing of another router."""
    one, other = client.links(lab)[1:]
    for link in (one, other):
        client.ask("PUT", f"labs/{lab}/links/{link}/capture/start", {"maxpackets": 1000})
    client.handshakes_s(STATIC)
    key = client.ask("GET", f"labs/{lab}/links/{one}/capture/key")
    frames = [frame for _, frame in frames_of(client.ask("GET", f"pcap/{key}"))]
    ends = {(socket.inet_ntoa(frame[26:30]), socket.inet_ntoa(frame[30:34])) for frame in frames}
    assert ends == {("198.18.0.1", STATIC), (STATIC, "198.18.0.1")}


def test_a_stopped_lab_leaves_nothing(client, process):
    """Its namespaces, processes and files are gone once it is STOPPED; an address is free for the next lab."""
    before, files = namespaces_of(process.pid), sorted((process.directory / "nodes").iterdir())
    for _ in range(2):
        made = client.ask("POST", "import", topology())["id"]
        client.ask("PUT", f"labs/{made}/start")
        until(lambda lab=made: client.states(lab) == ["BOOTED", "BOOTED"], "both routers booted")  # type: ignore[misc]
        assert len(namespaces_of(process.pid)) == len(before) + 2
        remove(client, made)
        until(lambda: namespaces_of(process.pid) == before, "the end of its namespaces")
        assert sorted((process.directory / "nodes").iterdir()) == files


def test_an_address_that_is_taken(client, lab, process):
    """The second router with an address does not run, and its console tells why; the first one is left alone."""
    made = client.ask("POST", "import", topology())["id"]
    client.ask("PUT", f"labs/{made}/start")
    until(lambda: client.states(made) == ["DISCONNECTED", "BOOTED"], "one router that does not run")
    log = json_text(client.ask("GET", f"labs/{made}/nodes/{client.nodes(made)[0]}/consoles/0/log"))
    assert f"Address {STATIC} is taken" in log
    remove(client, made)
    assert client.states(lab) == ["BOOTED", "BOOTED"]


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Yield a folder whose path leaves room for those of sockets in it."""
    with tempfile.TemporaryDirectory(prefix="ff", dir="/tmp") as folder:
        yield Path(folder)


def test_nothing_is_left_when_the_owner_is_killed(short_folder):
    """Processes, namespaces and files of a controller with a running lab are gone soon after `kill -9` of its owner."""
    code = (
        "import sys, time\n"
        "from flashferry.lab.cml.routers.host_process import started_controller\n"
        "from tests.component.lab.cml.process_client import Client, QUICK, topology\n"
        "from tests.patience import until\n"
        "with started_controller(boot=QUICK) as process:\n"
        "    client = Client(process)\n"
        "    lab = client.ask('POST', 'import', topology())['id']\n"
        "    client.ask('PUT', f'labs/{lab}/start')\n"
        "    until(lambda: client.states(lab) == ['BOOTED', 'BOOTED'], 'both routers booted')\n"
        "    print(process.pid, flush=True)\n"
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
    until(lambda: not namespaces & in_use(), "the end of its namespaces")
    until(lambda: not list(short_folder.iterdir()), "the end of its files")
