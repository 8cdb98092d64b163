"""A RETR that was granted and waits for its data connection when the server goes down: served, or failed with words."""

import contextlib
import ftplib
import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import ServerGone, TransferState
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench


def _ends(bench: "Bench", pid: int) -> bool:
    """Wait until the server's process has ended."""
    stat = Path(f"/proc/{pid}/stat")

    def gone() -> bool:
        try:
            return stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return True

    return bench.settles(gone)


def _go_down(bench: "Bench", how: str) -> None:
    if how == "SIGTERM":
        os.kill(bench.server.pid, signal.SIGTERM)
    else:
        bench.server.drain()


@pytest.mark.parametrize("how", ["SIGTERM", "drain"])
def test_draining_serves_a_retrieval_that_waits(bench: "Bench", how: str) -> None:
    """An idle session is sent away; the one that was promised its image still connects, gets it, and is delivered."""
    ticket, pid = bench.ticket(), bench.server.pid
    with contextlib.closing(bench.login(ticket)) as client, contextlib.closing(bench.connect()) as idle:
        place = client.makepasv()
        assert client.sendcmd(f"RETR {bench.image_name}").startswith("150")
        _go_down(bench, how)
        assert idle.getline().startswith("421")
        with socket.create_connection(place, timeout=PATIENCE_S) as data:
            assert bench.read_all(data) == bench.content
        assert client.voidresp().startswith("226")
    assert bench.final(ticket).state is TransferState.DELIVERED
    assert _ends(bench, pid)


@pytest.mark.parametrize("bench", [{"limits": {"data_connect_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_draining_fails_a_retrieval_whose_client_never_connects(bench: "Bench") -> None:
    """It gets 425 when its time is up, whoever waits is told that it failed and why, and the process ends."""
    ticket, pid = bench.ticket(), bench.server.pid
    with contextlib.closing(bench.login(ticket)) as client:
        bench.never_connect(client)
        with contextlib.suppress(ServerGone):
            bench.server.drain()
        bench.pass_time(PATIENCE_S)
        with pytest.raises(ftplib.error_temp, match="425 No data connection came"):
            client.voidresp()
    failed = bench.final(ticket)
    assert failed.state is TransferState.FAILED
    assert "the client did not reach port" in failed.last_error
    assert _ends(bench, pid)


@pytest.mark.parametrize("bench", [{"limits": {"drain_s": 0.3}}], indirect=True)
@pytest.mark.parametrize("how", ["SIGTERM", "drain", "close"])
def test_a_retrieval_that_waits_too_long_fails_with_the_server(bench: "Bench", how: str) -> None:
    """When the time for draining is up, or the server is closed at once, it gets 421 and its ticket has failed."""
    ticket = bench.ticket()
    with contextlib.closing(bench.login(ticket)) as client:
        client.makepasv()
        client.sendcmd(f"RETR {bench.image_name}")
        if how == "close":
            bench.server.close()
        else:
            _go_down(bench, how)
        with pytest.raises(ftplib.error_temp, match="421 Server is going down"):
            client.voidresp()
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "the server was stopped")


def test_an_image_delivered_meanwhile_stays_delivered(bench: "Bench") -> None:
    """A second session of the same ticket brought the image: the stop fails only the RETR that still waits."""
    ticket = bench.ticket(tries=2)
    with contextlib.closing(bench.login(ticket)) as waiting, contextlib.closing(bench.login(ticket)) as other:
        waiting.makepasv()
        waiting.sendcmd(f"RETR {bench.image_name}")
        assert bench.fetch(other) == bench.content
        bench.server.close()
    assert bench.final(ticket).state is TransferState.DELIVERED
