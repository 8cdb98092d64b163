"""One serving process, several listeners, each with a protocol that is loaded by its name."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashferry.fileserver import (
    EventKind,
    FileServer,
    FileServerError,
    ListenerSettings,
    ServerSettings,
    ServerStartFailed,
    TicketRequest,
)
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S, until

_HERE = Path(__file__).parent


def _line_listener(greeting: str) -> ListenerSettings:
    return ListenerSettings(
        protocol="two_protocols:LineListener", listen_address="127.0.0.1", options={"greeting": greeting}
    )


def _settings(folder: Path, *listeners: ListenerSettings) -> ServerSettings:
    (folder / "a.bin").write_bytes(b"image")
    return ServerSettings(image_paths=(folder / "a.bin",), listeners=listeners)


class Client:
    """One connection, spoken on line by line."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._lines = self.connection.makefile("rw", encoding="ascii", newline="\n")

    def ask(self, line: str) -> str:
        self._lines.write(f"{line}\n")
        self._lines.flush()
        return self.read()

    def read(self) -> str:
        return self._lines.readline().rstrip()

    def close(self) -> None:
        self._lines.close()
        self.connection.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileServer]:
    """Three listeners in one process: FTP, and twice a protocol that it did not know."""
    monkeypatch.setenv("PYTHONPATH", str(_HERE))
    listeners = (ftp_listener(listen_address="127.0.0.1"), _line_listener("left"), _line_listener("right"))
    with FileServer(_settings(tmp_path, *listeners), restarts=1) as running:
        yield running
        assert not [note for note in running.notices if "internal error" in note], running.notices


def test_one_process_serves_them_all(server: FileServer) -> None:
    """Each listener has a port and its own options, and a ticket is good at any of them."""
    ticket = server.issue_ticket(TicketRequest(image_name="a.bin"))
    credentials = f"{ticket.username} {ticket.password}"
    ftp, left, right = (Client(port) for port in server.ports)
    assert ftp.read().startswith("220")
    assert [client.ask(credentials) for client in (left, right)] == ["left: come in", "right: come in"]
    assert right.ask("nobody nothing") == "right: no"
    assert ftp.ask(f"USER {ticket.username}\r") == "331 Password required."
    assert ftp.ask(f"PASS {ticket.password}\r") == "230 Logged in."
    assert server.port == server.ports[0]
    for client in (ftp, left, right):
        client.close()


def test_all_of_them_drain_and_the_last_transfer_ends_the_process(server: FileServer) -> None:
    """Who has nothing to fetch is sent away by each protocol in its own words; who has, keeps the process up."""
    ticket = server.issue_ticket(TicketRequest(image_name="a.bin"))
    ends: list[EventKind] = []
    server.events(lambda event: ends.append(event.kind))
    ftp, left, right = (Client(port) for port in server.ports)
    assert ftp.read().startswith("220")
    assert left.ask(f"{ticket.username} {ticket.password}") == "left: come in"
    assert right.ask("nobody nothing") == "right: no"
    assert server.drain() == 1
    assert ftp.read().startswith("421")
    assert right.read() == "no new sessions"
    for port in server.ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    assert EventKind.GONE not in ends
    left.close()
    until(lambda: EventKind.GONE in ends, "the end of the process")
    assert ends[-1] is EventKind.GONE
    assert server.ended_in_order
    for client in (ftp, right):
        client.close()


def test_stopping_ends_the_sessions_of_all(server: FileServer) -> None:
    """Each protocol is told why."""
    _, left, right = (Client(port) for port in server.ports)
    assert left.ask("nobody nothing") == "left: no"
    assert right.ask("nobody nothing") == "right: no"
    server.close()
    assert [left.read(), right.read(), left.read()] == ["the server was stopped", "the server was stopped", ""]
    for client in (_, left, right):
        client.close()


@pytest.mark.parametrize(
    ("protocol", "last_words"),
    [
        ("no_such_module:Listener", "No module named 'no_such_module'"),
        ("two_protocols:NoSuchName", "has no attribute 'NoSuchName'"),
    ],
)
def test_a_protocol_that_is_not_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, last_words: str
) -> None:
    """Nothing starts, and the sentence names what is missing."""
    monkeypatch.setenv("PYTHONPATH", str(_HERE))
    listener = ListenerSettings(protocol=protocol, listen_address="127.0.0.1")
    with pytest.raises(ServerStartFailed, match=last_words), FileServer(_settings(tmp_path, listener)):
        pass


def test_options_that_are_none_of_the_protocol_s_are_one_sentence(tmp_path: Path) -> None:
    """They are looked at by the protocol, before it serves anybody."""
    listener = ListenerSettings(
        protocol="ftpserver.protocol:FtpListener", listen_address="127.0.0.1", options={"passive_ports": "many"}
    )
    with pytest.raises(FileServerError, match="passive_ports"), FileServer(_settings(tmp_path, listener)):
        pass


def test_each_transport_has_the_port_of_its_listener(server: FileServer) -> None:
    """The first that serves it counts; one that is not served is a sentence with the names of those that are."""
    assert server.transports == ("ftp",)
    assert server.port_of("ftp") == server.ports[0]
    with pytest.raises(FileServerError, match=r"expected one that this server serves \(ftp\), found 'gopher'"):
        server.port_of("gopher")
