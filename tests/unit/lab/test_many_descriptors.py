"""A process of a thousand devices has descriptors that select(2) does not take."""

from __future__ import annotations

import fcntl
import resource
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from flashferry.lab.standin.ftp_client import await_call
from tests.patience import PATIENCE_S

BEYOND_SELECT = 1024


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= BEYOND_SELECT + 1,
    reason="needs more open files: ulimit -n 4096",
)
def test_a_call_is_awaited_whatever_the_descriptor():
    """Active FTP listens for the server: the wait ends when the time is up, and when the server calls."""
    with socket.create_server(("127.0.0.1", 0)) as first:
        number = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, BEYOND_SELECT)
        with socket.socket(fileno=number) as listener:
            await_call(listener, 0.05)
            with ThreadPoolExecutor(1) as pool, socket.create_connection(listener.getsockname()):
                pool.submit(await_call, listener, 2 * PATIENCE_S).result(PATIENCE_S)
