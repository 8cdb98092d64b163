"""A run's events over broken connections: each once, in order; and streams that are none."""

from __future__ import annotations

import json

import httpx
import pytest

from flashferry.service.client.client import ServiceRefused, ServiceUnusable
from flashferry.service.client.stream import run_events, server_sent
from tests.unit.service.remote.test_client import Endless, problem


def line(number):
    """Return an event of a run as its file has it."""
    told = {"host": "r1", "step": "note", "status": "note", "text": f"n{number}", "at_s": float(number), "at": "x"}
    return json.dumps(told)


LINES = tuple(line(number) for number in range(4))
STREAM = (
    "retry: 1000\n\n: still here\n\n"
    + "".join(f"id: mark-{number + 1}\ndata: {text}\n\n" for number, text in enumerate(LINES))
    + 'event: end\ndata: {"run_id": "r"}\n\n'
).encode()


class Broken(httpx.SyncByteStream):
    """A body that breaks off."""

    def __init__(self, body):
        self.body = body

    def __iter__(self):
        yield self.body
        raise httpx.ReadError("connection reset")


class Serving:
    """A service whose connections break after so many bytes each, then no more."""

    def __init__(self, *cuts):
        self.cuts, self.asked = list(cuts), []

    def __call__(self, request):
        last = request.headers.get("last-event-id", "")
        self.asked.append(last)
        rest = STREAM
        if last:
            rest = rest[rest.index(f"id: {last}\n".encode()) :].split(b"\n\n", 1)[1]
        if self.cuts:
            return httpx.Response(200, stream=Broken(rest[: self.cuts.pop(0)]))
        return httpx.Response(200, stream=httpx.ByteStream(rest))


def texts(client, said=None):
    return [event.text for event in run_events(client, "r", (said if said is not None else []).append)]


@pytest.mark.parametrize("first", range(0, len(STREAM), 29))
def test_wherever_the_connection_breaks_each_event_comes_once(asking, first):
    """Twice, at any byte: no gap, no repeat, nothing of half a line."""
    serving = Serving(first, 130)
    assert texts(asking(serving)) == ["n0", "n1", "n2", "n3"]


def test_a_stream_that_ends_by_itself_is_asked_for_again(asking):
    """As a service ends each after five minutes, to let in anew; nobody is told."""
    half = STREAM.index(b"id: mark-3")
    found, said = [STREAM[:half], STREAM[half:]], []
    client = asking(lambda request: httpx.Response(200, content=found.pop(0)))
    assert texts(client, said) == ["n0", "n1", "n2", "n3"]
    assert said == []


def test_a_service_that_is_away_is_told_once_and_when_it_is_back(asking):
    """A restart of it, by whatever stands in front of it or by nobody answering at all."""
    found = [httpx.ConnectError("refused"), problem(503), problem(502), httpx.ConnectError("refused")]
    said = []

    def answer(request):
        if found:
            one = found.pop(0)
            if isinstance(one, Exception):
                raise one
            return one
        return httpx.Response(200, content=STREAM)

    assert texts(asking(answer), said) == ["n0", "n1", "n2", "n3"]
    assert [one.rpartition(". ")[2] for one in said] == [
        "Trying again; what it started continues there",
        "the service answers again",
    ]


def test_it_is_not_waited_for_without_end(asking):
    """Where nothing was heard for too long the trouble is told."""

    def answer(request):
        raise httpx.ConnectError("refused")

    client = asking(answer)
    with pytest.raises(ServiceUnusable, match="refused"):
        list(run_events(client, "r", str, patience_s=500.0))
    assert 490.0 < sum(client.paused) < 510.0


def test_a_run_that_may_not_be_looked_at_ends_it(asking):
    """At once, with the service's own sentence; a run that is not seen yet is asked for a few times."""
    with pytest.raises(ServiceRefused, match="taken back"):
        texts(asking(lambda request: problem(401, "taken back")))
    client = asking(lambda request: problem(404, "no run"))
    with pytest.raises(ServiceRefused, match="no run"):
        texts(client)
    assert len(client.paused) == 5


@pytest.mark.parametrize(
    ("body", "told"),
    [(Endless(b"data: x"), "lines of at most"), (Endless(b"data: " + b"x" * 4000 + b"\n"), "lines of at most")],
)
def test_a_line_without_an_end_ends_it(asking, body, told):
    """So much of it is kept in memory, and no more."""
    with pytest.raises(ServiceUnusable, match=told):
        texts(asking(lambda request: httpx.Response(200, stream=body)))
    assert body.sent * len(body.piece) < 3 << 20


def test_streams_that_say_nothing_end_in_a_sentence(asking):
    """Also where each ends in good order."""
    client = asking(lambda request: httpx.Response(200, content=b""))
    with pytest.raises(ServiceUnusable, match="before it says anything"):
        list(run_events(client, "r", str, patience_s=500.0))
    assert 490.0 < sum(client.paused) < 510.0


def test_what_is_no_event_is_passed_over(asking):
    """Fields of tomorrow, junk, names with signs in them."""
    junk = b"data: {}\n\ndata: [1]\n\nid: \xff\ndata: \xff\n\nid: a\x1b[\ndata: 7\n\nx: y\n\nevent: z\ndata: {}\n\n\r\n"
    assert texts(asking(lambda request: httpx.Response(200, content=junk + STREAM))) == ["n0", "n1", "n2", "n3"]
    assert [one.id for one in server_sent([b"id: a\x1b\ndata: 7\n\n"])] == [""]
    assert [one.data for one in server_sent([b"data: a\r\nda", b"ta: b\r\n\r", b"\ndata: half"])] == [b"a\nb"]
