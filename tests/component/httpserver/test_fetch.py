"""An image by HTTP and HTTPS: the bytes, the fields, the part, and what the record says of it."""

import contextlib
import socket
from typing import TYPE_CHECKING

import pytest

from flashferry.depot.probing import web
from flashferry.fileserver import EventKind, FixedLogin, TransferState
from flashferry.httpserver import head

if TYPE_CHECKING:
    from conftest import Bench


def read_to_the_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_the_image_comes_as_it_is(either: "Bench") -> None:
    """The bytes, their exact number, a tag of their content, and the end of the connection."""
    ticket = either.ticket()
    found = either.ask(ticket)
    assert (found.status, found.body == either.content) == (200, True)
    assert found.fields["Content-Length"] == str(len(either.content))
    assert found.fields["Connection"] == "close"
    sha512 = either.server.image(either.image_name).sha512
    assert found.fields["ETag"] == f'"{sha512[:32]}"'
    assert "Transfer-Encoding" not in found.fields
    assert "Content-Encoding" not in found.fields


def test_the_record_is_that_of_any_transfer(either: "Bench") -> None:
    """Delivered, all acknowledged and no more, the SYN of the one connection, who it was and what was said."""
    ticket = either.ticket()
    either.ask(ticket)
    record = either.delivered(ticket).record
    assert record is not None
    assert (record.outcome, record.transport) == ("delivered", either.scheme)
    assert record.bytes_acked == record.bytes_sent == record.size_bytes == len(either.content)
    assert record.control_syn == record.data_syn
    assert record.data_syn is not None
    assert record.data_syn.sack_permitted
    assert record.client == "cisco-IOS"
    assert bool(record.cipher) is (either.scheme == "https")
    assert record.sender.congestion_control
    spoken = " ".join(record.commands)
    assert f"GET /{either.image_name}" in spoken
    assert "-> 200 OK" in spoken
    assert ticket.password not in spoken
    assert either.basic(ticket.username, ticket.password).split()[1] not in spoken


def test_slashes_before_the_name_count_as_one(shared: "Bench") -> None:
    """As by FTP and SCP: the same path is typed for each."""
    ticket = shared.ticket()
    assert shared.ask(ticket, f"//{shared.image_name}").body == shared.content
    shared.delivered(ticket)


def test_a_ticket_is_good_for_one_delivery(either: "Bench") -> None:
    """The second request is refused, and costs no byte of the image."""
    ticket = either.ticket()
    either.ask(ticket)
    either.delivered(ticket)
    found = either.ask(ticket)
    assert (found.status, found.body) == (403, b"Forbidden\n")


def test_the_head_alone_costs_no_try(either: "Bench") -> None:
    """HEAD says what GET would, without a byte of the image; the ticket is as good as before."""
    ticket = either.ticket(tries=1)
    found = either.ask(ticket, method="HEAD")
    assert (found.status, found.body) == (200, b"")
    assert found.fields["Content-Length"] == str(len(either.content))
    progress = either.until(ticket, lambda seen: seen.state is TransferState.WAITING and seen.sequence >= 2)
    assert progress.tries_left == 1
    assert either.ask(ticket).body == either.content


def test_delivered_means_acknowledged(either: "Bench") -> None:
    """As long as the client has not taken the last byte in, nothing is called delivered."""
    ticket = either.ticket()
    with either.connect(receive_buffer=4096) as connection:
        connection.sendall(either.head(ticket))
        either.until(ticket, lambda seen: seen.bytes_acked > 0)
        progress = either.until(ticket, lambda seen: seen.state is TransferState.STALLED)
        assert 0 < progress.bytes_acked < len(either.content)
        assert either.answer(connection).body == either.content
    assert either.delivered(ticket).bytes_acked == len(either.content)


@pytest.mark.parametrize(
    ("asked", "first", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=1000-1999", 1000, 2000),
        ("bytes=299000-", 299_000, 300_000),
        ("bytes=-10", 299_990, 300_000),
        ("bytes=5-999999999", 5, 300_000),
    ],
)
def test_a_part_is_what_was_asked_for(shared: "Bench", asked: str, first: int, end: int) -> None:
    """Its bytes, and in `Content-Range` where they stand."""
    found = shared.ask(shared.ticket(), Range=asked)
    assert (found.status, found.body == shared.content[first:end]) == (206, True)
    assert found.fields["Content-Range"] == f"bytes {first}-{end - 1}/300000"
    assert found.fields["Content-Length"] == str(end - first)


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "bytes=9-5", "lines=1-2", "bytes=-", "bytes"])
def test_what_is_no_single_part_is_the_whole(shared: "Bench", asked: str) -> None:
    """A range that is not understood, or several, are as if none was asked for (RFC 9110 14.2)."""
    found = shared.ask(shared.ticket(), Range=asked)
    assert (found.status, found.body == shared.content) == (200, True)


@pytest.mark.parametrize("asked", ["bytes=300000-", "bytes=999999-1000000", "bytes=-0"])
def test_a_part_behind_the_end_costs_no_try(shared: "Bench", asked: str) -> None:
    """416 with the size; the ticket is as good as before."""
    ticket = shared.ticket(tries=1)
    found = shared.ask(ticket, Range=asked)
    assert (found.status, found.fields["Content-Range"]) == (416, "bytes */300000")
    assert shared.ask(ticket).status == 200


def test_a_broken_copy_is_gone_on_with(either: "Bench") -> None:
    """What came is kept, the rest asked for with its tag: together the image, and the ticket is delivered."""
    ticket = either.ticket()
    with either.connect(receive_buffer=4096) as connection:
        connection.sendall(either.head(ticket))
        piece = b""
        while b"\r\n\r\n" not in piece or len(piece) < 5000:
            piece += connection.recv(4096)
    head, _, have = piece.partition(b"\r\n\r\n")
    tag = next(line.split(b": ")[1].decode() for line in head.split(b"\r\n") if line.startswith(b"ETag"))
    broken = either.failed(ticket)
    assert broken.record is not None
    assert "connection" in broken.record.outcome
    rest = either.ask(ticket, Range=f"bytes={len(have)}-", If_Range=tag)
    assert (rest.status, have + rest.body == either.content) == (206, True)
    record = either.delivered(ticket).record
    assert record is not None
    assert (record.offset_bytes, record.bytes_acked) == (len(have), len(either.content) - len(have))


def test_another_content_begins_anew(bench: "Bench") -> None:
    """The tag of another image, or a date, has the whole sent: no mixture of two images ever comes about."""
    for other in ('"0123456789"', "Sun, 06 Nov 1994 08:49:37 GMT", 'W/"x"'):
        found = bench.ask(bench.ticket(), Range="bytes=1000-", If_Range=other)
        assert (found.status, found.body == bench.content) == (200, True)


def test_a_part_that_ends_early_delivers_no_ticket(bench: "Bench") -> None:
    """All of it was acknowledged, but it is not the image: the record says so, and the next try gets the whole."""
    ticket = bench.ticket(tries=2)
    assert len(bench.ask(ticket, Range="bytes=0-999").body) == 1000
    record = bench.failed(ticket).record
    assert record is not None
    assert record.outcome == "only bytes 0 to 999 of 300000 were asked for"
    assert bench.ask(ticket).body == bench.content
    bench.delivered(ticket)


def test_tries_are_counted_as_with_any_protocol(bench: "Bench") -> None:
    """A transfer begun is a try; behind the last one the ticket is worth nothing."""
    ticket = bench.ticket(tries=2)
    for _ in range(2):
        with bench.connect(receive_buffer=4096) as connection:
            connection.sendall(bench.head(ticket))
            connection.recv(100)
        bench.settles(lambda: bench.server.progress(ticket.ticket_id).state is TransferState.FAILED)
    assert bench.ask(ticket).status == 403


def test_the_newest_request_counts(bench: "Bench") -> None:
    """One that hangs gives way to a new one with the same ticket."""
    ticket = bench.ticket()
    with bench.connect(receive_buffer=4096) as hanging:
        hanging.sendall(bench.head(ticket))
        bench.until(ticket, lambda seen: seen.bytes_acked > 0)
        assert bench.ask(ticket).body == bench.content
        bench.delivered(ticket)


def test_a_revoked_ticket_ends_its_transfer(either: "Bench") -> None:
    """The client sees its connection reset, not an end that could pass for that of the image."""
    ticket = either.ticket()
    with either.connect(receive_buffer=4096) as connection:
        connection.sendall(either.head(ticket))
        either.until(ticket, lambda seen: seen.bytes_acked > 0)
        either.server.revoke(ticket.ticket_id)
        # Python's TLS takes a reset for an end; it comes before the length that was announced all the same.
        with contextlib.suppress(OSError):
            assert len(read_to_the_end(connection)) < len(either.content)
            assert either.scheme == "https", "it was reset"
    record = either.failed(ticket).record
    assert record is not None
    assert record.outcome == "ticket revoked"


@pytest.mark.parametrize("bench", [{"size": 4_000_000}], indirect=True)
def test_an_image_that_changes_is_cut(bench: "Bench") -> None:
    """Whoever writes into the file while it is sent ends the transfer: no mixture is delivered."""
    ticket = bench.ticket()
    with bench.connect(receive_buffer=4096) as connection:
        connection.sendall(bench.head(ticket))
        bench.until(ticket, lambda seen: seen.bytes_acked > 0)
        with (bench.directory / bench.image_name).open("r+b") as file:
            file.write(b"changed")
        record = bench.failed(ticket).record
    assert record is not None
    assert record.outcome == "image changed on disk while it was served"


def test_a_fixed_login_fetches_every_image(either: "Bench") -> None:
    """Any of them, any number of times; what is not there is not found."""
    either.server.admit(FixedLogin(username="lab", password="long-enough"))
    lab = {"Authorization": either.basic("lab", "long-enough")}
    assert either.ask(None, **lab).body == either.content
    assert either.ask(None, f"/{either.other_name}", **lab).body == b"not for you"
    assert either.ask(None, f"/{either.image_name}", **lab).status == 200
    assert either.ask(None, "/nothing.bin", **lab).status == 404


def test_a_ticket_may_be_for_one_transport(bench: "Bench") -> None:
    """One that is for HTTPS alone is worth nothing in clear, and the other way round."""
    secure = bench.ticket(transports=("https",))
    assert bench.ask(secure).status == 403
    bench.scheme = "https"
    assert bench.ask(secure).body == bench.content
    assert bench.ask(bench.ticket(transports=("http",))).status == 403


def test_events_are_those_of_any_transfer(bench: "Bench") -> None:
    """Connected, login, start, done: in this order, with the transport from the start on."""
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    bench.ask(ticket)
    done = bench.heard(EventKind.DONE)
    assert done.progress is not None
    assert done.progress.transport == "http"
    kinds = [event.kind for event in bench.events if event.kind not in (EventKind.NOTICE, EventKind.PROGRESS)]
    assert kinds == [EventKind.CONNECTED, EventKind.LOGIN, EventKind.START, EventKind.DONE]


def test_a_gone_image_is_told(bench: "Bench") -> None:
    """500, and in the books why; nothing is left open."""
    ticket = bench.ticket()
    (bench.directory / bench.other_name).replace(bench.directory / bench.image_name)
    assert bench.ask(ticket).status == 500
    assert "image" in bench.heard(EventKind.FAILED).text.lower()


@pytest.mark.parametrize("control", ["cubic", "bbr"])
def test_a_depot_may_compare_congestion_controls(either: "Bench", control: str) -> None:
    """Under a fixed login the answer names it where the kernel grants it, and none else; no third one is asked for."""
    either.server.admit(FixedLogin(username="lab", password="long-enough"))
    lab = {"Authorization": either.basic("lab", "long-enough")}
    granted = either.ask(None, Flashferry_Congestion_Control=control, Range="bytes=0-9", **lab)
    assert (granted.status, granted.body) == (206, either.content[:10])
    # Without root a kernel grants what net.ipv4.tcp_allowed_congestion_control lists, which may lack either.
    assert granted.fields.get(head.CONTROL_HEADER) == (control if either.server.capabilities.allows(control) else None)
    assert head.CONTROL_HEADER not in either.ask(None, Flashferry_Congestion_Control="reno", **lab).fields


def test_a_ticket_has_no_say_in_congestion_control(bench: "Bench") -> None:
    """What a router is sent with is decided here."""
    answer = bench.ask(bench.ticket(), Flashferry_Congestion_Control="cubic")
    assert answer.body == bench.content
    assert head.CONTROL_HEADER not in answer.fields


def test_the_probe_asks_by_the_name_that_is_served() -> None:
    """Both have it written down, for neither may import the other."""
    assert (web.CONTROL_HEADER, web.CONTROLS) == (head.CONTROL_HEADER, head.CONTROLS)
