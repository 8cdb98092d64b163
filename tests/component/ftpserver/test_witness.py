"""What we read of a connection against what the operating system's own tool says."""

import re
import shutil
import socket
import subprocess

import pytest

from flashferry.fileserver import sockets
from tests.patience import PATIENCE_S


@pytest.fixture
def pair() -> "tuple[socket.socket, socket.socket]":
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert sockets.save_syn(listener)
        client = socket.create_connection(listener.getsockname(), timeout=PATIENCE_S)
        accepted, _ = listener.accept()
    yield client, accepted
    client.close()
    accepted.close()


def test_tcp_info_agrees_with_ss(pair: "tuple[socket.socket, socket.socket]") -> None:
    """Segment size, window, scales, and byte counts read from TCP_INFO are those `ss -tin` prints."""
    if shutil.which("ss") is None:
        pytest.skip("ss (iproute2) is not installed")
    client, accepted = pair
    accepted.sendall(b"x" * 200_000)
    received = 0
    while received < 200_000:
        received += len(client.recv(65536))
    port = accepted.getpeername()[1]
    shown = subprocess.run(
        ["ss", "-tinH", "state", "established", "dst", f"127.0.0.1:{port}"], capture_output=True, text=True, check=True
    ).stdout
    info = sockets.read_info(accepted)
    assert info is not None
    ours = {
        "mss": info.snd_mss_bytes,
        "cwnd": info.snd_cwnd_segments,
        "bytes_acked": info.bytes_acked,
        "bytes_sent": info.bytes_sent,
        "data_segs_out": info.data_segs_out,
        "segs_in": info.segs_in,
        "pmtu": info.pmtu_bytes,
    }
    theirs = {name: int(match.group(1)) for name in ours if (match := re.search(rf"\b{name}:(\d+)", shown))}
    assert theirs, shown
    assert {name: ours[name] for name in theirs} == theirs
    scales = re.search(r"wscale:(\d+),(\d+)", shown)
    assert scales is not None
    assert info.peer_window_scale == int(scales.group(1))
    assert sockets.congestion_control(accepted) in shown.split()


def test_the_syn_is_kept_once(pair: "tuple[socket.socket, socket.socket]") -> None:
    """The SYN of an accepted connection is read once and then gone; the client's side has none."""
    client, accepted = pair
    syn = sockets.saved_syn(accepted)
    assert syn is not None
    assert syn.ip_version == 4
    assert syn.mss_bytes
    assert sockets.saved_syn(accepted) is None
    assert sockets.saved_syn(client) is None


def test_caps_are_set_read_back_and_lifted(pair: "tuple[socket.socket, socket.socket]") -> None:
    """A cap beyond 32 bits comes back exactly, and None lifts it."""
    _, accepted = pair
    assert sockets.cap(accepted) is None
    for value in (125_000, 6_250_000_000):
        assert sockets.set_cap(accepted, value)
        assert sockets.cap(accepted) == value
    assert sockets.set_cap(accepted, None)
    assert sockets.cap(accepted) is None


def test_an_unknown_congestion_control_is_refused_in_words(pair: "tuple[socket.socket, socket.socket]") -> None:
    """ENOENT becomes the sentence that helps, and what was in force stays."""
    _, accepted = pair
    before = sockets.congestion_control(accepted)
    refusal = sockets.set_congestion_control(accepted, "nosuchcc")
    assert refusal == "nosuchcc is not in this kernel (modprobe tcp_nosuchcc)"
    assert sockets.congestion_control(accepted) == before


def test_a_closed_socket_reads_as_nothing() -> None:
    """Readings of a socket that is gone are None, never an exception."""
    gone = socket.socket()
    gone.close()
    assert sockets.read_info(gone) is None
    assert sockets.saved_syn(gone) is None
    assert sockets.cap(gone) is None
    assert not sockets.set_cap(gone, 1000)


def test_marks_and_limits_are_accepted(pair: "tuple[socket.socket, socket.socket]") -> None:
    """DSCP, keepalive, unacknowledged limit and unsent limit read back as set."""
    _, accepted = pair
    assert sockets.set_dscp(accepted, 8)
    assert accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 32
    assert sockets.set_keepalive(accepted)
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
    assert sockets.set_unacked_limit(accepted, 60.5)
    assert accepted.getsockopt(socket.IPPROTO_TCP, 18) == 60_500
    assert sockets.set_notsent_lowat(accepted, 4096)
    assert accepted.getsockopt(socket.IPPROTO_TCP, 25) == 4096
