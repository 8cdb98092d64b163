"""One ticket, one data connection; and places for those who have a ticket."""

import contextlib
import ftplib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import TransferState
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench


def test_five_sessions_with_one_ticket_are_one_transfer(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """All ask for the image before any data connection is there: the newest gets it, once, the others get 426."""
    ticket = bench.ticket(tries=9)
    clients = [closing.enter_context(contextlib.closing(bench.login(ticket))) for _ in range(5)]
    places = [client.makepasv() for client in clients]
    for client in clients:
        assert client.sendcmd(f"RETR {bench.image_name}").startswith("150")
    received: list[bytes] = []
    for place in places:
        # An older one's listener is gone, or takes nobody's connection any more.
        with contextlib.suppress(OSError), socket.create_connection(place, timeout=PATIENCE_S) as data:
            received.append(bench.read_all(data))
    assert [piece for piece in received if piece] == [bench.content]
    for client in clients[:-1]:
        with pytest.raises(ftplib.error_temp, match="426"):
            client.voidresp()
    assert clients[-1].voidresp().startswith("226")
    assert bench.delivered(ticket).tries_left == 4


def test_a_cap_is_not_multiplied_by_sessions(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """However many sessions copy with a ticket at the same time, all but one transfer have been cut."""
    ticket = bench.ticket(tries=9, cap_bytes_per_s=100_000)
    for _ in range(5):
        client = closing.enter_context(contextlib.closing(bench.login(ticket)))
        closing.enter_context(bench.slow_data_connection(client))
        client.sendcmd(f"RETR {bench.image_name}")
    assert bench.server.drain() == 1


def test_revoking_ends_every_session_of_the_ticket(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """One that transfers, one that waits and one that idles: all are sent away; another ticket's session stays."""
    ticket = bench.ticket(tries=9)
    other = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    idle, running = (closing.enter_context(contextlib.closing(bench.login(ticket))) for _ in range(2))
    closing.enter_context(bench.slow_data_connection(running))
    running.sendcmd(f"RETR {bench.image_name}")
    bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
    bench.server.revoke(ticket.ticket_id)
    assert [running.getline()[:3], running.getline()[:3], idle.getline()[:3]] == ["426", "421", "421"]
    for client in (running, idle):
        with pytest.raises((EOFError, ConnectionResetError)):
            client.getline()
    assert bench.fetch(other) == bench.content
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "ticket revoked")


@pytest.mark.parametrize("bench", [{"limits": {"sessions": 40, "anonymous_sessions_per_address": 10}}], indirect=True)
@pytest.mark.parametrize("bound", [True, False])
def test_silent_sessions_of_four_addresses_shut_nobody_out(
    bench: "Bench", closing: contextlib.ExitStack, bound: bool
) -> None:
    """All places are taken by sessions that never log in: ten routers get theirs, log in and copy."""
    tickets = [bench.ticket(source_addresses=("127.0.0.1",) if bound else ()) for _ in range(10)]
    for stranger in range(4):
        for _ in range(10):
            closing.enter_context(contextlib.closing(bench.connect(f"127.0.0.{10 + stranger}")))
    with pytest.raises(ftplib.error_temp, match="421"):
        bench.connect("127.0.0.10")
    clients = [closing.enter_context(contextlib.closing(bench.login(ticket))) for ticket in tickets]
    fetched: list[bytes] = []
    threads = [threading.Thread(target=lambda client=client: fetched.append(bench.fetch(client))) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched == [bench.content] * 10
