"""Fetching an image: all four modes, resumption, abortion, and a 226 that means delivered."""

import contextlib
import ftplib
import hashlib
import os
import socket
import time
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import Ticket, TransferRecord, TransferState
from flashferry.tcp.verdict import VerdictKind
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Bench

IMAGE = "csr1000v-universalk9.16.11.01.SPA.bin"
OTHER = "other.bin"


@pytest.mark.parametrize("path", [IMAGE, f"/{IMAGE}", f"//{IMAGE}"])
def test_a_ticket_fetches_its_image(bench: "Bench", path: str) -> None:
    """The bytes are those of the file, with and without a leading slash, and the record says so."""
    ticket = bench.ticket(source_addresses=("127.0.0.1",))
    with bench.login(ticket) as client:
        content = bench.fetch(client, path)
    image, final = bench.server.image(IMAGE), bench.final(ticket)
    assert content == bench.content
    assert hashlib.md5(content).hexdigest() == image.md5
    assert hashlib.sha512(content).hexdigest() == image.sha512
    assert final.state is TransferState.DELIVERED
    assert final.bytes_acked == final.size_bytes == len(content)
    assert final.record is not None
    assert final.record.bytes_acked == final.record.bytes_sent == len(content)
    assert final.record.outcome == "delivered"


@pytest.mark.parametrize("mode", ["PASV", "EPSV", "PORT", "EPRT"])
def test_all_four_modes_deliver(bench: "Bench", mode: str) -> None:
    """Passive and active data connections, old style and extended, carry the image."""
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        client.sendcmd("TYPE I")
        if mode in ("PASV", "EPSV"):
            reply = client.sendcmd(mode)
            parse = ftplib.parse229 if mode == "EPSV" else ftplib.parse227
            assert client.sock is not None
            host, port = parse(reply, client.sock.getpeername()) if mode == "EPSV" else ftplib.parse227(reply)
            data = socket.create_connection((host, port), timeout=PATIENCE_S)
            client.sendcmd(f"RETR {IMAGE}")
        else:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                listener.settimeout(PATIENCE_S)
                port = listener.getsockname()[1]
                given = f"127,0,0,1,{port // 256},{port % 256}" if mode == "PORT" else f"|1|127.0.0.1|{port}|"
                client.sendcmd(f"{mode} {given}")
                client.sendcmd(f"RETR {IMAGE}")
                data, _ = listener.accept()
        with data:
            data.settimeout(PATIENCE_S)
            assert bench.read_all(data) == bench.content
        assert client.voidresp().startswith("226")
    assert bench.final(ticket).state is TransferState.DELIVERED


@pytest.mark.parametrize("bench", [{"listener": {"listen_address": "::"}}], indirect=True)
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_dual_stack_server_delivers_over_both(bench: "Bench", address: str) -> None:
    """IPv4 clients of an IPv6 socket are known by their IPv4 address; PASV and EPSV each work."""
    ticket = bench.ticket(source_addresses=(address,))
    with ftplib.FTP() as client:
        client.connect(address, bench.server.port, timeout=PATIENCE_S)
        client.login(ticket.username, ticket.password)
        assert bench.fetch(client) == bench.content
    final = bench.final(ticket)
    assert final.peer_address == address
    assert final.control_syn is not None
    assert final.control_syn.ip_version == (6 if ":" in address else 4)


def test_resumption_sends_the_rest(bench: "Bench") -> None:
    """REST skips what the client has, and progress counts from the start of the image."""
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        assert bench.fetch(client, rest=100_000) == bench.content[100_000:]
    final = bench.final(ticket)
    assert final.state is TransferState.DELIVERED
    assert final.bytes_acked == len(bench.content)
    assert final.record is not None
    assert (final.record.offset_bytes, final.record.bytes_acked) == (100_000, 200_000)


def test_a_rest_at_the_size_is_an_empty_rest(bench: "Bench") -> None:
    """Who has the whole file and resumes it gets nothing more, and that is a delivery."""
    ticket = bench.ticket()
    with bench.login(ticket) as client:
        assert bench.fetch(client, rest=len(bench.content)) == b""
    final = bench.final(ticket)
    assert (final.state, final.bytes_acked) == (TransferState.DELIVERED, len(bench.content))


def test_an_offset_beyond_the_end_comes_before_the_data_connection(bench: "Bench") -> None:
    """Nothing can be mended by PASV: 554 and not 425."""
    with bench.login(bench.ticket()) as client:
        client.sendcmd("REST 300001")
        with pytest.raises(ftplib.error_perm, match="554"):
            client.sendcmd(f"RETR {IMAGE}")


@pytest.mark.parametrize(("rest", "code"), [("300001", "554"), ("-1", "501"), ("1e3", "501"), ("9" * 400, "501")])
def test_an_impossible_offset_is_refused(bench: "Bench", rest: str, code: str) -> None:
    """Offsets beyond the end and words that are no offset get an error, and nothing is sent."""
    with bench.login(bench.ticket()) as client:
        client.sendcmd("TYPE I")
        client.makepasv()
        client.putcmd(f"REST {rest}")
        reply = client.getmultiline()
        if reply.startswith("350"):
            client.putcmd(f"RETR {IMAGE}")
            reply = client.getmultiline()
        assert reply.startswith(code)


def test_size_is_told_for_the_ticket_s_image_alone(bench: "Bench") -> None:
    """SIZE answers for the one image and for nothing else, whatever TYPE says."""
    with bench.login(bench.ticket()) as client:
        assert client.sendcmd(f"SIZE {IMAGE}") == "213 300000"
        for path in (OTHER, f"../images/{IMAGE}", "/etc/passwd", f"{IMAGE}\x00", ""):
            with pytest.raises(ftplib.error_perm, match=r"550|501"):
                client.sendcmd(f"SIZE {path}".rstrip())


def test_nothing_but_the_ticket_s_image_is_sent(bench: "Bench") -> None:
    """Other images, paths and near misses are 550; the ticket stays good."""
    ticket = bench.ticket(tries=1)
    with bench.login(ticket) as client:
        for path in (OTHER, "/etc/passwd", f"./{IMAGE}", f"x/../{IMAGE}", "..", "/", IMAGE.lower(), f"{IMAGE}/"):
            with pytest.raises(ftplib.error_perm, match="550 Not available"):
                bench.fetch(client, path)
        assert bench.fetch(client) == bench.content


def test_retr_without_a_data_connection_is_refused(bench: "Bench") -> None:
    """RETR before PASV or PORT is 425 at once instead of a wait without end."""
    with bench.login(bench.ticket()) as client, pytest.raises(ftplib.error_temp, match="425 Use PASV"):
        client.sendcmd(f"RETR {IMAGE}")


@pytest.mark.parametrize("bench", [{"profile": {"stall_after_s": 0.2}, "size": 12_000}], indirect=True)
def test_226_waits_for_the_last_acknowledgement(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """The kernel has taken every byte long before; no 226 comes until the client has acknowledged them."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    stalled = bench.until(ticket, lambda progress: progress.state is TransferState.STALLED)
    assert stalled.bytes_acked < stalled.size_bytes
    assert not bench.has_reply(client)
    assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")
    record = bench.final(ticket).record
    assert record is not None
    assert record.last_byte_s is not None
    assert record.last_ack_s is not None
    # The last byte went to the kernel before the stall was noticed, the last acknowledgement came after it.
    assert record.last_ack_s > record.last_byte_s
    assert record.bytes_acked == len(bench.content)


@pytest.mark.parametrize(
    "bench", [{"profile": {"unacked_limit_s": 0.3, "stall_after_s": 1.0}, "size": 12_000}], indirect=True
)
def test_a_closed_window_is_waited_for(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """A client that keeps its window closed for longer than a dead one would be given is still served."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    bench.until(ticket, lambda progress: progress.state is TransferState.STALLED)
    assert bench.read_all(data) == bench.content
    assert client.voidresp().startswith("226")


@pytest.mark.parametrize("bench", [{"profile": {"give_up_after_s": 0.4}, "size": 12_000}], indirect=True)
def test_patience_has_an_end(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """Without any acknowledgement for the given time the transfer fails with 426."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    with pytest.raises(ftplib.error_temp, match="426 No progress"):
        client.voidresp()
    assert bench.final(ticket).last_error.startswith("nothing acknowledged for")


def test_abor_ends_a_transfer_and_the_ticket_can_try_again(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """ABOR gives 426 and 226, the record says who ended it, and a second try delivers."""
    ticket = bench.ticket(tries=2)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    client.putcmd("ABOR")
    assert client.getmultiline().startswith("426")
    assert client.getmultiline().startswith("226")
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "aborted by the client (ABOR)")
    assert failed.tries_left == 1
    data.close()
    assert bench.fetch(client) == bench.content
    bench.delivered(ticket)


def _ended(bench: "Bench", client: ftplib.FTP, closing: contextlib.ExitStack) -> None:
    assert bench.fetch(client) == bench.content


def _prepared(bench: "Bench", client: ftplib.FTP, closing: contextlib.ExitStack) -> None:
    client.makepasv()


def _connected(bench: "Bench", client: ftplib.FTP, closing: contextlib.ExitStack) -> None:
    closing.enter_context(bench.slow_data_connection(client))


def _given_up(bench: "Bench", client: ftplib.FTP, closing: contextlib.ExitStack) -> None:
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    with pytest.raises(ftplib.error_temp, match="426 No progress"):
        client.voidresp()
    with pytest.raises(ConnectionResetError):
        bench.read_all(data)


@pytest.mark.parametrize(
    ("bench", "before"),
    [
        *(({}, before) for before in (None, _ended, _prepared, _connected)),
        ({"profile": {"give_up_after_s": 0.3}}, _given_up),
    ],
    indirect=["bench"],
)
def test_abor_with_nothing_to_end_is_225(
    bench: "Bench", closing: contextlib.ExitStack, before: "Callable[..., None] | None"
) -> None:
    """Before, between and after transfers ABOR gives one reply, 225; also when the server gave up a moment earlier."""
    client = closing.enter_context(contextlib.closing(bench.login(bench.ticket())))
    if before is not None:
        before(bench, client, closing)
    assert client.sendcmd("ABOR").startswith("225")
    assert client.sendcmd("NOOP").startswith("200")


def test_abor_ends_a_retrieval_that_waits_for_its_data_connection(
    bench: "Bench", closing: contextlib.ExitStack
) -> None:
    """A RETR without a data connection yet was under way too: 426 and 226, and the session may fetch again."""
    ticket = bench.ticket(tries=2)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    client.makepasv()
    client.sendcmd(f"RETR {IMAGE}")
    client.putcmd("ABOR")
    assert [client.getmultiline()[:3], client.getmultiline()[:3]] == ["426", "226"]
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "aborted by the client (ABOR)")
    assert bench.fetch(client) == bench.content


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_data_connection_lost_is_426(bench: "Bench", closing: contextlib.ExitStack, how: str) -> None:
    """A client that resets or closes early gets 426 and the record the reason."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = bench.slow_data_connection(client)
    client.sendcmd(f"RETR {IMAGE}")
    data.recv(1000)
    if how == "reset":
        data.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    data.close()
    with pytest.raises(ftplib.error_temp, match="426"):
        client.voidresp()
    failed = bench.final(ticket)
    assert failed.state is TransferState.FAILED
    assert "lost" in failed.last_error or "closed the data connection early" in failed.last_error
    assert failed.bytes_acked < failed.size_bytes


def test_losing_the_control_connection_ends_the_transfer(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """A router that vanishes from the control connection leaves a failed ticket, not a running one."""
    ticket = bench.ticket()
    client = bench.login(ticket)
    closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    client.close()
    assert bench.final(ticket).last_error == "the client closed the control connection"


def test_a_file_that_changes_while_it_is_served_fails(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """Bytes written to the image during a transfer end it with 451; old and new are never passed off as one."""
    ticket = bench.ticket()
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    data = closing.enter_context(bench.slow_data_connection(client))
    client.sendcmd(f"RETR {IMAGE}")
    bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
    with (bench.directory / IMAGE).open("r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"tampered!!")
    with pytest.raises(ftplib.error_temp, match="451 Image changed"):
        client.voidresp()
    # A reset, not a clean end of file, which many clients would take for the end of the image.
    with pytest.raises(ConnectionResetError):
        bench.read_all(data)
    failed = bench.final(ticket)
    assert (failed.state, failed.last_error) == (TransferState.FAILED, "image changed on disk while it was served")


@pytest.mark.parametrize("change", ["vanished", "truncated", "replaced", "symlinked"])
def test_a_file_that_changed_before_is_not_served(bench: "Bench", change: str) -> None:
    """What is no longer the file that was hashed is 451 before a byte is sent."""
    ticket = bench.ticket()
    path = bench.directory / IMAGE
    path.unlink()
    if change == "symlinked":
        path.symlink_to("/etc/passwd")
    elif change != "vanished":
        path.write_bytes(bench.content[:-1] if change == "truncated" else bench.content[::-1])
    with bench.login(ticket) as client, pytest.raises(ftplib.error_temp, match="451"):
        bench.fetch(client)
    assert bench.final(ticket).state is TransferState.FAILED


def test_a_new_attempt_supersedes_a_hanging_one(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """A router that comes again after losing its path is served; the old transfer is ended."""
    ticket = bench.ticket(tries=2)
    old = closing.enter_context(contextlib.closing(bench.login(ticket)))
    closing.enter_context(bench.slow_data_connection(old))
    old.sendcmd(f"RETR {IMAGE}")
    with bench.login(ticket) as client:
        assert bench.fetch(client) == bench.content
    with pytest.raises(ftplib.error_temp, match="426"):
        old.voidresp()
    bench.delivered(ticket)


@pytest.mark.parametrize("bench", [{"profile": {"cap_bytes_per_s": 100_000, "mss_bytes": 1400}}], indirect=True)
def test_a_cap_is_read_back_and_the_verdict_names_it(bench: "Bench") -> None:
    """The record has the cap that the kernel has, and the verdict is that the cap limits the copy."""
    # A machine that has other work may hold a transfer up so that something else is found: then another is made.
    records = (record_of(bench, bench.ticket()) for _ in range(10))
    record = next((one for one in records if one.verdict.kind is VerdictKind.CAP), None)
    assert record is not None
    assert record.sender.cap_bytes_per_s == record.sender.cap_asked_bytes_per_s == 100_000
    assert record.mss_bytes is not None
    assert record.mss_bytes <= 1400
    assert record.sender.congestion_control_chosen == "bbr"


@pytest.mark.parametrize("bench", [{"profile": {"cap_bytes_per_s": 100_000, "mss_bytes": 1400}}], indirect=True)
@pytest.mark.soak
def test_a_verdict_knows_the_link_of_its_ticket_and_of_its_site(bench: "Bench") -> None:
    """What is stated of a link, or learned of its site, is among a verdict's evidence; a profile's cap is not."""
    bench.server.set_site_link("branch", 3_000_000)
    found = []
    for given in ({}, {"link_bytes_per_s": 4_000_000}, {"site": "branch"}):
        # A machine that has other work may hold a transfer up so that nothing is said of it: then another is looked at.
        told = (known_links(bench, given) for _ in range(10 if given else 1))
        found.append(next(filter(None, told), []))
    assert found == [[], ["link known to carry 4 MB/s"], ["link known to carry 3 MB/s"]]


def known_links(bench: "Bench", given: dict) -> list[str]:
    """Fetch once and return what the verdict rests on of what is known of the link."""
    record = record_of(bench, bench.ticket(**given))
    return [line for line in record.verdict.evidence if line.startswith("link known")]


def record_of(bench: "Bench", ticket: Ticket) -> TransferRecord:
    """Fetch once and return the record."""
    with bench.login(ticket) as client:
        assert bench.fetch(client) == bench.content
    record = bench.final(ticket).record
    assert record is not None
    return record


@pytest.mark.parametrize("bench", [{"profile": {"cap_bytes_per_s": 50_000, "mss_bytes": 1400}}], indirect=True)
def test_a_cap_is_lifted_in_mid_flow(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """A ticket's cap can be changed while its transfer runs; the kernel's value follows."""
    ticket = bench.ticket(cap_bytes_per_s=10_000)
    client = closing.enter_context(contextlib.closing(bench.login(ticket)))
    closing.enter_context(bench.slow_data_connection(client, 1 << 20))
    client.sendcmd(f"RETR {IMAGE}")
    bench.until(ticket, lambda progress: progress.state is TransferState.TRANSFERRING)
    bench.server.set_cap(ticket.ticket_id, 40_000_000)
    bench.server.revoke(ticket.ticket_id)
    failed = bench.final(ticket)
    assert failed.record is not None
    assert failed.record.sender.cap_asked_bytes_per_s == 50_000
    assert failed.last_error == "ticket revoked"


def test_transfers_of_a_site_share_its_cap(bench: "Bench", closing: contextlib.ExitStack) -> None:
    """Two transfers get half of the site's cap each; when one ends the other gets all of it."""
    bench.server.set_site_cap("branch", 40_000)
    tickets = [bench.ticket(site="branch") for _ in range(2)]
    for ticket in tickets:
        client = closing.enter_context(contextlib.closing(bench.login(ticket)))
        closing.enter_context(bench.slow_data_connection(client))
        client.sendcmd(f"RETR {IMAGE}")
    caps = []
    for ticket in tickets:
        bench.server.revoke(ticket.ticket_id)
        record = bench.final(ticket).record
        assert record is not None
        caps.append(record.sender.cap_bytes_per_s)
    assert caps == [20_000, 40_000]


def test_progress_and_record_tell_what_the_wire_showed(bench: "Bench") -> None:
    """SYN, segment size, times and the masked command log are in the record; neither user nor password is."""
    ticket = bench.ticket()
    before = time.time()
    with bench.login(ticket) as client:
        bench.fetch(client)
    record = bench.final(ticket).record
    assert record is not None
    assert record.control_syn is not None
    assert record.data_syn is not None
    assert record.data_syn.sack_permitted
    assert record.sack
    assert record.mss_bytes
    assert before - 1 < record.started_at < time.time() + 1
    assert record.duration_s > 0
    text = str(record.to_json())
    assert ticket.password not in text
    assert ticket.username not in text
    commands = [line.split(" ", 1)[1] for line in record.commands if "->" not in line]
    assert commands[:2] == ["USER ***", "PASS ***"]
    assert f"RETR {IMAGE}" in commands
