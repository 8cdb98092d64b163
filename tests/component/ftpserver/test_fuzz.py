"""Commands no client would send: the server answers in order, gives nothing away, and serves on.

FLASHFERRY_FUZZ_EXAMPLES sets how many examples each test takes; docs/server.md has the result of a long run.
"""

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.fileserver import FileServer, FixedLogin, Limits, ServerSettings, TicketRequest
from ftpserver import ftp_listener
from tests.patience import PATIENCE_S
from tests.some import some

pytestmark = pytest.mark.soak

_SECRET = b"bytes nobody may see without a ticket " * 100
_KNOWN = b"USER PASS RETR SIZE PASV EPSV PORT EPRT REST ABOR CWD PWD TYPE NOOP FEAT SYST MODE STRU QUIT"
_WORDS = st.sampled_from([*_KNOWN.split(), b"SITE", b"STAT", b"xSTAT", b"\xff\xf4\xffABOR", b"", b" "])
_ARGUMENTS = st.one_of(
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\r\n", b"")),
    st.sampled_from(b"image.bin /image.bin ../image.bin 127,0,0,1,0,1 |1|127.0.0.1|9| I A 0".split()),
    st.integers().map(lambda number: str(number).encode()),
)
_EXAMPLES = int(os.environ.get("FLASHFERRY_FUZZ_EXAMPLES", "60"))
_FIXED = b"USER lab\r\nPASS Bench-2026.word\r\n"
_COMMANDS = st.lists(st.tuples(_WORDS, _ARGUMENTS).map(lambda pair: pair[0] + b" " + pair[1]), max_size=30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileServer]:
    image: Path = tmp_path_factory.mktemp("images") / "image.bin"
    image.write_bytes(_SECRET)
    limits = Limits(failed_login_delay_s=0.001, failed_logins=10**9, login_deadline_s=5, idle_s=5, data_connect_s=0.2)
    listeners = (ftp_listener(listen_address="127.0.0.1"),)
    with FileServer(ServerSettings(image_paths=(image,), listeners=listeners, limits=limits)) as running:
        running.admit(FixedLogin(username="lab", password="Bench-2026.word"))
        yield running


def _talk(port: int, payload: bytes) -> bytes:
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection, contextlib.suppress(OSError):
        connection.sendall(payload)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65536):
            received += piece
    return received


def _check(server: FileServer, received: bytes) -> None:
    assert b"bytes nobody" not in received
    # Continuation lines of FEAT start with a space; everything else is a code.
    complete = received.rpartition(b"\r\n")[0]
    assert all(
        re.match(rb"\d{3}[ -]| [A-Z]", reply) for reply in some(reply for reply in complete.split(b"\r\n") if reply)
    ), received
    assert not [notice for notice in server.notices if "internal error" in notice], server.notices
    assert _talk(server.port, b"NOOP\r\nQUIT\r\n").count(b"\r\n") == 3


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=_COMMANDS)
def test_no_command_without_a_ticket_does_harm(server: FileServer, commands: list[bytes]) -> None:
    """Any commands before login get codes, no byte of the image, and no internal error."""
    _check(server, _talk(server.port, b"\r\n".join(commands) + b"\r\n"))


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=_COMMANDS)
def test_no_command_with_a_ticket_does_harm(server: FileServer, commands: list[bytes]) -> None:
    """Any commands after login get codes and no internal error, and image bytes never appear among replies."""
    ticket = server.issue_ticket(TicketRequest(image_name="image.bin"))
    login = f"USER {ticket.username}\r\nPASS {ticket.password}\r\n".encode()
    received = _talk(server.port, login + b"\r\n".join(commands) + b"\r\n")
    assert b"230 Logged in." in received
    _check(server, received)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=_COMMANDS)
def test_no_command_under_a_fixed_login_does_harm(server: FileServer, commands: list[bytes]) -> None:
    """The same holds for a login that opens every image, any number of times."""
    received = _talk(server.port, _FIXED + b"\r\n".join(commands) + b"\r\n")
    assert b"230 Logged in." in received
    _check(server, received)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=_COMMANDS)
def test_replies_come_in_order(server: FileServer, commands: list[bytes]) -> None:
    """Numbered commands between any others are answered in their order, none twice, however many are sent at once."""
    numbered = [
        line for number, command in enumerate(commands, start=770_000_000) for line in (command, b"REST %d" % number)
    ]
    received = _talk(server.port, _FIXED + b"\r\n".join(numbered) + b"\r\n")
    answered = [int(number) for number in re.findall(rb"350 Restarting at (77\d{7})\.", received)]
    assert b"230 Logged in." in received
    assert answered == sorted(set(answered)), received
    _check(server, received)


@settings(max_examples=_EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.binary(max_size=5000))
def test_no_bytes_at_all_do_harm(server: FileServer, raw: bytes) -> None:
    """Bytes that are no commands are answered or cut off, and the server serves on."""
    _check(server, _talk(server.port, raw))
