"""What goes wrong in copies over SSH: each fault is told, leaves no file, and the next copy works."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flashferry.lab.world import DeviceSpec, World, WorldSpec, start_world
from tests.component.lab.plain_ssh import SSH_WORD, PlainSsh, plain_ssh

pytestmark = [pytest.mark.lab, pytest.mark.soak]

SIZE_BYTES = 1_000_000
OFF: dict[str, Any] = {
    "ssh_client_offers": {}, "ssh_wrong_password": False, "ssh_host_key_changed": False,
    "ssh_channel_ends_after_bytes": None, "ssh_rekey_after_bytes": None, "ssh_breaks_on_rekey": False,
    "ssh_bulk_mode_breaks_after_bytes": None, "ssh_sink_error": None, "ssh_crypto_bytes_per_s": None,
    "syslog_in_copy": False, "disk_full_after_bytes": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world(WorldSpec(profile="lan", devices=(DeviceSpec(name="r1", platform="c8000v-17.15"),))) as started:
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainSsh]:
    with plain_ssh(world, tmp_path_factory.mktemp("ssh")) as started:
        started.add("a.bin", SIZE_BYTES)
        yield started


@pytest.fixture
def fetch(world: World, server: PlainSsh, connection: Any, copy: Callable[..., str]) -> Iterator[Callable[..., str]]:
    """Return what switches faults and copies to the flash once."""

    def once(scheme: str = "scp", **faults: Any) -> str:
        connection.send_command("delete /force flash:a.bin")
        world.fault("r1", **(OFF | faults))
        url = server.url("a.bin", scheme=scheme)
        return copy(connection, f"copy {url} flash:", (r"filename \[a\.bin\]\? ", "\n")).replace("\r", "")

    yield once
    world.fault("r1", **OFF)


def kept(world: World) -> int | None:
    """Return the size of the file on the flash, or None."""
    return next((file.size_bytes for file in world.files("r1") if file.name == "a.bin"), None)


@pytest.mark.parametrize(
    ("faults", "shown", "guess"),
    [
        ({"ssh_wrong_password": True}, "%Error opening", "ssh: wrong_password"),
        ({"ssh_host_key_changed": True}, "%Error opening", "ssh: host_key_changed"),
        ({"ssh_client_offers": {"encryption": ["3des-cbc"]}}, "%Error opening", "ssh: no_common_algorithm"),
        (
            {"ssh_client_offers": {"encryption": ["aes128-ctr"], "mac": ["hmac-md5-96"]}},
            "%Error opening",
            "ssh: no_common_algorithm",
        ),
        ({"ssh_channel_ends_after_bytes": 600_000}, "!!\n%Error reading", "ssh: channel_closed"),
        ({"ssh_breaks_on_rekey": True, "ssh_rekey_after_bytes": 600_000}, "!!\n%Error reading", "ssh: connection_lost"),
        ({"ssh_bulk_mode_breaks_after_bytes": 600_000}, "!!\n%Error reading", "ssh: connection_lost"),
        ({"ssh_sink_error": "I/O error"}, "!!!\n%Error copying", "ssh: sink_error"),
    ],
)
@pytest.mark.parametrize("scheme", ["scp", "sftp"])
def test_a_fault_is_told_and_leaves_nothing(
    world: World, fetch: Callable[..., str], scheme: str, faults: dict[str, Any], shown: str, guess: str
) -> None:
    """The words are guesses, and counted as such; no file stays, and the same copy works once the fault is gone."""
    before = world.guesses("r1")
    screen = fetch(scheme, **faults)
    assert re.search(rf"{shown} {scheme}://\*:\*@198\.18\.0\.1:\d+/a\.bin \(.+\)\nr1#", screen)
    assert kept(world) is None
    assert world.guesses("r1") == before | {guess: before.get(guess, 0) + 1}
    assert f"{SIZE_BYTES} bytes copied" in fetch(scheme)
    assert kept(world) == SIZE_BYTES


def test_no_room_after_the_last_byte_is_the_known_text(world: World, fetch: Callable[..., str]) -> None:
    """The sink's own word, and a flash that fills up in mid-file, say what the transcript says; both count as known."""
    before = world.guesses("r1")
    for faults in ({"ssh_sink_error": "No space left on device"}, {"disk_full_after_bytes": 500_000}):
        screen = fetch(**faults)
        assert re.search(r"!!!\n%Error copying scp://\*:\*@\S+/a\.bin \(Not enough space on device\)", screen)
        assert kept(world) is None
    assert world.guesses("r1") == before


@pytest.mark.parametrize("scheme", ["scp", "sftp"])
def test_new_keys_in_mid_file_are_not_noticed(world: World, fetch: Callable[..., str], scheme: str) -> None:
    """The device asks for them after half of the file, and the file is whole."""
    screen = fetch(scheme, ssh_rekey_after_bytes=500_000)
    assert f"!!!!\n{SIZE_BYTES} bytes copied" in screen
    assert kept(world) == SIZE_BYTES


def test_the_server_may_ask_for_new_keys_too(
    world: World, fetch: Callable[..., str], connection: Any, copy: Any, tmp_path: Any
) -> None:  # fmt: skip
    """A server that wants new keys after each 200 kB: the device follows, or breaks where it cannot."""
    with plain_ssh(world, tmp_path, rekey_bytes=200_000) as eager:
        eager.add("b.bin", SIZE_BYTES)
        shown = copy(connection, f"copy {eager.url('b.bin')} null:")
        assert f"{SIZE_BYTES} bytes copied" in shown
        world.fault("r1", **(OFF | {"ssh_breaks_on_rekey": True}))
        shown = copy(connection, f"copy {eager.url('b.bin')} null:")
        assert "%Error reading scp" in shown


def test_without_bulk_mode_nothing_breaks(fetch: Callable[..., str], connection: Any) -> None:
    """The cure that users of a cat9000v name: the same device, the line taken out."""
    connection.send_config_set(["no ip ssh bulk-mode"])
    screen = fetch(ssh_bulk_mode_breaks_after_bytes=600_000)
    connection.send_config_set(["ip ssh bulk-mode 131072"])
    assert f"{SIZE_BYTES} bytes copied" in screen


def test_a_syslog_line_within_the_marks_ends_no_copy(world: World, fetch: Callable[..., str]) -> None:
    """As in the captures of a C9300 by FTP."""
    screen = fetch(syslog_in_copy=True)
    assert "%LINEPROTO-5-UPDOWN" in screen
    assert kept(world) == SIZE_BYTES


@pytest.mark.parametrize("scheme", ["scp", "sftp"])
def test_a_slow_cipher_ends_no_copy(world: World, fetch: Callable[..., str], scheme: str) -> None:
    """A device that decrypts 400 kB/s gets the whole file."""
    assert f"{SIZE_BYTES} bytes copied" in fetch(scheme, ssh_crypto_bytes_per_s=400_000)
    assert kept(world) == SIZE_BYTES


def test_a_password_that_nobody_types_ends_with_the_session(
    world: World, server: PlainSsh, open_session: Any
) -> None:  # fmt: skip
    """A session that dies at the prompt: the device gives the copy up, and the server loses its client."""
    device = world.devices[0]
    with open_session(device) as session:
        session.write_channel(f"copy {server.url('a.bin', login='tester@')} null:\n")
        session.read_until_pattern(r"Password: ")
        session.remote_conn.get_transport().close()
    with open_session(device) as session:
        assert not re.search(rf"{server.port}\s+ESTAB", session.send_command("show tcp brief"))
        session.write_channel(f"copy {server.url('a.bin', login='tester@')} null:\n")
        session.read_until_pattern(r"Password: ")
        session.write_channel(f"{SSH_WORD}\n")
        assert "bytes copied" in session.read_until_pattern(r"bytes copied|%Error")
