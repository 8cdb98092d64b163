"""A controller is asked again where the trouble passes, and otherwise told about in one sentence."""

from __future__ import annotations

import json
import ssl

import httpx
import pytest

from flashferry.nightly.backend import Deadline
from flashferry.nightly.cml.controller import Call, below
from flashferry.nightly.night import Fault, NightFault
from tests.unit.nightly.cml.scripted import PAGE_502, Scripted, controller, error
from tests.unit.nightly.fakes import WoundClock

LOOK = Call(method="GET", path="system_stats", what="read its load", step="preflight")
ORDER = Call(method="POST", path="import", what="import the lab", step="import", is_repeatable=False)


def passing() -> list[object]:
    return [
        PAGE_502,
        httpx.Response(503, text="busy"),
        httpx.Response(504, html="<p>"),
        error(502, "Bad gateway"),
        httpx.Response(500, html="<h1>Internal error</h1>"),
        error(500, "Internal"),
        httpx.Response(200, html="<html>the proxy's page</html>"),
        httpx.ReadTimeout("slow"),
        httpx.ConnectTimeout("slow"),
        httpx.ConnectError("[Errno 111] Connection refused"),
        httpx.RemoteProtocolError("Server disconnected without sending a response."),
        httpx.ReadError("[Errno 104] Connection reset by peer"),
    ]


@pytest.mark.parametrize(
    "trouble", passing(), ids=lambda one: type(one).__name__ + str(getattr(one, "status_code", ""))
)
def test_a_look_is_repeated_while_the_trouble_may_pass(trouble):
    """One page of 502 ends no night."""
    script = Scripted({"GET system_stats": (trouble, {"all": {}})})
    assert controller(script).ask(LOOK).value == {"all": {}}
    assert len(script.requests) == 2


def test_it_is_not_repeated_without_end():
    """For as long as the access says, with longer and longer pauses; then it is the lab's fault."""
    script, clock = Scripted({"GET system_stats": PAGE_502}), WoundClock()
    with pytest.raises(NightFault) as found:
        controller(script, clock=clock).ask(LOOK)
    assert clock.slept[:5] == [0.5, 1, 2, 4, 8]
    assert sum(clock.slept) == 60
    assert (found.value.fault, found.value.step) == (Fault.LAB, "preflight")
    tries = len(script.requests)
    assert found.value.message == f"cml.test: could not read its load: it answered 502 with a page, {tries} times"


def test_a_deadline_ends_it_earlier():
    """And what is asked behind it is asked once."""
    script, clock = Scripted({"GET system_stats": PAGE_502}), WoundClock()
    with pytest.raises(NightFault):
        controller(script, clock=clock).ask(LOOK, deadline=Deadline.after(3, clock))
    assert clock.at_s == 3
    asked = len(script.requests)
    with pytest.raises(NightFault):
        controller(script, clock=clock).ask(LOOK, deadline=Deadline(ends_at_s=0, clock=clock))
    assert len(script.requests) == asked + 1


def test_a_call_waits_no_longer_than_its_deadline():
    """Nor without one longer than the access says."""
    seen: list[float] = []

    def note(request: httpx.Request) -> dict[str, object]:
        seen.append(request.extensions["timeout"]["read"])
        return {}

    script, clock = Scripted({"GET system_stats": note}), WoundClock()
    one = controller(script, clock=clock)
    one.ask(LOOK)
    one.ask(LOOK, deadline=Deadline.after(7, clock))
    one.ask(LOOK, deadline=Deadline.after(0, clock))
    assert seen == [30, 7, 1]


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (error(400, "Cannot start lab."), "it answered 400: Cannot start lab"),
        (error(403, "Forbidden"), "its user may not: Forbidden"),
        (error(401, "No token"), "its login is not valid any more: No token"),
        (error(404, "Lab not found: x"), "it answered 404: Lab not found: x"),
        (httpx.Response(409, text=""), "it answered 409"),
        (httpx.Response(400, json={"description": {"errors": ["a"]}}), 'it answered 400: {"errors": ["a"]}'),
        (httpx.ProxyError("407 Proxy Authentication Required"), "the proxy did not let us through: 407 Proxy"),
    ],
    ids=str,
)
def test_what_will_not_pass_is_told_at_once(trouble, said):
    """In the controller's own words where it has some."""
    script = Scripted({"GET system_stats": trouble})
    with pytest.raises(NightFault) as found:
        controller(script).ask(LOOK)
    assert said in found.value.message
    assert found.value.hint
    assert len(script.requests) == 1


def test_a_certificate_that_is_not_proven_is_told_with_what_to_do():
    """It is no trouble that passes."""
    proof = ssl.SSLCertVerificationError(1, "certificate verify failed")
    proof.verify_message = "self-signed certificate"
    trouble = httpx.ConnectError("certificate verify failed")
    trouble.__cause__ = proof
    script = Scripted({"GET system_stats": trouble})
    with pytest.raises(NightFault, match="certificate is not proven: self-signed certificate"):
        controller(script).ask(LOOK)
    assert len(script.requests) == 1


def test_a_code_that_is_an_answer_is_none_of_the_faults():
    """A lab that is gone, say."""
    script = Scripted({"GET labs/x": error(404, "Lab not found: x")})
    answer = controller(script).ask(Call(method="GET", path="labs/x", what="look", step="clean", allows=(404,)))
    assert (answer.is_gone, answer.value) == (True, None)


def test_what_may_be_done_once_only_is_not_repeated_blindly():
    """An import whose answer is lost may have made a lab."""
    script = Scripted({"POST import": httpx.ReadTimeout("slow")})
    with pytest.raises(NightFault):
        controller(script).ask(ORDER)
    assert len(script.requests) == 1


@pytest.mark.parametrize(("was_done", "times"), [(True, 1), (False, 2)])
def test_it_is_repeated_only_where_it_was_not_done(was_done, times):
    """What finds out is asked in between."""
    script = Scripted({"POST import": (PAGE_502, {"id": "new"})})
    answer = controller(script).ask(ORDER, done=lambda: {"id": "there"} if was_done else None)
    assert (answer.value, len(script.requests)) == ({"id": "there" if was_done else "new"}, times)


def test_one_that_was_late_beyond_all_patience_is_looked_for_once():
    """An import may take longer than a night has time for, and has made its lab nevertheless."""
    script, clock = Scripted({"POST import": httpx.ReadTimeout("slow")}), WoundClock()
    answer = controller(script, clock=clock).ask(
        ORDER, deadline=Deadline(ends_at_s=0, clock=clock), done=lambda: {"id": "there"}
    )
    assert (answer.value, len(script.requests)) == ({"id": "there"}, 1)


def test_what_a_controller_says_obeys_nobody():
    """A page with escape sequences, or of a megabyte, is one short line."""
    script = Scripted({"GET system_stats": error(400, "bad\x1b[2J\nline " + "x" * 100_000)})
    with pytest.raises(NightFault) as found:
        controller(script).ask(LOOK)
    assert "\x1b" not in found.value.message
    assert "\n" not in found.value.message
    assert len(found.value.message) < 500


def test_the_trace_has_every_exchange_and_no_body():
    """Those that were never answered, too."""
    script = Scripted({"GET system_stats": (httpx.ReadTimeout("slow"), {"secret": "very-secret"})})
    one = controller(script)
    one.ask(LOOK)
    first, second = [json.loads(line) for line in one.trace.text().splitlines()]
    assert (first["status"], first["failure"]) == (None, "ReadTimeout")
    assert (second["method"], second["path"], second["status"]) == ("GET", "/api/v0/system_stats", 200)
    assert second["received_bytes"] == len('{"secret":"very-secret"}')
    assert "very-secret" not in one.trace.text()


def test_a_part_of_a_path_is_one():
    """An id that a controller tells leads nowhere else."""
    assert below("labs", "../users", "a b?c") == "labs/..%2Fusers/a%20b%3Fc"


def test_closing_logs_out_and_minds_no_trouble():
    """A controller that is gone is no reason to fail."""
    script = Scripted({"DELETE logout": httpx.ConnectError("gone")})
    controller(script).close()
    assert script.asked == ["DELETE logout"]
