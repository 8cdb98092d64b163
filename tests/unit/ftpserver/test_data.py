"""What a client's two connections take."""

import socket
import time
from types import SimpleNamespace
from typing import Any

from flashferry.fileserver.protocol import IOLoop
from ftpserver.data import ImageChannel
from ftpserver.session import ImageSession

_MOST_SHARED = 30
"""Attributes for which objects of a class share a table in CPython; above, each has its own, of 1.6 kB here."""


def test_a_data_connection_has_no_table_of_attributes_of_its_own() -> None:
    """There is one for each copy."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop = IOLoop()
        session: Any = SimpleNamespace(
            ioloop=loop,
            log=None,
            log_exception=None,
            settings=SimpleNamespace(limits=SimpleNamespace(data_connect_s=60.0)),
        )
        assert len(vars(ImageChannel(ours, session))) <= _MOST_SHARED
        loop.close()


def test_a_session_has_no_table_of_attributes_of_its_own() -> None:
    """There is one for each client, and there may be thousands that wait."""
    limits = SimpleNamespace(commands_burst=50, commands_per_s=5.0)
    around = {"settings": SimpleNamespace(limits=limits), "tickets": SimpleNamespace(clock=time.monotonic)}
    kind: Any = type("Session", (ImageSession,), around)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()):
        ours, _ = listening.accept()
        loop = IOLoop()
        with ours:
            assert len(vars(kind(ours, None, loop))) <= _MOST_SHARED
        loop.close()
