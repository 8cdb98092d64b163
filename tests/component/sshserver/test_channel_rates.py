"""SCP behind a small channel window, over the published WAN: our server gives all that the window lets through."""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import FileServer, ServerSettings, TicketRequest, TransferRecord
from flashferry.lab.standin.ssh_client.window_model import rate_bytes_per_s
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.sshserver import ssh_listener
from tests.component.lab.conftest import copy, session

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.clocked]

_CAP = 5_900_000
_LINK = 6_030_000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """50 Mbit/s and 100 ms without losses: the model knows of none. TCP's window is wide, refills are at the half."""
    device = DeviceSpec(
        name="r1", platform="c8000v-17.15", config_lines=("ip tcp window-size 4000000", "ip tcp selective-ack")
    )
    with start_world(WorldSpec(devices=(device,))) as started:
        started.set_link(loss_ratio=0.0)
        started.fault("r1", ssh_refill="half")
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory, host_keys: Path) -> Iterator[FileServer]:
    folder = tmp_path_factory.mktemp("images")
    for size_bytes in (4, 400_000, 5_000_000, 20_000_000):
        (folder / f"{size_bytes}.bin").write_bytes(os.urandom(size_bytes))
    listener = ssh_listener(host_keys=host_keys, listen_address=world.server_address)
    with in_core(world):
        running = FileServer(ServerSettings(image_paths=(folder,), listeners=(listener,))).__enter__()
    with contextlib.closing(running):
        yield running


@pytest.fixture
def connection(world: World) -> Iterator[Any]:
    with session(world, world.devices[0]) as opened:
        yield opened


def seconds_of(world: World, server: FileServer, connection: Any, size_bytes: int) -> tuple[float, TransferRecord]:
    """Copy a file and return how long the device says that it took, and our server's record."""
    ticket = server.issue_ticket(TicketRequest(image_name=f"{size_bytes}.bin", cap_bytes_per_s=_CAP, tries=1))
    login = f"{ticket.username}:{ticket.password}@"
    url = f"scp://{login}{world.server_address}:{server.port}/{size_bytes}.bin"
    found = re.search(r"copied in ([\d.]+) secs", copy(connection, f"copy {url} null:", timeout_s=60))
    record = server.wait_final(ticket.ticket_id, 5).record
    assert found is not None
    assert record is not None
    return float(found[1]), record


@pytest.mark.parametrize(
    ("line", "window_bytes", "size_bytes"),
    [
        ("no ip ssh bulk-mode", 8192, 400_000),
        ("ip ssh bulk-mode 131072", 131_072, 5_000_000),
        ("ip ssh bulk-mode 524288", 524_288, 20_000_000),
    ],
)
def test_a_copy_runs_at_the_model_of_its_window(
    world: World, server: FileServer, connection: Any, line: str, window_bytes: int, size_bytes: int
) -> None:
    """Window over round trip with the refill rule, the login subtracted; by CUBIC, under a cap.

    Never more than 10 % above; a busy machine may take a quarter away.
    """
    connection.send_config_set([line])
    login_s, _ = seconds_of(world, server, connection, 4)
    took_s, record = seconds_of(world, server, connection, size_bytes)
    model = rate_bytes_per_s(
        "half", window_bytes=window_bytes, packet_bytes=min(32768, window_bytes), rtt_s=0.1, link_bytes_per_s=_LINK
    )
    assert 0.75 * model < size_bytes / (took_s - login_s) < 1.1 * model
    assert (record.sender.congestion_control, record.sender.cap_bytes_per_s) == ("cubic", _CAP)
    assert record.channel_window_bytes == window_bytes
