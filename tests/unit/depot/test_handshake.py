"""The socket of a depot: what may stand in its place, how long its path is, and who is behind one."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing
from multiprocessing.connection import Connection

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.depot.handshake import DepotSocket, accept_greeting, connect, user_name
from flashferry.depot.paths import DepotNotRunning
from tests.patience import PATIENCE_S


def test_what_a_dead_depot_left_is_taken_over(tmp_path):
    """A socket that nobody serves; at its end the new one's is gone."""
    path = tmp_path / "depot.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with closing(DepotSocket(path)), pytest.raises(ConfigInvalid, match="another depot serves this socket"):
        DepotSocket(path)
    assert not path.exists()


def test_nothing_else_is_removed(tmp_path):
    """A file in its place is somebody's."""
    path = tmp_path / "depot.sock"
    path.write_text("mine")
    with pytest.raises(ConfigInvalid, match="expected a socket or nothing"):
        DepotSocket(path)
    assert path.read_text() == "mine"


def test_a_path_that_no_socket_can_have_is_told(tmp_path):
    """By whoever listens and whoever knocks, with the figure."""
    path = tmp_path / ("x" * 120)
    for enter in (lambda: DepotSocket(path), lambda: connect(path, "stage")):
        with pytest.raises(ConfigInvalid, match="at most 107 bytes"):
            enter()


def test_where_nobody_is_it_is_said_so(tmp_path):
    """Another thing than a depot that is to be complained of."""
    with pytest.raises(DepotNotRunning, match="No such file"):
        connect(tmp_path / "depot.sock", "stage")


@pytest.mark.parametrize("words", [b"", b"220 FTP server ready\r\n", b"\x00\x00\x00\x01\xc0"])
def test_what_is_no_depot_is_not_taken_for_one(tmp_path, words):
    """It hangs up, speaks another language, or says something else than a greeting."""
    path = tmp_path / "depot.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def speak():
            line, _ = listening.accept()
            with line:
                line.sendall(words)
                line.shutdown(socket.SHUT_WR)
                line.recv(1000)

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        with pytest.raises((DepotNotRunning, ConfigInvalid), match=r"depot "):
            connect(path, "stage")
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x01\xc0"])
def test_who_is_no_run_is_sent_away(words):
    """Without a word where they are none of ours."""
    ours, theirs = socket.socketpair()
    with theirs, closing(Connection(ours.detach())) as connection:
        theirs.sendall(words)
        theirs.shutdown(socket.SHUT_WR)
        assert accept_greeting(connection) is None


def test_users_have_names():
    """Or numbers where they have none."""
    assert user_name(0) == "root"
    assert user_name(4_000_111) == "4000111"
    assert user_name(os.geteuid())
