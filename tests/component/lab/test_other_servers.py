"""`copy` from and to servers of HTTP and TFTP, refusals after a real try, echoes over the link, SACK as configured."""

import contextlib
import http.server
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

NAME = (r"filename \[[\w.]+\]\? ", "\n")
CONTENT = bytes(range(256)) * 1500


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (DeviceSpec(name="r1"), DeviceSpec(name="old", platform="iosv-15.8"))
    with start_world(WorldSpec(profile="lan", devices=devices)) as started:
        yield started


class _Web(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/x.bin"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(CONTENT) if found else 0))
        self.end_headers()
        self.wfile.write(CONTENT if found else b"")

    def do_PUT(self) -> None:
        self.server.stored = self.rfile.read(int(self.headers["Content-Length"]))  # type: ignore[attr-defined]
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Say nothing."""


@pytest.fixture(scope="module")
def web(world: World) -> Iterator[Any]:
    with in_core(world):
        server = http.server.HTTPServer((world.server_address, 0), _Web)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Tftp:
    """A plain TFTP server of one file, which loses a block once and keeps what is written to it."""

    def __init__(self, world: World) -> None:
        with in_core(world):
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind((world.server_address, 69))
        self.stored = bytearray()
        self._lost = {3}
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                packet, peer = self.socket.recvfrom(2048)
                self._answer(packet, peer)

    def _answer(self, packet: bytes, peer: tuple[str, int]) -> None:
        kind, number = struct.unpack("!HH", packet[:4])
        if kind == 1 and packet[2:].split(b"\0")[0] != b"x.bin":
            self.socket.sendto(struct.pack("!HH", 5, 1) + b"no\0", peer)
        elif kind == 1:
            self._send_block(0, peer)
        elif kind == 4 and number * 512 <= len(CONTENT):
            self._send_block(number, peer)
        elif kind == 2:
            self.socket.sendto(struct.pack("!HH", 4, 0), peer)
        elif kind == 3:
            self.stored[512 * (number - 1) :] = packet[4:]
            self.socket.sendto(struct.pack("!HH", 4, number), peer)

    def _send_block(self, before: int, peer: tuple[str, int]) -> None:
        if before in self._lost:
            self._lost.discard(before)
            return
        self.socket.sendto(struct.pack("!HH", 3, before + 1) + CONTENT[512 * before : 512 * before + 512], peer)


@pytest.fixture(scope="module")
def tftp(world: World) -> Iterator[Tftp]:
    server = Tftp(world)
    yield server
    server.socket.close()


def held(world: World, name: str) -> bytes | None:
    return next((file.path.read_bytes() for file in world.files("r1") if file.name == name), None)


def test_a_file_comes_by_http(world: World, connection: Any, copy: Any, web: Any) -> None:
    """The very bytes, with the questions and the result line of any copy; what is not there is said to be missing."""
    url = f"http://{world.server_address}:{web.server_port}"
    shown = copy(connection, f"copy {url}/x.bin flash:web.bin", (r"\[web\.bin\]\? ", "\n"))
    assert re.search(rf"Accessing {url}/x\.bin\.\.\.\s+Loading {url}/x\.bin !\s+384000 bytes copied", shown)
    assert held(world, "web.bin") == CONTENT
    shown = copy(connection, f"copy {url}/y.bin flash:", NAME)
    assert f"%Error opening {url}/y.bin (No such file or directory)" in shown
    assert held(world, "y.bin") is None


def test_a_file_comes_by_tftp(world: World, connection: Any, copy: Any, tftp: Tftp) -> None:
    """A block that is lost is asked for again; what the server has not is said to be missing."""
    url = f"tftp://{world.server_address}"
    shown = copy(connection, f"copy {url}/x.bin flash:", NAME)
    assert f"Loading x.bin from {world.server_address} (via GigabitEthernet1): !!" in shown
    assert "[OK - 384000 bytes]" in shown
    assert held(world, "x.bin") == CONTENT
    shown = copy(connection, f"copy {url}/y.bin flash:", NAME)
    assert f"%Error opening {url}/y.bin (No such file or directory)" in shown


def test_configurations_go_up(world: World, connection: Any, copy: Any, web: Any, tftp: Tftp) -> None:
    """By PUT and by TFTP the server has what the device runs."""
    host = (r"remote host \[[\d.]+\]\? ", "\n")
    copy(connection, f"copy running-config tftp://{world.server_address}", host, (r"\[r1-confg\]\? ", "\n"))
    assert b"\nhostname r1\n" in bytes(tftp.stored)
    url = f"http://{world.server_address}:{web.server_port}/r1.cfg"
    copy(connection, f"copy running-config {url}", host, (r"\[r1\.cfg\]\? ", "\n"))
    assert b"\nhostname r1\n" in web.stored


@pytest.mark.parametrize("scheme", ["http", "https", "scp", "sftp"])
def test_a_refusal_is_that_of_the_server(world: World, connection: Any, copy: Any, scheme: str) -> None:
    """A closed port refuses, and the device says so; nothing is claimed of a file."""
    login, masked = ("u:p@", "*:*@") if scheme in {"scp", "sftp"} else ("", "")  # who it is would be asked
    shown = copy(connection, f"copy {scheme}://{login}{world.server_address}:9/z.bin flash:", NAME)
    url = f"{scheme}://{masked}{world.server_address}:9/z.bin"
    assert f"%Error opening {url} (Connection refused by remote host)" in shown


def test_what_is_not_spoken_is_tried_before_it_fails(world: World, connection: Any, copy: Any, web: Any) -> None:
    """The server of an `rcp:` copy sees the connection; the device then reports an error, not a missing file."""
    with in_core(world):
        listener = socket.create_server((world.server_address, 0))
    listener.settimeout(PATIENCE_S)
    port = listener.getsockname()[1]
    shown = copy(connection, f"copy rcp://{world.server_address}:{port}/z.bin flash:", NAME)
    peer, address = listener.accept()
    peer.close()
    listener.close()
    assert address[0] == "198.18.1.11"
    assert f"%Error opening rcp://{world.server_address}:{port}/z.bin (I/O error)" in shown


def test_silence_ends_as_a_timeout(world: World, connection: Any, copy: Any) -> None:
    """Without a TFTP server at the address the device gives up, and names the silence."""
    shown = copy(connection, "copy tftp://198.18.0.77/z.bin flash:", NAME, timeout_s=PATIENCE_S)
    assert "%Error opening tftp://198.18.0.77/z.bin (Timed out)" in shown


def test_the_server_answers_echoes(world: World, connection: Any) -> None:
    """Over the link, from the device's own address; a host that is not there does not."""
    shown = connection.send_command(f"ping {world.server_address}", read_timeout=PATIENCE_S)
    assert "!!!!!\n" in shown.replace("\r", "")
    assert "Success rate is 100 percent (5/5)" in shown
    shown = connection.send_command("ping 198.18.0.77 repeat 2 timeout 1", read_timeout=PATIENCE_S)
    assert "Success rate is 0 percent (0/2)" in shown
    shown = connection.send_command(f"traceroute {world.server_address}", read_timeout=PATIENCE_S)
    assert f" {world.server_address} " in shown.partition("vrf out name")[2]


@pytest.mark.parametrize("name", ["r1", "old"])
def test_ssh_shows_sack_where_it_is_configured(world: World, open_session: Callable[..., Any], name: str) -> None:
    """An untuned router's sessions show none of it; with the line a new session does, and an old one still does not."""
    device = next(each for each in world.devices if each.name == name)
    with open_session(device) as first:
        assert "Option Flags: nagle\n" in first.send_command("show tcp").replace("\r", "")
        first.send_config_set(["ip tcp selective-ack"])
        with open_session(device) as second:
            blocks = second.send_command("show tcp").replace("\r", "").split("\nTCB ")[1:]
            flags = [re.search(r"Option Flags: (.*)", block)[1] for block in blocks]
        first.send_config_set(["no ip tcp selective-ack"])
    assert flags == ["nagle", "nagle, SACK option permitted"]


def test_one_that_offers_it_by_itself_shows_it() -> None:
    """A C8000V needs no line for SACK and window scaling (its BGP sessions, docs/lab.md)."""
    with (
        start_world(WorldSpec(profile="lan", devices=(DeviceSpec(name="c", platform="c8000v-17.15"),))) as world,
        in_core(world),
    ):
        import netmiko

        device = world.devices[0]
        session = netmiko.ConnectHandler(
            device_type="cisco_xe", host=device.address, username=device.username, password=device.password
        )
        flags = re.search(r"Option Flags: (.*)", session.send_command("show tcp"))
        session.disconnect()
    assert flags
    assert flags[1].strip() == "nagle, SACK option permitted, win-scale"
