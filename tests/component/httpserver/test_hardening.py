"""What a hostile client gets: a refusal or the end of its connection, never a byte of an image, nor our memory."""

import contextlib
import random
import select
import socket
import ssl
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flashferry.fileserver import EventKind, FixedLogin, TransferState
from flashferry.httpserver.session import HEAD_S
from tests.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from conftest import Bench


def said(connection: socket.socket) -> bytes:
    """Return all that comes until the connection's end, whichever it is."""
    pieces = []
    with contextlib.suppress(OSError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def spoken(bench: "Bench", data: bytes) -> bytes:
    """Send bytes, say that nothing follows, and return what comes."""
    with bench.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
        return said(connection)


def has_answer(connection: socket.socket) -> bool:
    """Return whether something is there to be read, or the connection's end."""
    return bool(select.select([connection], [], [], 0)[0])


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


# Credentials.


def test_who_has_no_ticket_gets_no_byte(either: "Bench") -> None:
    """401 with the challenge, at once, whatever is asked for: there or not, image or not."""
    for path in (f"/{either.image_name}", f"/{either.other_name}", "/nothing.bin", "/", "/../../etc/passwd"):
        found = either.ask(None, path)
        assert (found.status, found.body) == (401, b"Unauthorized\n")
        assert found.fields["WWW-Authenticate"] == 'Basic realm="flashferry"'


def test_wrong_credentials_are_all_alike(bench: "Bench") -> None:
    """A user that is not there and a wrong password get the same answer, and each is an event."""
    ticket = bench.ticket()
    answers = []
    for username, password in ((ticket.username, "x" * 16), ("nobody", "x" * 16), ("", "")):
        found = bench.ask(None, Authorization=bench.basic(username, password))
        answers.append((found.status, found.body, found.fields))
        bench.server.revoke(bench.ticket(source_addresses=("127.0.0.1",)).ticket_id)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 401
    bench.heard(EventKind.LOGIN_FAILED)
    assert any(one.username_masked == "n***" for one in bench.server.unattributed_failures)


def test_a_replayed_login_is_worth_nothing_behind_its_delivery(bench: "Bench") -> None:
    """Who overheard the credentials comes too late: the ticket is used up."""
    ticket = bench.ticket()
    request = bench.head(ticket)
    assert bench.exchange(request).body == bench.content
    bench.delivered(ticket)
    assert bench.exchange(request).status == 403


def test_a_bound_ticket_is_worth_nothing_elsewhere(bench: "Bench") -> None:
    """403 from another address, although the password is right; nothing of the image, and no try is lost."""
    ticket = bench.ticket(source_addresses=("127.0.0.2",), tries=1)
    found = bench.exchange(bench.head(ticket))
    assert (found.status, found.body) == (403, b"Forbidden\n")
    assert "bound to 127.0.0.2" in bench.heard(EventKind.LOGIN_FAILED).text
    assert bench.exchange(bench.head(ticket), source="127.0.0.2").body == bench.content


def test_guessing_locks_an_address_out(bench: "Bench") -> None:
    """After three failures its connections are refused unheard; the lock is shared with every other protocol."""
    for _ in range(3):
        assert bench.ask(None, Authorization=bench.basic("guess", "wrong")).status == 401
    assert bench.ask(bench.ticket()).status == 503
    with socket.create_connection(("127.0.0.1", bench.server.port_of("ftp")), timeout=PATIENCE_S) as ftp:
        assert ftp.recv(100).startswith(b"421")


def test_a_named_address_is_never_locked_out(bench: "Bench") -> None:
    """Otherwise a stranger behind the same address could lock routers out."""
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    for _ in range(5):
        assert bench.ask(None, Authorization=bench.basic("guess", "wrong")).status == 401
    assert bench.ask(ticket).status == 200


def test_a_fixed_login_is_guessed_at_in_a_book_of_its_own(bench: "Bench") -> None:
    """Also from an address that a ticket names: a person's password has no 95 random bits."""
    bench.server.admit(FixedLogin(username="lab", password="long-enough"))
    bench.ticket(source_addresses=("127.0.0.1",))
    for _ in range(3):
        assert bench.ask(None, Authorization=bench.basic("lab", "wrong-guess")).status == 401
    assert bench.ask(None, Authorization=bench.basic("lab", "long-enough")).status == 401


@pytest.mark.parametrize(
    "value", ["Basic", "Basic !!!!", "Basic bm9jb2xvbg==", "Bearer abc", "Digest username=x", "Basic " + "QUFB" * 400]
)
def test_other_credentials_are_not_understood(shared: "Bench", value: str) -> None:
    """400; nothing of them is logged."""
    assert shared.ask(None, Authorization=value).status == 400


# Paths and methods.


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//etc/csr1000v-universalk9.16.11.01.SPA.bin",
        "/./csr1000v-universalk9.16.11.01.SPA.bin",
        "/../images/csr1000v-universalk9.16.11.01.SPA.bin",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/%63sr1000v-universalk9.16.11.01.SPA.bin",
        "/csr1000v-universalk9.16.11.01.SPA.bin?x=1",
        "/csr1000v-universalk9.16.11.01.SPA.bin#x",
        "/csr1000v-universalk9.16.11.01.SPA.bin/",
        "http://127.0.0.1/csr1000v-universalk9.16.11.01.SPA.bin",
        "*",
        "/..",
        "csr1000v-universalk9.16.11.01.SPA.bin",
    ],
)
def test_no_path_leads_anywhere(shared: "Bench", path: str) -> None:
    """Only `/name` or `//name`, letter by letter: nothing is decoded, resolved or forwarded."""
    found = shared.ask(shared.ticket(), path)
    assert (found.status, found.body) == (404, b"Not Found\n")


@pytest.mark.parametrize("name", ["other.bin", "nothing.bin", "CSR1000V-UNIVERSALK9.16.11.01.SPA.BIN"])
def test_another_image_is_forbidden_whether_it_is_there_or_not(shared: "Bench", name: str) -> None:
    """A ticket is for one image, and tells nothing of others."""
    found = shared.ask(shared.ticket(), f"/{name}")
    assert (found.status, found.body) == (403, b"Forbidden\n")


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get", "X"])
def test_nothing_but_get_and_head(shared: "Bench", method: str) -> None:
    """405 with what there is; nothing is written, and nothing is echoed."""
    ticket = shared.ticket()
    found = shared.ask(ticket, method=method)
    assert (found.status, found.fields["Allow"]) == (405, "GET, HEAD")
    assert shared.server.progress(ticket.ticket_id).state is TransferState.WAITING


@pytest.mark.parametrize(
    "fields",
    [
        {"Content-Length": "5"},
        {"Transfer-Encoding": "chunked"},
        {"Content-Length": "5", "Transfer-Encoding": "chunked"},
        {"Content-Length": "0005"},
        {"Content-Length": "-1"},
        {"Content-Length": "5, 5"},
        {"Transfer-Encoding": "gzip, chunked"},
    ],
)
def test_a_body_is_refused(shared: "Bench", fields: dict[str, str]) -> None:
    """In every form of announcing one: where one head ends and the next begins is never a question."""
    ticket = shared.ticket()
    request = shared.head(ticket, **fields) + b"GET /other.bin HTTP/1.1\r\nHost: x\r\n\r\n"
    with shared.connect() as connection:
        connection.sendall(request)
        answer = said(connection)
    assert status(answer) in (400, 501)
    assert answer.count(b"HTTP/1.1 ") == 1
    assert shared.server.progress(ticket.ticket_id).tries_left == 3


def test_one_request_per_connection(bench: "Bench") -> None:
    """What comes behind the first is never answered: no request can be hidden behind another one's."""
    ticket, second = bench.ticket(), bench.ticket(bench.other_name)
    answer = spoken(bench, bench.head(ticket) + bench.head(second, f"/{bench.other_name}"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert answer.endswith(bench.content)
    bench.delivered(ticket)
    assert bench.server.progress(second.ticket_id).state is TransferState.WAITING


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nRange: a\r\nRange: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 2000 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 9000, 431),
        (b"GET / HTTP/1.0\r\n\r\n", 401),
    ],
)
def test_heads_out_of_bounds(shared: "Bench", head: bytes, wanted: int) -> None:
    """Too long is 431, not understood is 400; HTTP/1.0 is understood."""
    answer = spoken(shared, head)
    assert status(answer) == wanted
    assert answer.count(b"HTTP/1.1 ") == 1


# Time, memory, places.


@pytest.mark.parametrize("bench", [{"clock": True}], indirect=True)
def test_a_head_that_comes_drop_by_drop_is_ended(bench: "Bench") -> None:
    """408 at the deadline, however diligently it drips: slowloris holds a place for that long and no longer."""
    with bench.connect() as connection:
        connection.sendall(bench.head(bench.ticket())[:-4])
        # The head has no end, and stays below the most that a head may be.
        until(lambda: has_answer(connection) or connection.sendall(b"x") or bench.pass_time(1), "an answer")
        assert status(said(connection)) == 408


@pytest.mark.parametrize("bench", [{"clock": True}], indirect=True)
def test_a_handshake_that_never_ends_is_ended(bench: "Bench") -> None:
    """The deadline of the head holds from the connection on, TLS included."""
    with socket.create_connection(("127.0.0.1", bench.server.port_of("https")), timeout=PATIENCE_S) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        # It may not have been accepted when time passes first.
        until(lambda: has_answer(connection) or bench.pass_time(HEAD_S), "the end of the connection")
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def test_https_never_speaks_clear_text(bench: "Bench") -> None:
    """A request in clear gets no answer in clear, and what it held is not looked at."""
    ticket = bench.ticket()
    with socket.create_connection(("127.0.0.1", bench.server.port_of("https")), timeout=PATIENCE_S) as connection:
        connection.sendall(bench.head(ticket))
        assert b"HTTP" not in said(connection)
    assert "TLS handshake" in bench.heard(EventKind.NOTICE, "TLS").text
    assert bench.server.progress(ticket.ticket_id).state is TransferState.WAITING


def test_who_does_not_trust_our_certificate_is_told_of(bench: "Bench") -> None:
    """The device says `(I/O error)` and no more; our event says what it was."""
    strict = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", bench.server.port_of("https")), timeout=PATIENCE_S) as connection,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        strict.wrap_socket(connection, server_hostname="127.0.0.1")
    assert bench.heard(EventKind.NOTICE, "does not trust our certificate")


@pytest.mark.parametrize("bench", [{"limits": {"sessions": 5}}], indirect=True)
def test_a_full_house_gives_silent_places_away(bench: "Bench") -> None:
    """Silent connections hold no place against who is named by a ticket."""
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            stack.enter_context(bench.connect("127.0.0.9"))
        # They are accepted in their order, so all of them before the next one.
        assert bench.ask(bench.ticket(source_addresses=("127.0.0.1",))).body == bench.content


@pytest.mark.parametrize("bench", [{"limits": {"anonymous_sessions_per_address": 3}}], indirect=True)
def test_silent_connections_of_an_address_are_few(bench: "Bench") -> None:
    """One more than the limit is answered 503, and the others are left alone."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(bench.connect())
        # They are accepted in their order, so all of them before the next one.
        assert bench.ask(None).status == 503


def test_nothing_is_left_behind(either: "Bench") -> None:
    """Three hundred requests, good, bad and broken off: descriptors as before."""
    for _ in range(20):
        either.ask(None)
    before = either.descriptors()
    for number in range(300):
        with contextlib.suppress(OSError), either.connect() as connection:
            if number % 3 == 0:
                connection.sendall(b"GET / HTTP/1.1\r\nHo")
            elif number % 3 == 1:
                connection.sendall(either.head(None))
            else:
                connection.sendall(either.head(either.ticket()))
    assert either.settles(lambda: either.descriptors() <= before)


# Anything at all.

_WORDS = st.sampled_from(
    [
        *(b"GET ", b"HEAD ", b"POST ", b"/", b"/csr1000v-universalk9.16.11.01.SPA.bin", b" HTTP/1.1", b" HTTP/1.0"),
        *(b"\r\n", b"\n", b"\r", b"\r\n\r\n", b"Host: x\r\n", b"Range: bytes=", b"0-", b"-", b",", b"=", b":", b"\0"),
        *(b"Authorization: Basic ", b"QTpC", b"Content-Length: ", b"9" * 30, b"Transfer-Encoding: chunked\r\n"),
        *(b"Expect: 100-continue\r\n", b"Connection: upgrade\r\nUpgrade: h2c\r\n", b"A" * 5000, b" ", b"\t", b"\xff"),
    ]
)
_HEADS = st.lists(st.one_of(_WORDS, st.binary(max_size=40)), max_size=25).map(b"".join)


def hold_anything(bench: "Bench", data: bytes, seed: int) -> None:
    """Send bytes in pieces cut anywhere: one answer at most, no byte of an image, and the server goes on."""
    order = random.Random(seed)
    with bench.connect() as connection:
        with contextlib.suppress(OSError):
            while data:
                size = order.choice((1, 2, 7, 100, 9000))
                connection.sendall(data[:size])
                data = data[size:]
            connection.shutdown(socket.SHUT_WR)
        answer = said(connection)
    assert answer.count(b"HTTP/1.1 ") <= 1
    assert status(answer) in (0, 400, 401, 405, 431, 501, 503)
    assert bench.content[:100] not in answer


@pytest.fixture
def named(bench: "Bench") -> Iterator["Bench"]:
    """A server to whose address a ticket is bound, so that nothing locks it out."""
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    yield bench
    assert bench.ask(ticket).body == bench.content


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=_HEADS, seed=st.integers(0, 99))
def test_anything_may_come(named: "Bench", data: bytes, seed: int) -> None:
    """Bytes that resemble requests, and bytes that do not."""
    hold_anything(named, data, seed)


@pytest.mark.soak
@settings(max_examples=6000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=_HEADS, seed=st.integers(0, 999))
def test_anything_may_come_for_long(named: "Bench", data: bytes, seed: int) -> None:
    """The same, for longer."""
    hold_anything(named, data, seed)


@pytest.mark.soak
def test_a_request_may_be_cut_anywhere(bench: "Bench") -> None:
    """Split at every byte a request is the same request; with its end missing it is none."""
    length = len(bench.head(bench.ticket()))
    for place in range(1, length):
        request = bench.head(bench.ticket(tries=1))
        with bench.connect() as connection:
            connection.sendall(request[:place])
            time.sleep(0.002)
            connection.sendall(request[place:])
            assert bench.answer(connection).status == 200
