"""The data connection of FTP: what it takes."""

import socket
from types import SimpleNamespace
from typing import Any

from flashferry.fileserver.protocol import IOLoop
from ftpserver.data import ImageChannel

_MOST_SHARED = 30


def test_a_data_connection_has_no_table_of_attributes_of_its_own() -> None:
    """CPython lets objects of a class share their table of up to 30 attributes; above, each copy takes 1.3 kB more."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        loop = IOLoop()
        session: Any = SimpleNamespace(
            ioloop=loop,
            log=None,
            log_exception=None,
            settings=SimpleNamespace(limits=SimpleNamespace(data_connect_s=60.0)),
        )
        channel = ImageChannel(ours, session)
        assert len(vars(channel)) <= _MOST_SHARED
        loop.close()
