"""FTP and HTTP by one process: one budget for a site, one end for all."""

import ftplib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from flashferry.fileserver import EventKind
from tests.patience import PATIENCE_S

if TYPE_CHECKING:
    from conftest import Bench

CAP = 400_000


@pytest.mark.parametrize("bench", [{"size": 1_200_000}], indirect=True)
@pytest.mark.soak
def test_a_site_s_cap_is_shared_by_all_protocols(bench: "Bench") -> None:
    """One copy by FTP, one by HTTP, one by HTTPS: each is whole, and its record has the site's cap."""
    bench.server.set_site_cap("branch", CAP)
    tickets = [bench.ticket(site="branch") for _ in range(3)]

    def by_ftp() -> None:
        with ftplib.FTP() as client:
            client.connect("127.0.0.1", bench.server.port_of("ftp"), timeout=PATIENCE_S)
            client.login(tickets[0].username, tickets[0].password)
            client.retrbinary(f"RETR {bench.image_name}", len)

    def by_http(number: int, scheme: str) -> None:
        import copy

        mine = copy.copy(bench)
        mine.scheme = scheme
        with mine.connect() as connection:
            connection.sendall(mine.head(tickets[number]))
            mine.answer(connection)

    workers = [
        threading.Thread(target=by_ftp),
        threading.Thread(target=by_http, args=(1, "http")),
        threading.Thread(target=by_http, args=(2, "https")),
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(PATIENCE_S)
    records = [bench.delivered(ticket).record for ticket in tickets]
    assert [record.transport for record in records if record] == ["ftp", "http", "https"]
    assert all(record and record.sender.shared_cap_bytes_per_s == CAP for record in records)


@pytest.mark.parametrize("bench", [{"size": 4_000_000}], indirect=True)
def test_a_drained_server_finishes_what_is_under_way(bench: "Bench") -> None:
    """New connections are refused, idle ones get 503, the copy comes to its end, and then the server has ended."""
    ticket = bench.ticket()
    with bench.connect(receive_buffer=4096) as copying, bench.connect() as idle:
        copying.sendall(bench.head(ticket))
        bench.until(ticket, lambda seen: seen.bytes_acked > 0)
        assert bench.server.drain() == 1
        assert bench.answer(idle).status == 503
        with pytest.raises(ConnectionRefusedError):
            bench.connect()
        assert bench.answer(copying).body == bench.content
    assert bench.delivered(ticket).record is not None
    bench.heard(EventKind.GONE)
    assert bench.server.ended_in_order


@pytest.mark.parametrize("bench", [{"size": 4_000_000}], indirect=True)
def test_a_closed_server_s_copies_end_as_a_reset(bench: "Bench") -> None:
    """With a record, and never with an end that could pass for that of the image."""
    ticket = bench.ticket()
    with bench.connect(receive_buffer=4096) as connection:
        connection.sendall(bench.head(ticket))
        bench.until(ticket, lambda seen: seen.bytes_acked > 0)
        bench.server.close()
        with pytest.raises(ConnectionResetError):
            bench.answer(connection)
    record = bench.server.progress(ticket.ticket_id).record
    assert record is not None
    assert record.outcome == "the server was stopped"


@pytest.mark.parametrize("bench", [{"size": 6_000_000}], indirect=True)
def test_a_cap_is_changed_in_mid_flow(bench: "Bench") -> None:
    """What is set while an image is sent holds at once: at the cap of before the copy would outlast every limit."""
    ticket = bench.ticket(cap_bytes_per_s=int(len(bench.content) / (1.25 * PATIENCE_S)))
    with bench.connect() as connection:
        connection.sendall(bench.head(ticket))
        bench.until(ticket, lambda seen: seen.bytes_acked > 0)
        bench.server.set_cap(ticket.ticket_id, 50_000_000)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(bench.answer, connection)
            bench.delivered(ticket)
            assert answer.result(PATIENCE_S).body == bench.content


def test_the_first_segments_keep_the_pace(bench: "Bench") -> None:
    """A capped copy begins with two segments, not with ten at once."""
    ticket = bench.ticket(cap_bytes_per_s=10_000)
    with bench.connect() as connection:
        connection.sendall(bench.head(ticket))
        assert bench.until(ticket, lambda seen: seen.bytes_acked > 0).bytes_acked < 150_000


@pytest.mark.parametrize("bench", [{"limits": {"failed_login_delay_s": 1.0}}], indirect=True)
def test_a_server_that_goes_down_answers_once(bench: "Bench") -> None:
    """Also where a refusal is held back just then, or was said already."""
    with bench.connect() as refused, bench.connect() as told:
        refused.sendall(bench.head(None, Authorization=bench.basic("nobody", "wrong")))
        told.sendall(bench.head(None))
        bench.settles(lambda: bool(bench.server.unattributed_failures))
        bench.server.drain()
        answers = [b"".join(iter(lambda one=one: one.recv(65536), b"")) for one in (refused, told)]
    assert [answer.count(b"HTTP/1.1 ") for answer in answers] == [1, 1]
    assert answers[1].startswith(b"HTTP/1.1 401")
