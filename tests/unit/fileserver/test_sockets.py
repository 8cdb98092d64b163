"""What a listening socket hands on to its connections, on loopback."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from flashferry.fileserver.errors import ServerStartFailed
from flashferry.fileserver.sockets import congestion_control, listening_socket, set_first_congestion_control


@pytest.fixture
def plain() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


@pytest.mark.parametrize("names", [("reno",), ("no-such-one", "reno")])
def test_connections_begin_with_the_first_that_the_kernel_grants(names: tuple[str, ...]) -> None:
    """An accepted connection has it before anything is sent: pacing that BBR turned on would stay on."""
    with (
        listening_socket("127.0.0.1", (0,), congestion_controls=names) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert congestion_control(accepted) == "reno"


def test_where_none_is_granted_the_host_s_stays(plain: socket.socket) -> None:
    """Each refusal is told in words, and nothing breaks."""
    before = congestion_control(plain)
    (refusal,) = set_first_congestion_control(plain, ("no-such-one",))
    assert "no-such-one" in refusal
    assert congestion_control(plain) == before


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        return [held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1] for _ in range(count)]


def test_servers_begun_at_once_have_a_port_each() -> None:
    """Of eight that want the same ports at the same moment each gets one, and none is another's."""
    together = threading.Barrier(8)

    def listening(ports: list[int]) -> socket.socket:
        together.wait()
        return listening_socket("127.0.0.1", ports)

    with ThreadPoolExecutor(8) as threads:
        for _ in range(20):
            ports = free_ports(8)
            with ExitStack() as held:
                found = [held.enter_context(one) for one in threads.map(listening, [[*ports, 0]] * 8)]
                assert len({one.getsockname()[1] for one in found}) == 8


def test_a_port_that_is_had_is_kept() -> None:
    """From the first moment: Linux would let another socket be bound to a port that nobody listens at yet."""
    with listening_socket("127.0.0.1", (0,)) as first:
        port = first.getsockname()[1]
        with pytest.raises(ServerStartFailed, match=f"port {port}: Address already in use"):
            listening_socket("127.0.0.1", (port,))


def test_the_last_port_says_why_none_is_to_be_had() -> None:
    """And where the address is not ours, no port helps."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        first, last = (taken.getsockname()[1] for taken in (one, other))
        with pytest.raises(ServerStartFailed, match=f"port {last}: Address already in use"):
            listening_socket("127.0.0.1", (first, last))
    with pytest.raises(ServerStartFailed, match="port 0: Cannot assign requested address"):
        listening_socket("192.0.2.1", (first, 0))
