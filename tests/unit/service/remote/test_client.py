"""What is asked again and what is not, and what a service's refusals and hostile answers come to."""

from __future__ import annotations

import gzip
import json
import socketserver
import ssl
import threading

import httpx
import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.service.client import client
from flashferry.service.client.client import ServiceClient, ServicePlace, ServiceRefused, ServiceUnusable
from tests.unit.service.remote.conftest import Pieces

JOB = {"job_id": "j1", "kind": "check", "state": "queued", "is_open": True, "sites": [], "links": {}}


def problem(status, detail="it is so", hint="Do that", **headers):
    body = json.dumps({"type": "about:blank", "status": status, "detail": detail, "hint": hint})
    return httpx.Response(status, text=body, headers={"content-type": "application/problem+json", **headers})


def answering(*found):
    """Return a function that answers one after another, the last one for ever, and the requests that it got."""
    requests = []

    def answer(request):
        requests.append(request)
        one = found[min(len(requests), len(found)) - 1]
        if isinstance(one, Exception):
            raise one
        return one

    return answer, requests


def test_a_request_is_made_as_the_api_wants_it(asking):
    """With the token, and with a key by which the same job is answered again."""
    answer, requests = answering(httpx.Response(202, json=JOB))
    job = asking(answer).begin("/checks", {"hosts": ["r1"]})
    (request,) = requests
    assert (job.job_id, job.is_open, str(request.url)) == ("j1", True, "http://127.0.0.1:8020/api/v1/checks")
    assert (request.headers["authorization"], json.loads(request.content)) == ("Bearer ffy_abc", {"hosts": ["r1"]})
    assert len(request.headers["idempotency-key"]) == 36


@pytest.mark.parametrize(
    "lost", [httpx.ReadError("gone"), httpx.RemoteProtocolError("half"), problem(503), problem(502)]
)
def test_a_start_whose_answer_is_lost_is_asked_for_again_as_the_same(asking, lost):
    """The key is the same, so that nothing is begun twice."""
    answer, requests = answering(lost, lost, httpx.Response(202, json=JOB))
    assert asking(answer).begin("/checks", {}).job_id == "j1"
    assert len(requests) == 3
    assert len({request.headers["idempotency-key"] for request in requests}) == 1


def test_what_may_be_done_twice_by_asking_twice_is_asked_once(asking):
    """An approval has no key: where its answer is lost, nobody says that it was not given."""
    answer, requests = answering(httpx.ReadError("gone"))
    with pytest.raises(ServiceUnusable, match="gone"):
        asking(answer).approve_wave("r", 0, digest="", comment="")
    assert len(requests) == 1


def test_what_never_reached_the_service_is_asked_again(asking):
    """Whatever it was: nothing was done."""
    answer, requests = answering(httpx.ConnectError("refused"), httpx.Response(200, json={}))
    asking(answer).approve_wave("r", 0, digest="", comment="")
    assert len(requests) == 2


def test_one_that_is_asked_too_often_is_waited_for(asking):
    """As long as it says, then asked again; also what may not be asked twice, for it was not done."""
    answer, requests = answering(problem(429, **{"Retry-After": "2"}), httpx.Response(200, json={}))
    client = asking(answer)
    client.approve_wave("r", 0, digest="", comment="")
    assert (client.paused, len(requests)) == ([2.0], 2)


@pytest.mark.parametrize(
    ("found", "told", "hint"),
    [
        (problem(401), "does not take the token: it is so", "/me"),
        (problem(403, "expected the role operator"), "the service says: expected the role operator", "Do that"),
        (problem(404, "no plan"), "the service says: no plan", "Do that"),
        (problem(404, "GET here: Not Found"), "has no GET /plans", "same release"),
        (problem(409, "it is running"), "the service says: it is running", "Do that"),
        (problem(422, "reason: expected a few words"), "expected a few words", "Do that"),
        (httpx.Response(404, text="<html>nginx"), "answers 404 Not Found", "same release"),
        (httpx.Response(418, text="{", headers={"content-type": "application/problem+json"}), "418", "same release"),
        (httpx.Response(499, json=[]), "answers 499", "same release"),
    ],
)
def test_a_refusal_is_the_services_own_sentence(asking, found, told, hint):
    """And its own hint; where it has none, what to look at. It is not asked again."""
    answer, requests = answering(found)
    with pytest.raises(ServiceRefused, match=told) as caught:
        asking(answer).plans()
    assert hint in caught.value.hint
    assert (caught.value.status, len(requests)) == (found.status_code, 1)


@pytest.mark.parametrize("found", [problem(500, "nobody foresaw it"), problem(507, "nobody foresaw it")])
def test_trouble_of_the_service_is_told_at_once(asking, found):
    """Where it will not pass by itself."""
    answer, requests = answering(found)
    with pytest.raises(ServiceUnusable, match="nobody foresaw it"):
        asking(answer).plans()
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (httpx.Response(302, headers={"location": "https://evil.example/"}), "leads to"),
        (httpx.Response(200, text="{"), "expected an object of JSON"),
        (httpx.Response(200, text="[" * 100_000), "expected an object of JSON"),
        (httpx.Response(200, content=b"\xff\xfe"), "expected an object of JSON"),
        (httpx.Response(200, json=[]), "expected an object of JSON"),
        (httpx.Response(200, json={}), "not of the agreed form"),
        (httpx.Response(200, json={"plans": [{"digest": 1, "state": "x" * 9999, "made_by": None}]}), "agreed form"),
        (
            httpx.Response(200, stream=Pieces(gzip.compress(b"{}")), headers={"content-encoding": "gzip"}),
            "an uncompressed answer",
        ),
    ],
)
def test_an_answer_that_is_none_is_one_sentence(asking, found, told):
    """Nothing is followed anywhere, unpacked, or believed."""
    answer, requests = answering(found)
    with pytest.raises(ServiceUnusable, match=told) as caught:
        asking(answer).plans()
    assert len(requests) == 1
    assert caught.value.hint
    assert len(caught.value.message) < 900


def test_a_redirect_to_nowhere_is_one_sentence(asking):
    """Whatever signs are in it."""
    answer, _ = answering(httpx.Response(302, headers={"location": "https://evil.example/\x1b[2J"}))
    with pytest.raises(ServiceUnusable, match="Invalid URL"):
        asking(answer, patience_s=0.0).plans()


class Endless(httpx.SyncByteStream):
    """A body that never ends."""

    def __init__(self, piece=b" " * 4096, before_each=lambda: None):
        self.piece, self.before_each, self.sent = piece, before_each, 0

    def __iter__(self):
        while True:
            self.before_each()
            self.sent += 1
            yield self.piece


def test_no_more_is_read_than_an_answer_can_have(asking, monkeypatch):
    """Of a body without an end so much, and no byte of what would come behind it."""
    monkeypatch.setattr("flashferry.service.client.client.MOST_BYTES", 100_000)
    body = Endless()
    with pytest.raises(ServiceUnusable, match="at most 100,000 bytes"):
        asking(lambda request: httpx.Response(200, stream=body)).read("/plans")
    assert body.sent == 25


def test_nor_longer_than_an_answer_takes(asking):
    """A body that trickles in is given up after five minutes."""
    body = Endless(b" ", lambda: client.pause(1.0))
    client = asking(lambda request: httpx.Response(200, stream=body))
    with pytest.raises(ServiceUnusable, match="within 300 s, found one that continues"):
        client.plans()
    assert body.sent == 301


def test_a_certificate_that_nobody_vouches_for_is_not_tried_again(asking):
    """And is told as what it is."""
    wrong = ssl.SSLCertVerificationError(1, "certificate verify failed")
    wrong.verify_message = "self-signed certificate"
    error = httpx.ConnectError("x")
    error.__cause__ = wrong
    answer, requests = answering(error)
    with pytest.raises(ServiceUnusable, match="not trusted: self-signed certificate") as caught:
        asking(answer).plans()
    assert "--service-ca" in caught.value.hint
    assert len(requests) == 1


def test_names_stay_names_in_a_path(asking):
    """Whatever somebody, or the service itself, calls a run."""
    answer, requests = answering(httpx.Response(200, json={"devices": []}))
    asking(answer).devices("../../users?x=#/y")
    assert requests[0].url.raw_path == b"/api/v1/runs/..%2F..%2Fusers%3Fx%3D%23%2Fy/devices"


def test_a_report_of_another_form(asking):
    """Is one sentence."""
    with pytest.raises(ServiceUnusable, match="report is not of the agreed form"):
        client.report_in(b'{"schema": "flashferry.report/2", "devices": [{"transfers": [{"samples": [{}]}]}]}')


def test_a_first_try_does_not_last(asking):
    """An address that never answered is given up within 3 s; one that has answered is tried for longer."""
    found = [httpx.Response(200, json={"plans": []}), httpx.ConnectError("refused")]
    for answers_first, paused in ((False, [0.5, 1.0]), (True, [0.5, 1.0, 2.0, 4.0, *[5.0] * 10])):
        client = asking(answering(*found[not answers_first :])[0], patience_s=60.0)
        if answers_first:
            assert client.plans() == ()
        with pytest.raises(ServiceUnusable, match="cannot be reached: refused"):
            client.plans()
        assert client.paused == paused


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("[Errno 111] Connection refused", "cannot be reached: Connection refused"),
        ("[Errno -2] Name or service not known", "cannot be reached: Name or service not known"),
        ("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error (_ssl.c:1006)", ": tlsv1 alert internal error"),
    ],
)
def test_why_it_was_not_reached_is_told_in_words(asking, words, told):
    """Without numbers of errors and lines of C."""
    with pytest.raises(ServiceUnusable) as caught:
        asking(answering(httpx.ConnectError(words))[0], patience_s=0.0).plans()
    assert caught.value.message.endswith(told)


def test_a_service_that_speaks_http_is_told_so_at_once():
    """Trying https there again changes nothing."""
    with socketserver.TCPServer(("127.0.0.1", 0), SpeaksHttp) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        paused = []
        place = ServicePlace(url=f"https://127.0.0.1:{server.server_address[1]}", token="ffy_abc")
        with (
            ServiceClient(place, pause=paused.append) as client,
            pytest.raises(ServiceUnusable, match="does not speak https, but http as it seems"),
        ):
            client.plans()
    assert paused == []


class SpeaksHttp(socketserver.BaseRequestHandler):
    """Answers whatever comes as a server of HTTP without TLS does."""

    def handle(self):
        self.request.recv(4096)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_the_wrong_file_of_certificates_is_told_before_anything(tmp_path):
    """As wrong input."""
    with pytest.raises(ConfigInvalid):
        ServiceClient(ServicePlace(url="https://x", token="t", ca=tmp_path / "none"))
