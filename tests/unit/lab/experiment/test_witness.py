"""The kernel's answers about sockets are read by their lengths."""

import socket
import struct

import pytest

from flashferry.lab.experiment.witness import ESTABLISHED, Monitor, messages, parse
from flashferry.tcp.tcp_info import parse_tcp_info


def _attribute(kind: int, value: bytes) -> bytes:
    raw = struct.pack("=HH", 4 + len(value), kind) + value
    return raw.ljust((len(raw) + 3) & ~3, b"\0")


def _body(*attributes: bytes) -> bytes:
    identity = struct.pack("!HH", 40001, 9) + socket.inet_aton("198.18.0.1").ljust(16, b"\0")
    identity += socket.inet_aton("198.18.1.11").ljust(16, b"\0") + bytes(12)
    return bytes((2, 4, 0, 0)) + identity + bytes(20) + b"".join(attributes)


def test_a_connection_is_read_with_its_attributes() -> None:
    """Ports, the peer, the state, the congestion control and the raw TCP_INFO are told apart."""
    found = parse(_body(_attribute(9, b"?"), _attribute(4, b"cubic\0"), _attribute(2, b"x" * 104)))
    assert (found.state, found.local_port, found.peer_address, found.peer_port) == (4, 40001, "198.18.1.11", 9)
    assert (found.control, found.raw_info) == ("cubic", b"x" * 104)


def test_a_message_without_attributes_says_nothing_more() -> None:
    """A kernel that tells neither gives empty values, not an error."""
    found = parse(_body())
    assert (found.control, found.raw_info) == ("", b"")


def test_messages_are_split_at_their_padded_lengths() -> None:
    """Each message begins at a multiple of four."""
    answer = struct.pack("=IHHII", 19, 20, 0, 1, 0) + b"abc\0" + struct.pack("=IHHII", 20, 3, 0, 1, 0) + bytes(4)
    assert list(messages(answer)) == [(20, b"abc"), (3, bytes(4))]


def test_the_kernel_tells_of_a_connection_of_ours() -> None:
    """A live connection is listed with the TCP_INFO that getsockopt gives."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        monitor = Monitor()
        try:
            port = client.getsockname()[1]
            seen = next(each for each in monitor.connections() if each.peer_port == port)
        except OSError as error:
            pytest.skip(f"no sock_diag here: {error}")
        finally:
            monitor.close()
            accepted.close()
        assert (seen.state, seen.local_port) == (ESTABLISHED, listener.getsockname()[1])
        assert parse_tcp_info(seen.raw_info).snd_mss_bytes > 0
        assert seen.control
