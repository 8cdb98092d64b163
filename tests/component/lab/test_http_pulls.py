"""`copy http:`: the bytes on the wire, what is printed, the way out, and what each misbehaviour brings."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from flashferry.lab.web import Behaviour, Web, running_web
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SECOND_ADDRESS = "198.18.1.200"
CONTENT = bytes(range(256)) * 3000  # 768,000 bytes: three marks
NAME = (r"filename \[[\w.]+\]\? ", "\n")
REPLY_TIMEOUT_S = 3


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    devices = (
        DeviceSpec(name="r1", config_lines=("interface Loopback0", f" ip address {SECOND_ADDRESS} 255.255.255.255")),
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as started:
        started.fault("r1", reply_timeout_s=REPLY_TIMEOUT_S)
        yield started


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Web]:
    with in_core(world), running_web(world.server_address, {"x.bin": CONTENT, "tiny": bytes(174)}) as running:
        yield running


@pytest.fixture
def web(server: Web) -> Iterator[Web]:
    """The server, well behaved before and after the test."""
    server.behaviour = Behaviour()
    server.requests.clear()
    yield server
    server.behaviour = Behaviour()


def url(web: Web, name: str, login: str = "") -> str:
    return f"http://{login}{web.address}:{web.port}/{name}"


def names(world: World) -> list[str]:
    return [file.name for file in world.files("r1")]


def test_the_request_is_that_of_the_capture(web: Web, connection: Any, copy: Any) -> None:
    """Field by field in the captured order: the login goes out unasked, and there is neither Range nor Accept."""
    shown = copy(connection, f"copy {url(web, 'tiny', 'u1:pw9@')} null:")
    lines = web.requests[0].decode().split("\r\n")
    assert lines[:4] == [
        "GET /tiny HTTP/1.1", "User-Agent: cisco-IOS", f"Host: {web.address}:{web.port}",
        "Authorization: Basic dTE6cHc5",
    ]  # fmt: skip
    assert re.fullmatch(r"Date: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", lines[4])
    assert lines[5:] == ["Connection: close"]
    assert "pw9" not in shown.replace(f"copy {url(web, 'tiny', 'u1:pw9@')}", "")


def test_a_copy_to_null_reads_like_the_public_log(web: Web, connection: Any, copy: Any) -> None:
    """The whole URL with a masked login, no [OK line, and no mark for 174 bytes."""
    shown = copy(connection, f"copy {url(web, 'tiny', 'u1:pw9@')} null:").replace("\r", "")
    masked = url(web, "tiny", "*:*@")
    assert re.search(
        rf"\nAccessing {re.escape(masked)}\.\.\.\nLoading {re.escape(masked)} \n"
        r"174 bytes copied in [\d.]+ secs \(\d+ bytes/sec\)\n",
        shown,
    )


def test_no_login_is_sent_where_nobody_gave_one(web: Web, connection: Any, copy: Any) -> None:
    """Without a URL login and without lines there is no Authorization; the lines of the HTTP client bring one."""
    copy(connection, f"copy {url(web, 'tiny')} null:")
    assert b"Authorization" not in web.requests[0]
    connection.send_config_set(["ip http client username u2", "ip http client password pw8"])
    copy(connection, f"copy {url(web, 'tiny')} null:")
    connection.send_config_set(["no ip http client username", "no ip http client password"])
    assert b"\r\nAuthorization: Basic dTI6cHc4\r\n" in web.requests[1]


def test_the_source_interface_decides_the_address(web: Web, connection: Any, copy: Any, wire: Any) -> None:
    """`ip http client source-interface`, not FTP's line; there is no keyword vrf."""
    connection.send_config_set(
        ["ip http client source-interface Loopback0", "ip ftp source-interface GigabitEthernet1"]
    )
    wire.syns()
    assert "bytes copied" in copy(connection, f"copy {url(web, 'tiny')} null:")
    connection.send_config_set(["no ip http client source-interface", "no ip ftp source-interface"])
    assert {syn.source for syn in wire.syns()} == {SECOND_ADDRESS}
    shown = connection.send_command(f"copy {url(web, 'tiny')} null: vrf Mgmt-intf").splitlines()
    assert "% Invalid input detected at '^' marker." in shown
    assert web.requests[1:] == []


def test_a_name_is_looked_up_in_the_configuration(web: Web, connection: Any, copy: Any) -> None:
    """`ip host` gives the address; the request and the screen keep the name; a name nobody knows fails at once."""
    line = f"copy http://depot.example:{web.port}/tiny null:"
    assert "(Invalid IP address or hostname)" in copy(connection, line)
    connection.send_config_set([f"ip host depot.example {web.address}"])
    assert "174 bytes copied" in copy(connection, line)
    connection.send_config_set(["no ip host depot.example"])
    assert f"\r\nHost: depot.example:{web.port}\r\n".encode() in web.requests[0]


def test_a_copy_to_flash_brings_the_very_bytes(web: Web, world: World, connection: Any, copy: Any) -> None:
    """Three marks for 768,000 bytes; what is printed behind a copy to a flash is counted as a guess."""
    shown = copy(connection, f"copy {url(web, 'x.bin')} flash:", NAME)
    assert re.search(rf"Loading {url(web, 'x.bin')} !!!\s+768000 bytes copied in", shown)
    assert next(file.path.read_bytes() for file in world.files("r1") if file.name == "x.bin") == CONTENT
    assert world.guesses("r1")["http: the lines behind a copy to a flash"] >= 1
    connection.send_command("delete /force flash:x.bin")


@pytest.mark.parametrize(
    ("behaviour", "text", "error"),
    [
        (Behaviour(login="a:b"), "unauthorized", "opening"),
        (Behaviour(status=403), "forbidden", "opening"),
        (Behaviour(status=404), "not_found", "opening"),
        (Behaviour(status=500), "server_error", "opening"),
        (Behaviour(status=302, location="/tiny"), "redirected", "opening"),
        (Behaviour(is_chunked=True), "chunked", "opening"),
        (Behaviour(is_silent=True), "silent", "opening"),
        (Behaviour(cut_after_bytes=300_000), "short", "reading"),
        (Behaviour(announced_bytes=800_000), "short", "reading"),
        (Behaviour(reset_after_bytes=300_000), "broken", "reading"),
        (Behaviour(stall_after_bytes=300_000), "stalled", "reading"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_misbehaviour_ends_the_copy(
    web: Web, world: World, connection: Any, copy: Any, behaviour: Behaviour, text: str, error: str
) -> None:
    """The device's error names the URL, nothing is left on the flash, and the guess is counted by its name."""
    web.behaviour = behaviour
    before = world.guesses("r1").get(f"http: {text}", 0)
    shown = copy(connection, f"copy {url(web, 'x.bin', 'u1:pw9@')} flash:", NAME)
    reason = "No such file or directory" if text == "not_found" else "I/O error"
    assert f"%Error {error} {url(web, 'x.bin', '*:*@')} ({reason})" in shown
    assert "bytes copied" not in shown
    assert "x.bin" not in names(world)
    assert world.guesses("r1")[f"http: {text}"] == before + 1


def test_no_more_is_read_than_was_announced(web: Web, connection: Any, copy: Any) -> None:
    """A server that says less than it sends is believed; one that says nothing is read to its end."""
    web.behaviour = Behaviour(announced_bytes=100_000)
    assert "100000 bytes copied" in copy(connection, f"copy {url(web, 'x.bin')} null:")
    web.behaviour = Behaviour(announced_bytes=-1)
    assert "768000 bytes copied" in copy(connection, f"copy {url(web, 'x.bin')} null:")


def test_an_address_without_a_way_is_an_input_output_error(web: Web, connection: Any, copy: Any, world: World) -> None:
    """Nobody is there: the words are those of the public log, so it counts as no guess."""
    connection.send_config_set(["ip tcp synwait-time 5"])
    before = world.guesses("r1")
    shown = copy(connection, "copy http://u1:pw9@198.18.0.77/x.bin null:")
    connection.send_config_set(["no ip tcp synwait-time"])
    assert "%Error opening http://*:*@198.18.0.77/x.bin (I/O error)" in shown
    assert world.guesses("r1") == before
