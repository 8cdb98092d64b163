"""What a listening socket hands on to its connections, on loopback."""

import socket
from collections.abc import Iterator

import pytest

from flashferry.fileserver.sockets import bound_listener, congestion_control, set_first_congestion_control


@pytest.fixture
def plain() -> Iterator[socket.socket]:
    with socket.socket() as made:
        yield made


@pytest.mark.parametrize("names", [("reno",), ("no-such-one", "reno")])
def test_connections_begin_with_the_first_that_the_kernel_grants(names: tuple[str, ...]) -> None:
    """An accepted connection has it before anything is sent: pacing that BBR turned on would stay on."""
    with bound_listener("127.0.0.1", 0, congestion_controls=names) as listener:
        listener.listen(1)
        with socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
            assert congestion_control(accepted) == "reno"


def test_where_none_is_granted_the_host_s_stays(plain: socket.socket) -> None:
    """Each refusal is told in words, and nothing breaks."""
    before = congestion_control(plain)
    (refusal,) = set_first_congestion_control(plain, ("no-such-one",))
    assert "no-such-one" in refusal
    assert congestion_control(plain) == before
