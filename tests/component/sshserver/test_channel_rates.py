"""SCP with small channel windows, over the published WAN: what is in the record of such a copy."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flashferry.fileserver import FileServer, ServerSettings, TicketRequest
from flashferry.lab.world import DeviceSpec, World, WorldSpec, in_core, start_world
from flashferry.sshserver import ssh_listener
from tests.component.lab.conftest import copy, session
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

_CAP = 5_900_000


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
    for size_bytes in (400_000, 5_000_000, 20_000_000):
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


@pytest.mark.parametrize(
    ("line", "window_bytes", "size_bytes"),
    [
        ("no ip ssh bulk-mode", 8192, 400_000),
        ("ip ssh bulk-mode 131072", 131_072, 5_000_000),
        ("ip ssh bulk-mode 524288", 524_288, 20_000_000),
    ],
)
def test_a_record_has_the_channel_s_window(
    world: World, server: FileServer, connection: Any, line: str, window_bytes: int, size_bytes: int
) -> None:
    """A copy under a cap is delivered by CUBIC, and its record has the cap and the window that the device gave."""
    connection.send_config_set([line])
    ticket = server.issue_ticket(TicketRequest(image_name=f"{size_bytes}.bin", cap_bytes_per_s=_CAP, tries=1))
    place = f"{ticket.username}:{ticket.password}@{world.server_address}:{server.port}/{size_bytes}.bin"
    assert "copied in" in copy(connection, f"copy scp://{place} null:", timeout_s=PATIENCE_S)
    record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
    assert record is not None
    assert (record.sender.congestion_control, record.sender.cap_bytes_per_s) == ("cubic", _CAP)
    assert record.channel_window_bytes == window_bytes
