"""The table of commands: what is shown of them in a log, and what none of them can do."""

import socket
from typing import Any

from flashferry.fileserver.protocol import IOLoop
from ftpserver.control import COMMANDS, masked_command
from ftpserver.data import Fifo
from ftpserver.session import ImageSession


def test_commands_are_masked_where_they_may_hold_secrets() -> None:
    """USER, PASS and everything unknown lose their argument; the rest is shown, without control characters."""
    assert masked_command("PASS", "secret") == "PASS ***"
    assert masked_command("USER", "name") == "USER ***"
    assert masked_command("HUNTER2SECRET", "x") == "HUNTER2S ***"
    assert masked_command("RETR", "a\x1b[31m.bin") == "RETR a?[31m.bin"
    assert len(masked_command("RETR", "x" * 5000)) < 120


def test_no_command_reaches_a_file_system() -> None:
    """Every command of the table works without a permission, that is without a path of the server's."""
    assert {command["perm"] for command in COMMANDS.values()} == {None}
    assert not {"STOR", "DELE", "LIST", "SITE", "STAT", "HELP"} & COMMANDS.keys()


def test_a_reply_to_who_was_taken_out_of_the_loop_is_sent_and_fails_nothing() -> None:
    """After QUIT behind a RETR: the library asked the loop for a descriptor that it had no more, and nobody closed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # As a listener makes its class, see `ftpserver.protocol.session_class`.
        kind = type("Session", (ImageSession,), {"tickets": None, "settings": None})
        session: Any = kind.__new__(kind)
        session.ioloop = IOLoop()
        session.socket, session._fileno = ours, ours.fileno()
        session.connected, session._closed = True, False
        session.ac_out_buffer_size = 4096
        session.producer_fifo = Fifo([b"425 No data connection came.\r\n"])
        # As it is where the reply before was sent in two pieces.
        session._wanted_io_events = session.ioloop.READ | session.ioloop.WRITE
        session.initiate_send()
        assert theirs.recv(100) == b"425 No data connection came.\r\n"
        session.ioloop.close()
