"""What lies between paramiko and a socket: reading ahead changes nothing but the number of reads."""

from __future__ import annotations

import os
import socket
import threading

import paramiko
import pytest
from paramiko.buffered_pipe import PipeTimeout

from flashferry.devices import ssh_client
from flashferry.devices.ssh_client import READ_BYTES, Packetizer, ReadAhead, ReceiveBuffer, Transport
from tests.patience import PATIENCE_S


def test_reading_ahead_hands_out_the_same_bytes() -> None:
    """Whatever pieces are asked for, the bytes come in their order, and the end comes behind the last one."""
    ours, theirs = socket.socketpair()
    sent = os.urandom(30 * READ_BYTES + 7)
    with ours, theirs:
        writer = threading.Thread(target=lambda: (theirs.sendall(sent), theirs.shutdown(socket.SHUT_WR)))
        writer.start()
        reader, got, sizes = ReadAhead(ours), b"", [16, 1, 4000, READ_BYTES + 5]
        while piece := reader.recv(size := sizes[len(got) % len(sizes)]):
            assert len(piece) <= size
            got += piece
        writer.join()
    assert got == sent


def test_reading_ahead_waits_only_where_nothing_is_left() -> None:
    """What was read ahead is handed out at once; behind it the socket's own time-out counts."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.01)
        theirs.sendall(b"abcdef")
        reader = ReadAhead(ours)
        assert reader.take(1) is None
        assert (reader.recv(2), reader.take(1), reader.take(9), reader.recv(9)) == (b"ab", b"c", None, b"def")
        with pytest.raises(TimeoutError):
            reader.recv(1)


def test_a_transport_that_sleeps_long_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing wakes the reading thread, which would not look around by itself for longer than is waited here."""
    monkeypatch.setattr(ssh_client, "CHECK_EVERY_S", 10 * PATIENCE_S)
    ours, theirs = socket.socketpair()
    with theirs:
        transport = Transport(ours)
        transport.sleep_long()
        theirs.sendall(b"SSH-2.0-silent\r\n")
        transport.start_client(event=threading.Event())
        assert transport.is_alive()
        transport.close()
        transport.join(PATIENCE_S)
        assert not transport.is_alive()


def test_a_reader_wakes_once_enough_has_come() -> None:
    """Pieces before wake it only together; what it then reads is all of them."""
    buffer, got = ReceiveBuffer(), []

    def read() -> None:
        buffer.await_bytes(4, PATIENCE_S)
        got.append(buffer.read(100, 0.0))

    reader = threading.Thread(target=read)
    reader.start()
    for piece in (b"a", "b", b"c", b"d"):
        buffer.feed(piece)
    reader.join(PATIENCE_S)
    assert got == [b"abcd"]


def test_a_reader_waits_no_longer_than_its_limit_and_for_nothing_once_closed() -> None:
    """Where less has come, the limit counts; where no more can come, nothing is waited for."""
    buffer = ReceiveBuffer()
    buffer.feed(b"ab")
    buffer.await_bytes(3, 0.01)
    buffer.feed(b"c")
    buffer.await_bytes(3, PATIENCE_S)
    assert buffer.read(100) == b"abc"
    with pytest.raises(PipeTimeout):
        buffer.read(1, 0.01)
    reader = threading.Thread(target=buffer.await_bytes, args=(1, 10 * PATIENCE_S))
    reader.start()
    buffer.close()
    reader.join(PATIENCE_S)
    assert not reader.is_alive()
    assert buffer.read(1) == b""


class _Server(paramiko.ServerInterface):
    """Lets anyone in, to a shell."""

    def check_auth_password(self, username: str, password: str) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED


def test_data_reach_their_channel_also_after_new_keys() -> None:
    """Each channel has its own bytes, in their order, and its own end; a change of keys between loses none."""
    ours, theirs = socket.socketpair()
    device, session = paramiko.Transport(theirs), Transport(ours, packetizer_class=Packetizer)
    try:
        device.add_server_key(paramiko.ECDSAKey.generate())
        device.start_server(server=_Server(), event=threading.Event())
        session.start_client(timeout=PATIENCE_S)
        session.auth_password("user", "word")
        channels = [session.open_session(timeout=PATIENCE_S) for _ in range(2)]
        ends = [device.accept(PATIENCE_S) for _ in range(2)]
        for number, end in enumerate(ends):
            end.sendall(f"before {number}, ")
        device.renegotiate_keys()
        for number, end in enumerate(ends):
            end.sendall(f"after {number}")
            end.close()
        got = [b"".join(iter(lambda one=one: one.recv(5), b"")) for one in channels]
    finally:
        session.close()
        device.close()
    assert got == [b"before 0, after 0", b"before 1, after 1"]
