"""What lies between paramiko and a socket: reading ahead changes nothing but the number of reads."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from flashferry.devices import netmiko_driver
from flashferry.devices.netmiko_driver import READ_BYTES, ReadAhead, Transport
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
    monkeypatch.setattr(netmiko_driver, "CHECK_EVERY_S", 10 * PATIENCE_S)
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
