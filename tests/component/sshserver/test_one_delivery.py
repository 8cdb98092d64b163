"""One ticket, one delivery: clients that fetch with the same ticket at the same moment, each by another process."""

import asyncio
import contextlib
import ftplib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncssh
import pytest

from flashferry.fileserver import TransferState
from tests.component.sshserver.conftest import running
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

    from flashferry.fileserver import Ticket

_ROUNDS = 5


def _by_ftp(bench: "Bench", ticket: "Ticket", ready: Callable[[], Any]) -> bytes:
    got: list[bytes] = []
    with contextlib.closing(ftplib.FTP()) as client, contextlib.suppress(ftplib.Error, OSError, EOFError):
        client.connect("127.0.0.1", bench.server.port_of("ftp"), timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        ready()
        client.retrbinary(f"RETR {bench.image_name}", got.append)
    return b"".join(got)


def _by_sftp(bench: "Bench", ticket: "Ticket", ready: Callable[[], Any]) -> bytes:
    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection, connection.start_sftp_client() as client:
            ready()
            async with client.open(bench.image_name, "rb") as file:
                return bytes(await file.read())

    return _ssh(fetch)


def _by_scp(bench: "Bench", ticket: "Ticket", ready: Callable[[], Any]) -> bytes:
    async def fetch() -> bytes:
        async with await bench.connect(ticket) as connection:
            ready()
            sink = await bench.sink(connection)
            await sink.header()
            body = await sink.body(len(bench.content))
            sink.say()
            await sink.process.wait_closed()
            return body[:-1]

    return _ssh(fetch)


def _ssh(fetch: Callable[[], Any]) -> bytes:
    # A copy that gave way ends with its connection.
    with contextlib.suppress(asyncssh.Error, OSError, asyncio.IncompleteReadError, BrokenPipeError):
        return bytes(asyncio.run(asyncio.wait_for(fetch(), PATIENCE_S)))
    return b""


@pytest.mark.parametrize("size", [1_000, 20_000, 200_000])
def test_of_clients_that_race_over_two_processes_one_has_the_image(tmp_path: Path, host_keys: Path, size: int) -> None:
    """By FTP against SCP and against SFTP; who is not let on gets less than the whole of it."""
    with running(tmp_path, host_keys, ftp=True, size=size) as bench:
        for by_ssh in (_by_scp, _by_sftp) * _ROUNDS:
            ticket = bench.ticket()
            start = threading.Barrier(2, timeout=PATIENCE_S)
            with ThreadPoolExecutor(2) as pool:
                racing = [pool.submit(fetch, bench, ticket, start.wait) for fetch in (_by_ftp, by_ssh)]
                got = [each.result(PATIENCE_S) for each in racing]
            bench.until(ticket, lambda seen: seen.state is TransferState.DELIVERED)
            assert sorted(len(data) == size for data in got) == [False, True], [len(data) for data in got]
