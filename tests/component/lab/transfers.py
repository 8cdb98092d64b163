"""Bytes over TCP from one namespace of a world to another, which the tests and the held figures of sites share."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from flashferry.lab.namespaces import in_namespace
from flashferry.lab.world import World
from tests.patience import PATIENCE_S

Where = Callable[[], AbstractContextManager[None]]


def at_site(world: World, site: str) -> Where:
    """Return what enters the namespace of a site's devices."""
    pid = world.site_pids[[each.name for each in world.sites].index(site)]
    return lambda: in_namespace(pid)


def fetch(server: tuple[Where, str], client: tuple[Where, str], size_bytes: int) -> tuple[int, str]:
    """Have a client fetch bytes by TCP; return how many it got, and from which address the server saw it come."""
    with server[0]():
        listener = socket.create_server((server[1], 0))
    with client[0]():
        reader = socket.create_connection(listener.getsockname(), PATIENCE_S, source_address=(client[1], 0))
    reader.settimeout(PATIENCE_S)
    seen: list[str] = []

    def serve() -> None:
        listener.settimeout(PATIENCE_S)
        connection, peer = listener.accept()
        seen.append(peer[0])
        with connection:
            connection.sendall(bytes(size_bytes))

    with listener, reader:
        thread = threading.Thread(target=serve)
        thread.start()
        got = sum(len(piece) for piece in iter(lambda: reader.recv(65536), b""))
        thread.join()
    return got, seen[0]
