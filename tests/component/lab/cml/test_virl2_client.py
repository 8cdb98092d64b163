"""Cisco's own client, unmodified, drives the stand-in."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
from virl2_client import ClientLibrary, InitializationError
from virl2_client.exceptions import APIError, LabNotFound
from virl2_client.models.authentication import make_session

from flashferry.lab.cml.standin import RunningController
from tests.component.lab.cml.conftest import StartController
from tests.patience import PATIENCE_S, until
from tests.unit.lab.cml.topologies import ONE_ROUTER

pytestmark = pytest.mark.filterwarnings("ignore:.verify=<str>. is deprecated:DeprecationWarning")


class Connect(Protocol):
    """Comes in as a job does."""

    def __call__(self, running: RunningController, *, password: str | None = None) -> ClientLibrary: ...


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Connect]:
    """Connect as a job does: everything said, nothing from the surroundings."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:

        def noted(*args: Any, **options: Any) -> httpx.Client:
            # A client that could not come in leaves its session open.
            session = make_session(*args, **options)
            stack.callback(session.close)
            return session

        monkeypatch.setattr("virl2_client.virl2_client.make_session", noted)

        def connected(running: RunningController, *, password: str | None = None) -> ClientLibrary:
            return ClientLibrary(
                running.url,
                running.username,
                password or running.password,
                ssl_verify=str(running.ca_file),
                raise_for_auth_failure=True,
                convergence_wait_max_iter=100,
                convergence_wait_time=0.05,
            )

        yield connected


@pytest.mark.parametrize("version", ["2.8.1", "2.9.1+build.7", "2.10.0+build.5", "2.11.0+sso"])
def test_a_lab_by_the_client_on_each_version(start_controller: StartController, connect: Connect, version: str) -> None:
    """Connect, import, start and wait, states, addresses, conditions, logs, testbed, stop, wipe, remove."""
    client = connect(start_controller(version=version))
    lab = client.import_lab(ONE_ROUTER, title="ff-nightly-by-the-client")
    lab.wait_max_iterations, lab.wait_time = 100, 0.05
    lab.start(wait=True)
    node, link = lab.get_node_by_label("xe1"), lab.links()[0]
    assert (lab.state(), node.state, link.state, link.label) == ("STARTED", "BOOTED", "STARTED", "wan")
    assert lab.title == "ff-nightly-by-the-client"
    assert node.configuration == "hostname xe1"
    lab.sync(topology_only=False)
    assert node.get_interface_by_label("GigabitEthernet1").discovered_ipv4 == ["198.18.0.2"]
    assert node.compute_id

    link.set_condition(bandwidth=100_000, latency=40, jitter=2, loss=0.1, enabled=True)
    assert link.get_condition() == {"bandwidth": 100_000, "latency": 40, "jitter": 2, "loss": 0.1, "enabled": True}
    link.set_condition_by_name("wan1")
    assert (link.get_condition()["bandwidth"], link.get_condition()["latency"]) == (256, 80)
    link.remove_condition()
    with pytest.raises(APIError, match="No link condition exists"):
        link.remove_condition()

    assert "Press RETURN" in node.console_logs(0)["log"]
    assert len(node.console_key()) == len(node.id)
    assert "terminal_server" in lab.get_pyats_testbed("192.0.2.1")
    assert "node_definition: cat8000v" in lab.download()
    assert lab.sync_events()
    lab.stop(wait=True)
    lab.wipe(wait=True)
    lab.remove()
    with pytest.raises(LabNotFound):
        client.join_existing_lab(lab.id)


@pytest.mark.parametrize("version", ["2.7.0+build.4", "3.0.0"])
def test_the_client_refuses_versions_that_it_does_not_know(
    start_controller: StartController, connect: Connect, version: str
) -> None:
    """Older than 2.8, newer than 2."""
    with pytest.raises(InitializationError):
        connect(start_controller(version=version))


def test_a_wrong_password_is_what_the_client_says_it_is(running: RunningController, connect: Connect) -> None:
    """Not a retry, not a raw exception."""
    with pytest.raises(InitializationError, match="check your username and password"):
        connect(running, password="wrong")


def test_a_capture_by_the_client(running: RunningController, connect: Connect) -> None:
    """Start, status, stop; the file by its key, as the client's own download asks for a path that is not there."""
    client = connect(running)
    lab = client.import_lab(ONE_ROUTER)
    lab.start(wait=False)
    lab.wait_until_lab_converged(max_iterations=100, wait_time=0.05)
    link = lab.links()[0]
    assert link.start_capture(maxpackets=2)["config"]["maxpackets"] == 2
    until(lambda: link.capture_status()["packetscaptured"] == 2, "two packets")
    link.stop_capture()
    assert client._session.get(f"pcap/{link.id}").content[:4] == b"\xd4\xc3\xb2\xa1"
    with pytest.raises(APIError):
        link.download_capture()


def test_a_lab_is_built_piece_by_piece(running: RunningController, connect: Connect) -> None:
    """As the examples do: nodes, interfaces, links, tags, annotations; found by title; taken apart again."""
    client = connect(running)
    lab = client.create_lab("piece by piece", description="none", notes="some")
    one = lab.create_node("one", "iosv", 50, 100)
    two = lab.create_node("two", "iosv", 50, 200, populate_interfaces=True)
    lab.sync()
    link = lab.connect_two_nodes(one, two)
    assert [each.label for each in one.physical_interfaces()] == ["GigabitEthernet0/0"]
    assert {each.label for each in link.nodes} == {"one", "two"}
    one.add_tag("site-a")
    assert lab.get_smart_annotation_by_tag("site-a").label == "site-a"
    note = lab.create_annotation("text", text_content="here")
    note.text_content = "there"
    one.configuration = "hostname one"
    lab.sync()
    assert (lab.get_node_by_label("one").configuration, note.text_content) == ("hostname one", "there")
    until(
        lambda: [each.id for each in client.find_labs_by_title("piece by piece")] == [lab.id],
        "the lab by its title, once the tiles show it",
    )
    link.remove()
    lab.remove_annotation(note)
    lab.remove_node(one)
    lab.sync()
    assert [node.label for node in lab.nodes()] == ["two"]
    lab.remove()
    assert client.get_lab_list(show_all=True) == []


def test_an_image_by_the_client(running: RunningController, connect: Connect, tmp_path: Path) -> None:
    """Uploaded, defined, used by an import, removed."""
    client = connect(running)
    image = tmp_path / "c8000v-17.17.qcow2"
    image.write_bytes(b"image" * 5000)
    with contextlib.redirect_stdout(io.StringIO()):
        client.definitions.upload_image_file(image)
    assert client.definitions.download_image_file_list() == [image.name]
    new = {"id": "tonight", "node_definition_id": "cat8000v", "label": "17.17", "disk_image": image.name}
    assert client.definitions.upload_image_definition(new) == "Success"
    assert "tonight" in [each["id"] for each in client.definitions.image_definitions_for_node_definition("cat8000v")]
    text = ONE_ROUTER.replace("node_definition: cat8000v", "node_definition: cat8000v, image_definition: tonight")
    lab = client.import_lab(text)
    assert lab.get_node_by_label("xe1").image_definition == "tonight"
    with pytest.raises(APIError):
        client.definitions.remove_image_definition("tonight")
    lab.remove()
    client.definitions.remove_image_definition("tonight")
    client.definitions.remove_dropfolder_image(image.name)


def test_a_token_that_expires_in_the_middle_of_an_import_makes_one_lab(
    running: RunningController, connect: Connect
) -> None:
    """The client logs in again by itself and repeats the call."""
    client = connect(running)
    running.faults.set(expired_token={"path": "^import$", "count": 1})
    client.import_lab(ONE_ROUTER)
    assert len(client.get_lab_list()) == 1
    assert [each.path for each in running.exchanges].count("authenticate") == 2


def test_one_502_ends_a_start_that_waits(running: RunningController, connect: Connect) -> None:
    """What a night must not leave to the client: the page of HTML comes out as an error."""
    lab = connect(running).import_lab(ONE_ROUTER)
    running.faults.set(bad_gateway={"path": "check_if_converged", "count": 1})
    with pytest.raises(APIError, match="502 Bad Gateway"):
        lab.start(wait=True)


def test_a_slow_controller_comes_out_raw(running: RunningController, connect: Connect) -> None:
    """No exception of the client's own, but that of its transport."""
    client = connect(running)
    client._session.timeout = httpx.Timeout(PATIENCE_S, read=0.2)
    running.faults.set(slow={"path": "^labs$", "is_in_vain": True})
    with pytest.raises(httpx.ReadTimeout):
        client.get_lab_list()


def test_licence_and_health_by_the_client(running: RunningController, connect: Connect) -> None:
    """Registering works once it is not licensed; quota and health say so."""
    client = connect(running)
    assert client.licensing.register_wait("token") is True
    assert client.licensing.deregister() == 204
    assert client.get_system_health()["is_licensed"] is False
    assert client.licensing.status()["registration"]["status"] != "COMPLETED"
    assert client.system_management.controller.is_connected is True
    assert {each["device_name"] for each in client.system_management.get_external_connectors()} == {
        "bridge0",
        "virbr0",
    }
