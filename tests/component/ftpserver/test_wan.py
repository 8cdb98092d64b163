"""The server before an emulated WAN that turns bad in mid-flow."""

import contextlib
import ftplib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashferry.fileserver import (
    FileServer,
    SenderProfile,
    ServerSettings,
    Ticket,
    TicketRequest,
    TransferProgress,
    TransferState,
)
from flashferry.lab.namespaces import in_namespace
from flashferry.lab.world import World, in_core, start_world
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S, until

pytestmark = [pytest.mark.lab, pytest.mark.soak]

IMAGE = "image.bin"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_world() as started:
        yield started


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    """A server in the core that gives BBR up, and a silent peer, after a second instead of ten and sixty."""
    image: Path = tmp_path_factory.mktemp("images") / IMAGE
    image.write_bytes(os.urandom(1 << 20) * 40)
    profile = SenderProfile(congestion_control="bbr", fall_back_after_s=1.0, unacked_limit_s=1.0)
    settings = ServerSettings(
        image_paths=(image,),
        listeners=(ftp_listener(listen_address=world.server_address),),
        profile=profile,
        sample_interval_s=0.1,
    )
    with in_core(world):
        running = FileServer(settings).__enter__()
    with contextlib.closing(running):
        if not running.capabilities.allows("bbr") or not running.capabilities.allows("cubic"):
            pytest.skip("this kernel grants bbr or cubic not even to root")
        yield running


@pytest.fixture
def left_alone(world: World, tmp_path: Path) -> Iterator[FileServer]:
    """A server without options."""
    image = tmp_path / IMAGE
    image.write_bytes(bytes(20_000_000))
    with in_core(world):
        listeners = (ftp_listener(listen_address=world.server_address),)
        running = FileServer(ServerSettings(image_paths=(image,), listeners=listeners)).__enter__()
    with contextlib.closing(running):
        if not running.capabilities.allows("bbr"):
            pytest.skip("this kernel grants bbr not even to root")
        yield running


@contextlib.contextmanager
def _fetching(world: World, server: FileServer) -> Iterator[Ticket]:
    """A client at the site that fetches an image and forgets it, whatever comes of that."""
    ticket = server.issue_ticket(TicketRequest(image_name=IMAGE))

    def fetch() -> None:
        with in_namespace(world.site_pids[0]), contextlib.suppress(*ftplib.all_errors), ftplib.FTP() as client:
            client.connect(world.server_address, server.port, timeout=PATIENCE_S)
            client.login(ticket.username, ticket.password)
            client.retrbinary(f"RETR {IMAGE}", lambda _: None)

    thread = threading.Thread(target=fetch)
    thread.start()
    try:
        yield ticket
    finally:
        world.set_link(loss_ratio=0.0)
        server.revoke(ticket.ticket_id)
        thread.join()


def _until(server: FileServer, ticket: Ticket, wanted: Callable[[TransferProgress], bool]) -> TransferProgress:
    """Wait for a reading that is as wanted; return the last one of a transfer that has ended."""

    def seen() -> TransferProgress | None:
        progress = server.progress(ticket.ticket_id)
        return progress if wanted(progress) or progress.state.is_final else None

    return until(seen, lambda: f"another reading than {server.progress(ticket.ticket_id)}")  # type: ignore[return-value]


def _until_moving(server: FileServer, ticket: Ticket) -> TransferProgress:
    progress = _until(
        server, ticket, lambda seen: seen.state is TransferState.TRANSFERRING and seen.bytes_acked > 100_000
    )
    assert progress.state is TransferState.TRANSFERRING, progress
    return progress


def test_bbr_gives_way_to_cubic_in_mid_flow(world: World, server: FileServer) -> None:
    """Where more than 5 % is sent again the flow goes on under CUBIC, read back from the kernel, with the reason."""
    with _fetching(world, server) as ticket:
        assert _until_moving(server, ticket).congestion_control == "bbr"
        world.set_link(to_site={"loss_ratio": 0.12})
        progress = _until(server, ticket, lambda seen: seen.congestion_control == "cubic")
        # Under CUBIC a loss like this may well leave it silent for the second after which a peer is given up.
        world.set_link(loss_ratio=0.0)
        acked = progress.bytes_acked
        progress = _until(server, ticket, lambda seen: seen.bytes_acked > acked)
        server.revoke(ticket.ticket_id)
        record = server.wait_final(ticket.ticket_id, PATIENCE_S).record
    assert progress.bytes_acked > acked
    assert record is not None
    assert (record.sender.congestion_control, record.sender.congestion_control_chosen) == ("cubic", "cubic")
    assert record.sender.reason == "the profile asks for it; given up, more than 5% was sent again for 1 s"


def test_a_peer_that_falls_silent_is_given_up(world: World, server: FileServer) -> None:
    """A path that swallows everything ends the transfer after the unacknowledged limit, with that as its reason."""
    with _fetching(world, server) as ticket:
        _until_moving(server, ticket)
        world.set_link(loss_ratio=1.0)
        failed = server.wait_final(ticket.ticket_id, PATIENCE_S)
    assert failed.state is TransferState.FAILED
    assert failed.last_error == "data connection lost: Connection timed out"
    assert failed.bytes_acked < failed.size_bytes
    assert failed.record is not None
    assert failed.record.outcome == failed.last_error


def test_without_a_rate_the_link_is_found_in_the_copy(world: World, left_alone: FileServer) -> None:
    """BBR goes at a pace of the copy's own; the record has it apart from caps, and the verdict names the link."""
    with _fetching(world, left_alone) as ticket:
        delivered = left_alone.wait_final(ticket.ticket_id, PATIENCE_S)
    record = delivered.record
    assert record is not None
    assert (delivered.state, record.sender.congestion_control_chosen) == (TransferState.DELIVERED, "bbr")
    assert record.sender.cap_bytes_per_s is None
    assert record.sender.pace_bytes_per_s is not None
    assert record.sender.found_link_bytes_per_s is not None
    assert "no rate stated" in record.sender.reason
