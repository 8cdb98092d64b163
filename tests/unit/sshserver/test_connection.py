"""Connections and channels that end at the wrong moment; every order here is forced."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import asyncssh
import pytest

from flashferry.sshserver.connection import Connection, attach, channel_of
from flashferry.sshserver.dialogues import ChannelWriter, SftpDialogue
from flashferry.sshserver.session import Session
from tests.patience import PATIENCE_S

Test = Callable[[Connection, socket.socket, socket.socket], Awaitable[None]]
INIT = struct.pack(">IBI", 5, 1, 3)
"""The first request of SFTP."""


def played(test: Test) -> None:
    """Run a test with a connection that is not attached yet, its socket and the client's; the loop has no error."""

    async def run(ours: socket.socket, theirs: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        errors: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: errors.append(context))
        options = asyncssh.SSHServerConnectionOptions(server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")])
        await test(Connection(loop, options, asyncssh.SSHServer(), lambda: None), ours, theirs)
        # What an end leaves to be done takes the loop three turns.
        for _ in range(5):
            await asyncio.sleep(0)
        assert errors == []
        assert ours.fileno() == -1

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        asyncio.run(run(ours, theirs))


def test_the_key_exchange_begins_before_the_client_has_spoken() -> None:
    """A client that waits for our identification gets our KEXINIT with it, and no second one for its own."""

    async def test(connection: Connection, ours: socket.socket, theirs: socket.socket) -> None:
        await attach(connection, ours)
        loop = asyncio.get_running_loop()
        got = b""
        while not (packet := got.partition(b"\r\n")[2])[4:] or len(packet) < 4 + int.from_bytes(packet[:4], "big"):
            got += await asyncio.wait_for(loop.sock_recv(theirs, 1 << 16), PATIENCE_S)
        assert got.startswith(b"SSH-2.0-")
        assert packet[5] == 20
        assert len(packet) == 4 + int.from_bytes(packet[:4], "big")
        await loop.sock_sendall(theirs, b"SSH-2.0-Cisco-1.25\r\n")
        while not connection.client_version:
            await asyncio.sleep(0)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)
        connection.abort()
        await asyncio.wait_for(connection.wait_closed(), PATIENCE_S)

    played(test)


def test_an_end_while_the_rest_is_sent_leaves_no_error() -> None:
    """Where the loop reads the client's end and sends what waited in one turn, nothing is left to be aborted."""

    async def test(connection: Connection, ours: socket.socket, theirs: socket.socket) -> None:
        await attach(connection, ours)
        transport: Any = connection._transport
        while not transport.get_write_buffer_size():
            transport.write(b"x" * 4096)
        with contextlib.suppress(BlockingIOError):
            while theirs.recv(1 << 20):
                pass
        theirs.shutdown(socket.SHUT_WR)
        await asyncio.wait_for(connection.wait_closed(), PATIENCE_S)

    played(test)


@pytest.mark.parametrize("turns", [0, 1])
def test_one_that_is_refused_before_it_is_served_ends_in_order(turns: int) -> None:
    """A full house gives the place of one away that was accepted a moment ago: before or within its attaching."""

    async def test(connection: Connection, ours: socket.socket, theirs: socket.socket) -> None:
        attaching = asyncio.ensure_future(attach(connection, ours))
        for _ in range(turns):
            await asyncio.sleep(0)
        assert not connection.was_made
        connection.refuse()
        await asyncio.wait_for(attaching, PATIENCE_S)
        assert (connection.was_made, connection.is_open) == (True, False)

    played(test)


@pytest.mark.parametrize("by", ["scp", "sftp"])
def test_nothing_is_sent_on_a_channel_that_the_client_has_ended(by: str, tmp_path: Path) -> None:
    """The session hears of it a turn of the loop later; until then what would be sent waits."""

    async def test(connection: Connection, ours: socket.socket, theirs: socket.socket) -> None:
        await attach(connection, ours)
        channel = channel_of(connection)
        # As behind the login, and behind the client's last word on the channel.
        connection._kex_complete = True
        assert (connection.has_space, channel.is_open) == (True, False)
        if by == "scp":
            writer = ChannelWriter(connection, channel)
            with (tmp_path / "image").open("w+b") as file, pytest.raises(BlockingIOError):
                writer.send(file.fileno(), 0, 1000)
        else:
            client: Any = SimpleNamespace(socket=ours, context=SimpleNamespace(loop=None), connection=connection)
            session = Session(client)
            session.channel = channel
            dialogue = SftpDialogue(session)
            dialogue.take(INIT)
            assert dialogue._requests.waiting_bytes == len(INIT)
        connection.abort()
        await asyncio.wait_for(connection.wait_closed(), PATIENCE_S)

    played(test)


def test_an_error_of_ours_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where the watch over a transfer fails, by its kind, and the connection ends."""
    ended: list[bool] = []
    connection = SimpleNamespace(abort=lambda: ended.append(True))
    client: Any = SimpleNamespace(socket=None, context=SimpleNamespace(loop=None), connection=connection)
    session = Session(client)
    with caplog.at_level(logging.ERROR, "pyftpdlib"):
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            session.handle_error()
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [ZeroDivisionError]
    assert ended == [True]
