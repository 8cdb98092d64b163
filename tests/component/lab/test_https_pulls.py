"""`copy https:`: whom the device trusts is what its configuration says, by its own clock; TLS over the device's TCP."""

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flashferry.lab.authority import Authority
from flashferry.lab.web import Behaviour, Web, running_web
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world

pytestmark = [pytest.mark.lab, pytest.mark.soak]

CONTENT = bytes(range(256)) * 6000
NAME = (r"filename \[[\w.]+\]\? ", "\n")
DAY_S = 86400.0


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def world(authority: Authority) -> Iterator[World]:
    devices = (
        DeviceSpec(name="r1", trustpoints=(("LAB-CA", authority.pem),)),
        DeviceSpec(name="bare"),
    )
    with start_world(WorldSpec(profile="lan", devices=devices)) as started:
        yield started


@pytest.fixture(scope="module")
def serve(world: World, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what starts a server whose certificate is for given hosts and days."""

    def start(*hosts: str, begins: datetime | None = None, ends: datetime | None = None, by: Any = None) -> Any:
        folder: Path = tmp_path_factory.mktemp("tls")
        files = (by or authority).issue(folder, hosts or (world.server_address,), begins=begins, ends=ends)
        return running_web(world.server_address, {"x.bin": CONTENT}, tls=files.context())

    return start


@pytest.fixture(scope="module")
def web(world: World, serve: Any) -> Iterator[Web]:
    with in_core(world), serve() as running:
        yield running


def line(web: Web, target: str = "null:", host: str = "") -> str:
    return f"copy https://u1:pw9@{host or web.address}:{web.port}/x.bin {target}"


def fails_by(world: World, name: str, text: str, shown: str) -> bool:
    """Tell whether a copy ended with the error that stands for a reason, and the device counted that reason."""
    is_error = re.search(r"%Error opening https://\*:\*@\S+/x\.bin \(I/O error\)", shown) is not None
    return is_error and f"http: {text}" in world.guesses(name) and "bytes copied" not in shown


def test_a_trusted_server_brings_the_very_bytes(web: Web, world: World, connection: Any, copy: Any) -> None:
    """With the authority in a trustpoint: the same screen and the same request as over HTTP, inside TLS 1.2."""
    web.requests.clear()
    shown = copy(connection, line(web, "flash:"), NAME).replace("\r", "")
    masked = f"https://*:*@{web.address}:{web.port}/x.bin"
    assert re.search(rf"\nAccessing {re.escape(masked)}\.\.\.\nLoading {re.escape(masked)} !!!!!!\n", shown)
    assert "1536000 bytes copied" in shown
    assert next(file.path.read_bytes() for file in world.files("r1") if file.name == "x.bin") == CONTENT
    assert web.requests[0].startswith(b"GET /x.bin HTTP/1.1\r\nUser-Agent: cisco-IOS\r\n")
    assert b"Basic dTE6cHc5" in web.requests[0]
    connection.send_command("delete /force flash:x.bin")


def test_the_certificate_stands_in_the_configuration(connection: Any, world: World, authority: Authority) -> None:
    """Hexadecimal between `certificate ca` and `quit`; it survives a save and comes back with the startup."""
    text = world.running_config("r1")
    found = re.search(
        r"\ncrypto pki certificate chain LAB-CA\n certificate ca [0-9A-F]+\n((?:  [0-9A-F ]+\n)+)  \tquit\n!", text
    )
    assert found
    der = bytes.fromhex("".join(found[1].split()))
    assert ssl.DER_cert_to_PEM_cert(der).split() == authority.pem.split()
    assert "\ncrypto pki trustpoint LAB-CA\n enrollment terminal\n revocation-check none\n!\n" in text
    connection.save_config()
    assert found[0] in world.startup_config("r1")


def test_without_a_trustpoint_nothing_is_asked_for(web: Web, world: World, open_session: Any, copy: Any) -> None:
    """The handshake ends by the device's alert; no request, and so no login, crosses."""
    web.requests.clear()
    with open_session(world.devices[1]) as bare:
        shown = copy(bare, line(web))
    assert fails_by(world, "bare", "not_trusted", shown)
    assert web.requests == []


def test_a_trustpoint_that_is_taken_out_is_trusted_no_more(web: Web, world: World, connection: Any, copy: Any) -> None:
    """And trusted again when the lines are typed as they stood."""
    text = world.running_config("r1")
    section = re.search(r"crypto pki trustpoint LAB-CA\n(?: .*\n)+", text)
    assert section
    connection.send_config_set(["no crypto pki trustpoint LAB-CA"])
    assert fails_by(world, "r1", "not_trusted", copy(connection, line(web)))
    connection.send_config_set(section[0].splitlines())
    assert "bytes copied" in copy(connection, line(web))
    assert world.running_config("r1").partition("\nversion")[2] == text.partition("\nversion")[2]


@pytest.mark.parametrize(
    ("hosts", "begins_d", "ends_d", "text"),
    [
        ((), -10, -1, "certificate_date"),
        ((), 1, 10, "certificate_date"),
        (("depot.example",), -1, 10, "certificate_name"),
        (("198.18.0.9",), -1, 10, "certificate_name"),
    ],
)
def test_a_certificate_must_fit(
    serve: Any, world: World, connection: Any, copy: Any, hosts: tuple[str, ...], begins_d: int, ends_d: int, text: str
) -> None:  # fmt: skip
    """Expired, not yet valid, for another name, for another address."""
    now = datetime.now(UTC)
    with in_core(world), serve(*hosts, begins=now + timedelta(days=begins_d), ends=now + timedelta(days=ends_d)) as own:
        assert fails_by(world, "r1", text, copy(connection, line(own)))
        assert own.requests == []


def test_an_authority_of_the_same_name_is_not_trusted(serve: Any, world: World, connection: Any, copy: Any) -> None:
    """Its key is another."""
    with in_core(world), serve(by=Authority()) as own:
        assert fails_by(world, "r1", "not_trusted", copy(connection, line(own)))


@pytest.mark.parametrize("days", [-2, 400])
def test_it_is_the_devices_clock_that_counts(web: Web, world: World, connection: Any, copy: Any, days: int) -> None:
    """A clock that is days behind or a year ahead refuses a good certificate; set right, the copy succeeds."""
    world.fault("r1", clock_offset_s=days * DAY_S)
    try:
        shown = copy(connection, line(web))
        year = (datetime.now(UTC) + timedelta(days=days)).year
        assert f" {year}" in connection.send_command("show clock")
    finally:
        world.fault("r1", clock_offset_s=0.0)
    assert fails_by(world, "r1", "certificate_date", shown)
    assert "bytes copied" in copy(connection, line(web))


def test_a_name_is_that_of_the_certificate(serve: Any, world: World, connection: Any, copy: Any) -> None:
    """`ip host` gives the address of the name that the certificate is for."""
    with in_core(world), serve("depot.example") as own:
        connection.send_config_set([f"ip host depot.example {own.address}"])
        shown = copy(connection, line(own, host="depot.example"))
        connection.send_config_set(["no ip host depot.example"])
    assert "1536000 bytes copied" in shown


def test_a_server_without_tls_is_told_apart(world: World, connection: Any, copy: Any) -> None:
    """Plain HTTP on the port: no handshake."""
    with in_core(world), running_web(world.server_address, {"x.bin": b"x"}) as plain:
        assert fails_by(world, "r1", "no_handshake", copy(connection, line(plain)))


def test_a_reset_inside_tls_ends_the_copy(web: Web, world: World, connection: Any, copy: Any) -> None:
    """As over HTTP: nothing is left on the flash."""
    web.behaviour = Behaviour(cut_after_bytes=300_000)
    shown = copy(connection, line(web, "flash:"), NAME)
    web.behaviour = Behaviour()
    assert "%Error reading https://" in shown
    assert "x.bin" not in [file.name for file in world.files("r1")]


def test_a_slow_processor_ends_no_copy(web: Web, world: World, connection: Any, copy: Any) -> None:
    """A device that decrypts 300 kB/s gets the whole file."""
    world.fault("r1", https_bytes_per_s=300_000)
    try:
        shown = copy(connection, line(web))
    finally:
        world.fault("r1", https_bytes_per_s=None)
    assert f"{len(CONTENT)} bytes copied" in shown


def test_an_old_release_does_not_know_the_protocol(web: Web, world: World, connection: Any) -> None:
    """Without an HTTP client in the release the caret stands under the URL."""
    world.fault("r1", no_http_client=True)
    try:
        shown = connection.send_command(line(web))
        assert "% Invalid input detected at '^' marker." in shown
    finally:
        world.fault("r1", no_http_client=False)
