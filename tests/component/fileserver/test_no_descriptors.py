"""A serving process that has no descriptors left: who waits waits on, and is served when there is room again."""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flashferry.fileserver import FileServer, Limits, ServerSettings
from flashferry.httpserver import http_listener
from ftpserver import ftp_listener
from tests.component.benches import until_asleep
from tests.patience import PATIENCE_S, until

_LISTENERS = {"ftp": ftp_listener, "http": http_listener}
_ASK = {"ftp": b"", "http": b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n"}


@pytest.fixture(params=["ftp", "http"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FileServer]:
    """A server of one protocol, that is let have few sessions of one address before their login."""
    image = tmp_path / "image.bin"
    image.write_bytes(b"x")
    listener = _LISTENERS[request.param](listen_address="127.0.0.1")
    limits = Limits(anonymous_sessions_per_address=4)
    with FileServer(ServerSettings(image_paths=(image,), listeners=(listener,), limits=limits)) as found:
        yield found


def _descriptors(server: FileServer) -> set[int]:
    return {int(one.name) for one in Path(f"/proc/{server.pid}/fd").iterdir()}


def _connect(server: FileServer) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port_of(server.transports[0])), timeout=PATIENCE_S)
    connection.sendall(_ASK[server.transports[0]])
    return connection


def test_who_waits_is_served_when_there_is_room_again(server: FileServer) -> None:
    """The listening socket stays, and the loop does not spin meanwhile."""
    assert server.pid is not None
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    taken = _descriptors(server)
    first_free = next(number for number in range(len(taken) + 1) if number not in taken)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (first_free, hard))
    with _connect(server) as waiting:
        until_asleep(server.pid)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
        assert waiting.recv(100)
    with _connect(server) as later:
        assert later.recv(100)
    assert not server.notices


def test_those_turned_away_take_no_room_without_end(server: FileServer) -> None:
    """However many come at once, most are let go at once."""
    before = len(_descriptors(server))
    with ExitStack() as many:
        for each in [many.enter_context(_connect(server)) for _ in range(200)]:
            # Let in or turned away, it has its answer.
            assert each.recv(100)
        until(lambda: len(_descriptors(server)) - before < 100, "fewer descriptors")
