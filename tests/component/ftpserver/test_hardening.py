"""A stranger at the port: what he may not do, how little he can use up, and that the server serves on."""

import contextlib
import ftplib
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flashferry.core.values import replace
from flashferry.fileserver import FileServer, ServerSettings, TransferState
from ftpserver import ftp_listener
from tests.component.benches import IMAGE
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.soak

if TYPE_CHECKING:
    from conftest import Bench


def _raw(bench: "Bench") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", bench.server.port), timeout=PATIENCE_S)
    assert connection.recv(1000).startswith(b"220 ")
    return connection


def _until_closed(connection: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            received += piece
    return received


def _still_serves(bench: "Bench") -> None:
    with bench.login(bench.ticket()) as client:
        assert bench.fetch(client) == bench.content


def test_the_banner_tells_nothing(bench: "Bench") -> None:
    """Neither name nor version of any software greets a stranger."""
    with socket.create_connection(("127.0.0.1", bench.server.port), timeout=PATIENCE_S) as connection:
        assert connection.recv(1000) == b"220 FTP server ready.\r\n"


_NO_SUCH_COMMANDS = """STOR x|APPE x|STOU|DELE x|MKD x|RMD /|RNFR x|SITE CHMOD 777 x|LIST|NLST|MLSD|MLST|STAT|STAT /
HELP|REIN|CDUP|XCWD /|MDTM x|MFMT 20200101000000 x|OPTS x"""


def _replies(client: ftplib.FTP, commands: list[str]) -> dict[str, str]:
    replies = {}
    for command in commands:
        client.putcmd(command)
        replies[command] = client.getmultiline()
    return replies


def test_commands_that_write_list_or_tell_do_not_exist(bench: "Bench") -> None:
    """With a ticket or without these are 502, for the RFCs have them, and the image directory is as it was."""
    before = sorted(path.name for path in bench.directory.iterdir())
    with bench.login(bench.ticket()) as client:
        replies = _replies(client, re.split(r"[|\n]", _NO_SUCH_COMMANDS))
    with contextlib.closing(bench.connect()) as stranger:
        assert _replies(stranger, list(replies)) == replies
    assert set(replies.values()) == {"502 Command not implemented."}, replies
    assert sorted(path.name for path in bench.directory.iterdir()) == before


def test_space_that_nobody_needs_is_allocated_by_doing_nothing(bench: "Bench") -> None:
    """ALLO is 202, for RFC 959 4.1.3 makes it a NOOP here and has no 502 for it; a STOR behind it is 502 as ever."""
    with bench.login(bench.ticket()) as client:
        replies = _replies(client, ["ALLO 1000", "ALLO 1000 R 80", "STOR x"])
        assert [reply[:3] for reply in replies.values()] == ["202", "202", "502"], replies
        assert bench.fetch(client) == bench.content


def test_nothing_but_login_before_login(bench: "Bench") -> None:
    """Every other command is 530 until a ticket was shown."""
    preparing = ["PASV", "EPSV", "PORT 127,0,0,1,4,1", "TYPE I", "REST 1", "ALLO 1"]
    commands = [*preparing, "RETR x", "SIZE x", "PWD", "CWD /", "ABOR"]
    with contextlib.closing(bench.connect()) as client:
        replies = _replies(client, commands)
    assert set(replies.values()) == {"530 Log in with USER and PASS first."}, replies


def test_there_is_no_tls_to_inject_into(bench: "Bench") -> None:
    """AUTH is unknown before and after login and FEAT does not name it: no command can wait behind a handshake."""
    with contextlib.closing(bench.connect()) as client:
        assert set(_replies(client, ["AUTH TLS", "AUTH SSL"]).values()) == {"500 Command not understood."}
        assert "AUTH" not in client.sendcmd("FEAT")


def test_there_is_no_directory_to_walk_to(bench: "Bench") -> None:
    """CWD knows the root alone and PWD always names it."""
    with bench.login(bench.ticket()) as client:
        replies = _replies(client, [f"CWD {path}" for path in ("..", "/etc", "../..", "images", "//etc")])
        assert set(replies.values()) == {"550 Not available."}, replies
        assert client.sendcmd("CWD /").startswith("250")
        assert client.pwd() == "/"


def test_the_server_connects_to_nobody_but_its_client(bench: "Bench") -> None:
    """Other addresses and privileged ports are refused: no bounce (RFC 2577)."""
    commands = ["PORT 127,0,0,9,100,1", "EPRT |1|127.0.0.9|25601|", "PORT 127,0,0,1,0,22", "EPRT |1|127.0.0.1|22|"]
    with bench.login(bench.ticket()) as client:
        replies = _replies(client, commands)
    assert {reply[:3] for reply in replies.values()} == {"501"}, replies


def test_malformed_addresses_are_refused(bench: "Bench") -> None:
    """What cannot be parsed is a 5xx and the session goes on."""
    commands = ["PORT 1,2", "PORT 127,0,0,1,999999,1", "EPRT |", "EPRT |9|::|1|", "EPSV x", "PORT ,,,,,", "PORT x"]
    with bench.login(bench.ticket()) as client:
        replies = _replies(client, commands)
        assert {reply[:3] for reply in replies.values()} <= {"501", "522"}, replies
        assert bench.fetch(client) == bench.content


def test_a_foreign_data_connection_gets_nothing(bench: "Bench") -> None:
    """A stranger on the passive port is dropped, and the client's own connection still works."""
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        client.sendcmd("TYPE I")
        host, port = client.makepasv()
        with socket.create_connection((host, port), timeout=PATIENCE_S, source_address=("127.0.0.44", 0)) as stranger:
            assert _until_closed(stranger) == b""
        with socket.create_connection((host, port), timeout=PATIENCE_S) as data:
            client.sendcmd(f"RETR {bench.image_name}")
            assert bench.read_all(data) == bench.content
        assert client.voidresp().startswith("226")


def test_a_stranger_on_a_passive_port_is_told_once(bench: "Bench") -> None:
    """However often it knocks: the log is not a stranger's to fill."""
    told: list[str] = []
    bench.server.events(lambda event: told.append(event.text))
    with bench.login(bench.ticket()) as client:
        place = client.makepasv()
        for _ in range(20):
            with socket.create_connection(place, timeout=PATIENCE_S, source_address=("127.0.0.44", 0)) as stranger:
                _until_closed(stranger)
        client.sendcmd("NOOP")
    bench.server.drain()
    assert bench.settles(lambda: bool(bench.server.gone))
    # And once more as the reason why the client left without its image.
    assert sum("foreign address 127.0.0.44" in text for text in told) == 2


@pytest.mark.parametrize("word", ["I", "L 8", "L8", "l8", "A", "A N"])
def test_every_type_of_eight_bits_is_taken(bench: "Bench", word: str) -> None:
    """An image is sent unchanged in any of them."""
    with bench.login(bench.ticket()) as client:
        assert client.sendcmd(f"TYPE {word}").startswith("200")


@pytest.mark.parametrize("bench", [{"listener": {"listen_address": "::"}}], indirect=True)
def test_an_ipv4_client_of_a_dual_stack_server_is_an_ipv4_client(bench: "Bench") -> None:
    """EPSV 1 and EPRT 1 are its commands, 2 is 522; over IPv6 it is the other way round, and PASV has no room."""
    with bench.login(bench.ticket()) as client:
        assert client.sendcmd("EPSV 1").startswith("229")
        assert client.sendcmd("EPRT |1|127.0.0.1|5000|").startswith("200")
        replies = _replies(client, ["EPSV 2", "EPRT |2|::1|5000|"])
        assert set(replies.values()) == {"522 Network protocol not supported, use (1)"}
        client.set_pasv(False)
        client.af = socket.AF_INET
        assert bench.fetch(client) == bench.content
    ticket = bench.ticket()
    with ftplib.FTP() as client:
        client.connect("::1", bench.server.port, timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        assert client.sendcmd("EPSV 2").startswith("229")
        replies = _replies(client, ["EPSV 1", "EPRT |1|127.0.0.1|5000|"])
        assert set(replies.values()) == {"522 Network protocol not supported, use (2)"}
        assert _replies(client, ["PASV"])["PASV"].startswith("425")
        client.set_pasv(False)
        assert bench.fetch(client) == bench.content


def test_an_unread_flood_of_commands_is_cut_off(bench: "Bench") -> None:
    """A megabyte of pipelined commands whose replies nobody reads ends the session within its bounds."""
    with _raw(bench) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(b"NOOP\r\n" * 170_000)
        replies = _until_closed(connection)
    assert replies.count(b"200") <= 200
    _still_serves(bench)


@pytest.mark.parametrize("bench", [{"limits": {"commands_burst": 1_000_000}}], indirect=True)
def test_unread_replies_do_not_pile_up(bench: "Bench") -> None:
    """Where commands are not limited, the replies a client leaves unread are: it is cut off."""
    _still_serves(bench)
    before = bench.descriptors()
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
        connection.settimeout(PATIENCE_S)
        connection.connect(("127.0.0.1", bench.server.port))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(b"NOOP\r\n" * 20_000)
        # Not a byte is read here, and the connection stays open on this side.
        assert bench.settles(lambda: bench.descriptors() <= before)
    _still_serves(bench)


@pytest.mark.parametrize("bench", [{"limits": {"commands_burst": 10, "commands_per_s": 0.1}}], indirect=True)
def test_too_many_commands_end_the_session(bench: "Bench") -> None:
    """The eleventh command at once is answered 421."""
    with contextlib.closing(bench.connect()) as client:
        for _ in range(10):
            client.sendcmd("NOOP")
        with pytest.raises(ftplib.error_temp, match="421 Too many commands"):
            client.sendcmd("NOOP")


@pytest.mark.parametrize(
    "payload", [b"A" * 100_000, b"\xff\xf4\xf2" * 2000, bytes(5000)], ids=["text", "telnet", "zeros"]
)
def test_a_line_without_end_ends_the_session(bench: "Bench", payload: bytes) -> None:
    """An overlong line gets one reply and the session is closed, so its rest is never taken for a command."""
    with _raw(bench) as connection:
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            connection.sendall(payload)
        assert _until_closed(connection) in (b"500 Command too long.\r\n", b"")
    _still_serves(bench)


@pytest.mark.parametrize("bench", [{"limits": {"login_deadline_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_login_has_a_deadline(bench: "Bench") -> None:
    """A session that does not log in is closed, also when it keeps talking."""
    with _raw(bench) as connection:
        connection.sendall(b"NOOP\r\nUSER x\r\n")
        bench.pass_time(PATIENCE_S)
        assert _until_closed(connection).endswith(b"421 Login took too long.\r\n")


@pytest.mark.parametrize("bench", [{"limits": {"anonymous_sessions_per_address": 3}}], indirect=True)
def test_an_address_may_not_fill_the_house_without_logging_in(bench: "Bench") -> None:
    """Sessions before login are capped per address; logged-in ones are not counted, and others still get in."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(contextlib.closing(bench.login(bench.ticket())))
        for _ in range(3):
            stack.enter_context(contextlib.closing(bench.connect()))
        with pytest.raises(ftplib.error_temp, match="421"):
            bench.connect()
        stack.enter_context(contextlib.closing(bench.connect("127.0.0.77")))


@pytest.mark.parametrize("bench", [{"limits": {"sessions": 2}}], indirect=True)
def test_sessions_are_capped_in_total_and_given_back(bench: "Bench") -> None:
    """The third session is turned away, and gets in once another one has gone."""
    ticket = bench.ticket()
    first, second = bench.connect(), bench.connect()
    with pytest.raises(ftplib.error_temp, match="421"):
        bench.connect()
    first.quit()
    second.quit()
    with bench.login(ticket) as client:
        assert bench.fetch(client) == bench.content


@pytest.mark.parametrize("bench", [{"limits": {"idle_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_an_idle_session_is_closed(bench: "Bench") -> None:
    """A client that logs in and sends nothing more is sent away."""
    with contextlib.closing(bench.login(bench.ticket())) as client:
        bench.pass_time(PATIENCE_S)
        assert client.getline().startswith("421")
        assert client.sock is not None
        assert _until_closed(client.sock) == b""


@pytest.mark.parametrize("bench", [{"listener": {"passive_ports": (20990, 20990)}}], indirect=True)
def test_the_passive_range_is_never_left(bench: "Bench") -> None:
    """With its only port taken PASV is 425, and the ticket says why; free again it is used."""
    first, second = bench.ticket(), bench.ticket()
    with bench.login(first) as holder, bench.login(second) as other:
        assert holder.makepasv()[1] == 20990
        with pytest.raises(ftplib.error_temp, match="425 No free passive port"):
            other.makepasv()
        blocked = bench.until(second, lambda progress: bool(progress.last_error))
        assert "no free port in the passive range" in blocked.last_error
        assert bench.fetch(holder) == bench.content
        assert bench.fetch(other) == bench.content


SHARED = (20980, 20987)


@pytest.mark.parametrize("bench", [{"listener": {"passive_ports": SHARED}}], indirect=True)
def test_two_servers_share_a_passive_range(bench: "Bench", tmp_path: Path) -> None:
    """Two runs without a depot, say: at the same moment each session has a port of its own, up to the last one."""
    listener = ftp_listener(listen_address="127.0.0.1", passive_ports=SHARED)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / IMAGE).write_bytes(bench.content)
    settings = ServerSettings(image_paths=(tmp_path / "other",), listeners=(listener,))
    with FileServer(settings) as other_server, contextlib.ExitStack() as sessions:
        other = replace(bench, server=other_server)
        clients = [sessions.enter_context(one.login(one.ticket())) for one in (bench, other) for _ in range(4)]
        together = threading.Barrier(len(clients))

        def passive(client: ftplib.FTP) -> int:
            together.wait()
            return client.makepasv()[1]

        with ThreadPoolExecutor(len(clients)) as threads:
            assert sorted(threads.map(passive, clients)) == list(range(SHARED[0], SHARED[1] + 1))
        assert all(bench.fetch(client) == bench.content for client in clients)


@pytest.mark.parametrize("bench", [{"limits": {"data_connect_s": PATIENCE_S}, "clock": True}], indirect=True)
def test_a_passive_port_nobody_comes_to_is_given_up(bench: "Bench") -> None:
    """The client gets 425, the ticket fails with the port it did not reach."""
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        port = bench.never_connect(client)
        bench.pass_time(PATIENCE_S)
        assert client.getline().startswith("425")
        failed = bench.final(ticket)
        assert failed.last_error == f"no data connection: the client did not reach port {port} within 120 s"
        assert bench.fetch_active(client) == bench.content


def test_a_port_that_refuses_is_425(bench: "Bench") -> None:
    """Active mode to a closed port is answered, and the ticket says whose port refused."""
    ticket = bench.ticket()
    with socket.create_server(("127.0.0.1", 0)) as placeholder:
        port = placeholder.getsockname()[1]
    with bench.login(ticket) as client:
        assert client.sendport("127.0.0.1", port).startswith("200")
        assert client.sendcmd(f"RETR {bench.image_name}").startswith("150")
        with pytest.raises(ftplib.error_temp, match="425"):
            client.voidresp()
        failed = bench.until(ticket, lambda progress: bool(progress.last_error))
        assert failed.last_error == f"no data connection: 127.0.0.1 port {port} refused it"
        assert failed.state is TransferState.FAILED
        assert bench.fetch(client) == bench.content


@pytest.mark.parametrize(
    "bench",
    [
        {
            "listener": {
                "masquerade_address": "192.0.2.7",
                "masquerade_networks": (("10.0.0.0/8", "192.0.2.8"), ("127.0.0.9/32", "192.0.2.9")),
            }
        }
    ],
    indirect=True,
)
def test_nat_addresses_are_named_by_the_client_s_network(bench: "Bench") -> None:
    """PASV names the address that reaches us from where the client is."""
    with bench.login(bench.ticket(), source="127.0.0.9") as client:
        assert "(192,0,2,9," in client.sendcmd("PASV")
    with bench.login(bench.ticket()) as client:
        assert "(192,0,2,7," in client.sendcmd("PASV")


def test_half_closed_and_reset_sessions_leave_nothing(bench: "Bench") -> None:
    """Clients that vanish in every way leave no descriptor behind in the server."""
    _still_serves(bench)
    before = bench.descriptors()
    for ending in ("reset", "half", "pasv", "close") * 5:
        client = bench.login(bench.ticket())
        assert client.sock is not None
        if ending == "pasv":
            client.makepasv()
        elif ending == "half":
            client.sock.shutdown(socket.SHUT_WR)
            assert client.sock.recv(10) == b""
        elif ending == "reset":
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
    _still_serves(bench)
    assert bench.settles(lambda: bench.descriptors() <= before), (before, bench.descriptors())


def test_pipelined_guesses_are_not_answered_faster(bench: "Bench") -> None:
    """Guesses sent in one packet count one by one: what follows a refused login in the packet is dropped."""
    with _raw(bench) as connection:
        connection.sendall(b"USER a\r\nPASS b\r\n" * 3)
        received = connection.recv(1000)
        while b"530" not in received:
            received += connection.recv(1000)
        connection.sendall(b"QUIT\r\n")
        received += _until_closed(connection)
    assert received.count(b"530") == 1
    assert received.endswith(b"221 Goodbye.\r\n")
