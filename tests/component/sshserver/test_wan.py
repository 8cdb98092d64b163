"""SCP and SFTP over an emulated WAN with losses: by BBR under a cap."""

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
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.lab, pytest.mark.soak]

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


@pytest.mark.parametrize("command", [("scp", "-O"), ("scp",)])
def test_a_copy_over_losses_is_delivered_by_bbr(
    world: World, server: FileServer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """One segment of a thousand is lost: the image is delivered whole, and BBR was not given up."""
    world.set_link(loss_ratio=0.001)
    ticket = server.issue_ticket(TicketRequest(image_name="image.bin", cap_bytes_per_s=_CAP))
    script = tmp_path / "askpass.sh"
    script.write_text(f"#!/bin/sh\necho {ticket.password}\n")
    script.chmod(0o700)
    options = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-P", str(server.port))
    source = f"{ticket.username}@{world.server_address}:image.bin"
    ask = {"DISPLAY": "none", "SSH_ASKPASS": str(script), "SSH_ASKPASS_REQUIRE": "force", "PATH": os.environ["PATH"]}

    def fetch() -> None:
        with in_namespace(world.site_pids[0]):
            line = [*command, "-q", "-F", "none", *options, source, str(tmp_path / "got.bin")]
            subprocess.run(line, env=ask, check=False, timeout=PATIENCE_S)

    thread = threading.Thread(target=fetch)
    thread.start()
    thread.join()
    world.set_link(loss_ratio=0.0)
    record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
    assert record is not None
    assert (record.outcome, record.sender.congestion_control) == ("delivered", "bbr")
    assert (tmp_path / "got.bin").read_bytes() == (tmp_path / "image.bin").read_bytes()
