"""SCP and SFTP over an emulated WAN with losses: the rate of the link, by BBR under a cap."""

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.fileserver import FileServer, ServerSettings, TicketRequest
from flashferry.lab.namespaces import in_namespace
from flashferry.lab.world import World, in_core, start_world
from flashferry.sshserver import ssh_listener

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.clocked]

_CAP = 5_750_000


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """50 Mbit/s and 100 ms."""
    with start_world() as started:
        yield started


@pytest.fixture
def server(world: World, tmp_path: Path, host_keys: Path) -> Iterator[FileServer]:
    (tmp_path / "image.bin").write_bytes(os.urandom(1 << 20) * 40)
    listener = ssh_listener(host_keys=host_keys, listen_address=world.server_address)
    with in_core(world):
        running = FileServer(ServerSettings(image_paths=(tmp_path / "image.bin",), listeners=(listener,))).__enter__()
    with contextlib.closing(running):
        if not running.capabilities.allows("bbr"):
            pytest.skip("this kernel grants bbr not even to root")
        yield running


@pytest.mark.parametrize("loss", [0.0001, 0.001])
@pytest.mark.parametrize("command", [("scp", "-O"), ("scp",)])
def test_losses_do_not_hold_a_copy_back(
    world: World, server: FileServer, tmp_path: Path, command: tuple[str, ...], loss: float
) -> None:
    """5 MB/s and more of 6.25 that the link has, in the copy itself; never above the cap."""
    world.set_link(loss_ratio=loss)
    ticket = server.issue_ticket(TicketRequest(image_name="image.bin", cap_bytes_per_s=_CAP))
    script = tmp_path / "askpass.sh"
    script.write_text(f"#!/bin/sh\necho {ticket.password}\n")
    script.chmod(0o700)
    options = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-P", str(server.port))
    source = f"{ticket.username}@{world.server_address}:image.bin"
    ask = {"DISPLAY": "none", "SSH_ASKPASS": str(script), "SSH_ASKPASS_REQUIRE": "force", "PATH": os.environ["PATH"]}

    def fetch() -> None:
        with in_namespace(world.site_pids[0]):
            subprocess.run(
                [*command, "-q", "-F", "none", *options, source, "/dev/null"], env=ask, check=False, timeout=60
            )

    thread = threading.Thread(target=fetch)
    thread.start()
    thread.join()
    world.set_link(loss_ratio=0.0)
    record = server.wait_final(ticket.ticket_id, 5).record
    assert record is not None
    assert (record.outcome, record.sender.congestion_control) == ("delivered", "bbr")
    assert 5_000_000 <= record.rate_bytes_per_s <= 1.02 * _CAP
