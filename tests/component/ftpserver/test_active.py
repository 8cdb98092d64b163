"""Active mode: PORT is answered at once, the client is called at RETR, and nobody else's session feels it."""

import contextlib
import ftplib
import os
import random
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import FixedLogin, TransferState
from tests.component.benches import until_asleep
from tests.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from conftest import Bench

_SEQUENCES = int(os.environ.get("FLASHFERRY_ACTIVE_SEQUENCES", "150"))
_CLIENTS, _COPIES = 20, 5
_LAB = FixedLogin(username="lab", password="Bench-2026.word")


def _port_command(listener: socket.socket, command: str = "PORT") -> str:
    port = listener.getsockname()[1]
    return f"PORT 127,0,0,1,{port // 256},{port % 256}" if command == "PORT" else f"EPRT |1|127.0.0.1|{port}|"


@pytest.mark.parametrize("command", ["PORT", "EPRT"])
def test_port_and_retr_in_one_packet_are_answered_in_order(
    bench: "Bench", closing: contextlib.ExitStack, command: str
) -> None:
    """200 for PORT, then 150 and 226 for RETR, and the image is whole."""
    ticket = bench.ticket(tries=1)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    listener = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    listener.settimeout(PATIENCE_S)
    assert client.sock is not None
    client.sock.sendall(f"{_port_command(listener, command)}\r\nRETR {bench.image_name}\r\n".encode())
    data, _ = listener.accept()
    with data:
        assert bench.read_all(data) == bench.content
    assert [client.getmultiline()[:3] for _ in range(3)] == ["200", "150", "226"]
    assert bench.final(ticket).state is TransferState.DELIVERED


def test_nobody_is_called_before_retr(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """PORT alone makes no connection, and PASV behind it takes its place."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    listener = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    assert client.sendcmd(_port_command(listener)).startswith("200")
    assert bench.fetch(client) == bench.content  # by PASV
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.accept()


def test_a_port_is_good_for_one_transfer(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """The next RETR asks for a new one instead of calling where nobody listens any more."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    client.set_pasv(False)
    assert bench.fetch(client) == bench.content
    with pytest.raises(ftplib.error_perm, match="550"):
        client.sendcmd(f"RETR {bench.image_name}")
    other = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    listener = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    other.sendcmd(_port_command(listener))
    assert other.sendcmd("ABOR").startswith("225 Data connection closed")
    with pytest.raises(ftplib.error_temp, match="425 Use PASV or PORT first"):
        other.sendcmd(f"RETR {bench.image_name}")


@pytest.mark.parametrize("bench", [{"limits": {"data_connect_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_a_client_that_never_answers_the_call_is_told(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """Its backlog is full: 425 when the time is up, and the session serves on."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    listener = closing.enter_context(socket.socket())
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    for _ in range(2):  # one more than it holds
        filler = closing.enter_context(socket.socket())
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    client.sendcmd(_port_command(listener))
    assert client.sendcmd(f"RETR {bench.image_name}").startswith("150")
    bench.pass_time(PATIENCE_S)
    with pytest.raises(ftplib.error_temp, match="425"):
        client.voidresp()
    assert "did not answer within 120 s" in bench.final(ticket).last_error
    assert bench.fetch_active(client) == bench.content


def test_quit_with_nothing_under_way_ends_the_session(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """An idle data connection does not hold it: both are closed at once."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    data = closing.enter_context(bench.slow_data_connection(client))
    assert client.sendcmd("QUIT").startswith("221")
    with contextlib.suppress(ConnectionResetError):  # it may not have been accepted yet
        assert data.recv(1) == b""
    assert client.sock is not None
    assert client.sock.recv(1) == b""


@pytest.mark.parametrize("mode", ["passive", "active"])
def test_quit_behind_retr_ends_behind_the_transfer(bench: "Bench", closing: contextlib.ExitStack, mode: str) -> None:
    """RETR and QUIT in one packet, while the data connection is still to come: the image, 226, then the end."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    listener = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
    place = client.makepasv() if mode == "passive" else client.sendcmd(_port_command(listener))
    assert client.sock is not None
    client.sock.sendall(f"RETR {bench.image_name}\r\nQUIT\r\nPWD\r\n".encode())
    data = socket.create_connection(place) if isinstance(place, tuple) else listener.accept()[0]
    with data:
        assert bench.read_all(data) == bench.content
    with contextlib.suppress(ConnectionResetError):
        assert re.findall(rb"(?m)^\d{3}", bench.read_all(client.sock)) == [b"150", b"221", b"226"]
    bench.delivered(ticket)


@pytest.mark.parametrize("bench", [{"size": 100_000}], indirect=True)
@pytest.mark.parametrize("active", [0, 5, 10, 15, 20])
def test_clients_in_both_modes_do_not_disturb_each_other(bench: "Bench", active: int) -> None:
    """Twenty clients copy five times each, some of them active: every copy is whole and none waits in vain."""
    bench.server.admit(_LAB)

    def copies(number: int) -> int:
        whole = 0
        for _ in range(_COPIES):
            with bench.connect() as client:
                client.login(_LAB.username, _LAB.password)
                client.set_pasv(number >= active)
                whole += bench.fetch(client) == bench.content
        return whole

    with ThreadPoolExecutor(_CLIENTS) as pool:
        assert list(pool.map(copies, range(_CLIENTS))) == [_COPIES] * _CLIENTS


# Command sequences with PORT and EPRT.


def _sequence(dice: random.Random, bench: "Bench", ports: list[int]) -> bytes:
    port = dice.choice(ports)
    places = [f"PORT 127,0,0,1,{port // 256},{port % 256}", f"EPRT |1|127.0.0.1|{port}|"]
    retrieval = f"RETR {bench.image_name}"
    others = [
        "PASV",
        "EPSV",
        "ABOR",
        "NOOP",
        "REST 299999",
        "PORT 127,0,0,9,4,1",
        "EPRT |2|::1|5000|",
        "QUIT",
        retrieval,
    ]
    chosen = dice.choices([*places, retrieval, *others], weights=[6, 6, 6, *([1] * len(others))], k=dice.randint(1, 12))
    return "".join(f"{line}\r\n" for line in ["USER lab", f"PASS {_LAB.password}", *chosen]).encode()


def _play(bench: "Bench", payload: bytes, dice: random.Random) -> None:
    """Send it all at once, or piece by piece, and vanish in one way or another, if the server does not hang up."""
    with (
        socket.create_connection(("127.0.0.1", bench.server.port), timeout=PATIENCE_S) as client,
        contextlib.suppress(OSError),
    ):
        for piece in [payload] if dice.random() < 0.5 else payload.splitlines(keepends=True):
            client.sendall(piece)
        if dice.random() < 0.3:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif dice.random() < 0.5:
            client.shutdown(socket.SHUT_WR)
            bench.read_all(client)


def _serves(bench: "Bench", *, passive: bool) -> bool:
    """Tell whether a client had its image: one that stood still meanwhile may have lost its listener for that."""
    with bench.connect() as client, contextlib.suppress(ftplib.error_temp, ConnectionRefusedError):
        client.login(_LAB.username, _LAB.password)
        client.set_pasv(passive)
        return bench.fetch(client) == bench.content
    return False


@pytest.mark.parametrize(
    "bench", [{"size": 30_000, "limits": {"data_connect_s": 0.3, "failed_logins": 10**6}}], indirect=True
)
def test_sequences_of_port_and_retr_leave_nothing(bench: "Bench") -> None:
    """After any number of them the server has the descriptors of before, idles, and both modes still serve.

    FLASHFERRY_ACTIVE_SEQUENCES=5000 is what docs/ftp-conformance.md tells of.
    """
    bench.server.admit(_LAB)
    dice = random.Random(5)
    until(lambda: _serves(bench, passive=True), "an image")
    before = bench.descriptors()
    with contextlib.ExitStack() as stack:
        listening = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)]
        closed = socket.create_server(("127.0.0.1", 0))
        ports = [each.getsockname()[1] for each in (*listening, closed)]
        closed.close()
        for _ in range(_SEQUENCES):
            _play(bench, _sequence(dice, bench, ports), dice)
            for listener in listening:
                listener.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    listener.accept()[0].close()
    assert bench.settles(lambda: bench.descriptors() <= before), (before, bench.descriptors())
    until_asleep(bench.pid)
    for passive in (True, False):
        until(lambda passive=passive: _serves(bench, passive=passive), f"an image, passive: {passive}")  # type: ignore[misc]
