"""PASV, EPSV, PORT and EPRT beside a transfer: they disturb none, and serve as ever once it has ended."""

import contextlib
import ftplib
import socket
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import TransferState
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

# Nobody listens where the last two point: they are refused before anything calls there.
_PREPARING = ["PASV", "EPSV", "PORT 127,0,0,1,200,9", "EPRT |1|127.0.0.1|51209|"]


@pytest.mark.parametrize("command", _PREPARING)
def test_a_running_transfer_survives_them(bench: "Bench", closing: contextlib.ExitStack, command: str) -> None:
    """While an image is being sent they get 450; then the image arrives whole and its RETR gets 226."""
    ticket = bench.ticket(tries=1)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {bench.image_name}")
    with pytest.raises(ftplib.error_temp, match="450 Transfer in progress"):
        client.sendcmd(command)
    assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")
    assert bench.final(ticket).state is TransferState.DELIVERED


@pytest.mark.parametrize("command", _PREPARING)
def test_a_retrieval_that_waits_survives_them(bench: "Bench", closing: contextlib.ExitStack, command: str) -> None:
    """A RETR that still waits for its data connection keeps its listener: 450, and the client may yet connect."""
    ticket = bench.ticket(tries=1)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    place = client.makepasv()
    client.sendcmd(f"RETR {bench.image_name}")
    with pytest.raises(ftplib.error_temp, match="450 Transfer in progress"):
        client.sendcmd(command)
    data = closing.enter_context(socket.create_connection(place, timeout=PATIENCE_S))
    assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")


def test_right_behind_the_226_they_serve_again(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """One transfer after another in one session, PASV sent as soon as the 226 is there: none is refused."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket(tries=1))))
    with bench.slow_data_connection(client, 65536) as data:
        client.sendcmd(f"RETR {bench.image_name}")
        assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")
    for command in ("PASV", "EPSV", "PASV"):
        assert client.sendcmd(command)[:3] in ("227", "229")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert client.sendport("127.0.0.1", port).startswith("200")


@pytest.mark.parametrize("waiting", [False, True])
def test_after_abor_they_serve_again(bench: "Bench", closing: contextlib.ExitStack, waiting: bool) -> None:
    """ABOR and PASV sent in one go end the transfer, running or waiting, and open the way for the next one."""
    ticket = bench.ticket(tries=2)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    if waiting:
        client.makepasv()
    else:
        closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {bench.image_name}")
    assert client.sock is not None
    client.sock.sendall(b"ABOR\r\nPASV\r\n")
    replies = [client.getmultiline() for _ in range(3)]
    assert [reply[:3] for reply in replies] == ["426", "226", "227"]
    data = closing.enter_context(socket.create_connection(ftplib.parse227(replies[2]), timeout=PATIENCE_S))
    client.sendcmd(f"RETR {bench.image_name}")
    assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")
    bench.delivered(ticket)


def test_a_connection_nobody_used_is_replaced(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """A data connection without a RETR is no transfer: a second PASV takes its place, and the image comes over that."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket(tries=1))))
    unused = closing.enter_context(bench.slow_data_connection(client))
    assert bench.fetch(client) == bench.content
    assert unused.recv(1) == b""
