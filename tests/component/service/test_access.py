"""The table of access is held in front of every route, whoever asks and by whatever means."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from ipaddress import ip_network
from pathlib import Path

import anyio
import pytest
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse
from starlette.types import Message

from flashferry.core.values import replace
from flashferry.service.access import ADMINISTERS, MOST_BODY_BYTES, MOST_PLAN_BYTES, OPERATES, PUBLIC, SELF, VIEWS
from flashferry.service.api import limits as counted_bodies
from flashferry.service.api.depends import TheActor, csrf_of
from flashferry.service.api.limits import OTHERS, SIGNED_IN, Bodies, Quota
from flashferry.service.api.problems import BodyRefused, status_of
from flashferry.service.settings import ProxySettings, ServiceSettings
from flashferry.store.service import people as rows
from flashferry.store.service.people import end_sessions_of, revoke_token
from tests.patience import PATIENCE_S
from tests.served import URL, Served, serve

router = APIRouter()
CALLED = []
MIDST: list[Callable[[], None]] = []
"""What the stream does once, in its midst."""


@router.get("/open")
def _open(actor: TheActor) -> dict[str, str]:
    return {"name": actor.name, "address": actor.address}


@router.post("/open")
def _post_open() -> dict[str, str]:
    return {}


@router.get("/mine")
def _mine(actor: TheActor, request: Request) -> dict[str, object]:
    grants = sorted(f"{one.role}@{one.site}" for one in actor.grants)
    return {"name": actor.name, "via": actor.via, "grants": grants, "csrf": csrf_of(request), "from": actor.address}


@router.get("/look")
def _look() -> dict[str, str]:
    return {}


@router.post("/change")
async def _change(request: Request) -> dict[str, object]:
    CALLED.append(1)
    form = await request.form() if "form" in request.headers.get("content-type", "") else {}
    return {key: value for key, value in form.items() if isinstance(value, str)}


@router.post("/rule")
def _rule() -> dict[str, str]:
    return {}


@router.get("/stream")
async def _stream(count: int = 40) -> StreamingResponse:
    async def lines() -> AsyncIterator[bytes]:
        for number in range(count):
            yield f"{number}\n".encode()
            await anyio.sleep(0.01)
            if number == 5 and MIDST:
                await anyio.to_thread.run_sync(MIDST.pop())

    return StreamingResponse(lines())


@router.post("/said")
@router.post("/kept")
async def _said(request: Request) -> int:
    return len(await request.body())


TABLE = {
    ("POST", "/said"): PUBLIC,
    ("POST", "/kept"): OPERATES,
    ("GET", "/stream"): VIEWS,
    ("GET", "/open"): PUBLIC,
    ("POST", "/open"): PUBLIC,
    ("GET", "/mine"): SELF,
    ("GET", "/look"): VIEWS,
    ("POST", "/change"): OPERATES,
    ("POST", "/rule"): ADMINISTERS,
}
PROXY = ProxySettings(
    networks=(ip_network("10.0.0.0/24"),),
    user_header="X-Remote-User",
    groups_header="X-Remote-Groups",
    roles={"noc": ("operator@AMS",), "boss": ("admin",)},
)


@pytest.fixture
def served(tmp_path) -> Served:
    CALLED.clear()
    return serve(tmp_path, routers=(router,), table=TABLE)


@pytest.fixture
def proxied(tmp_path) -> Served:
    return serve(tmp_path, ServiceSettings(proxy=PROXY), routers=(router,), table=TABLE)


def test_a_route_without_a_row_is_not_served(tmp_path):
    """Nobody could say who may call it, so the service does not start."""
    with pytest.raises(LookupError, match="POST /rule has no row"):
        serve(tmp_path, routers=(router,), table={key: row for key, row in TABLE.items() if key[1] != "/rule"})


def test_a_router_within_a_router_is_not_served(tmp_path):
    """FastAPI hides the routes of such a one, and with them whether they have rows."""
    outer = APIRouter()
    outer.include_router(router)
    with pytest.raises(LookupError, match="a route that can be guarded"):
        serve(tmp_path, routers=(outer,), table=TABLE)


def test_nobody_is_let_in_without_signing_in(served):
    """401 with what to do; what is public answers."""
    answer = served.call("GET", "/mine")
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Sign in" in answer.json()["hint"]
    assert served.call("GET", "/open").json() == {"name": "anonymous", "address": "192.0.2.1"}


def test_a_browser_is_shown_where_to_sign_in(served):
    """A page leads to the sign-in and from there back; a program is answered 401."""
    answer = served.call("GET", "/look?site=AMS&x=%2f", headers={"Accept": "text/html,*/*"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=/look%3Fsite%3DAMS%26x%3D%252f")


@pytest.mark.parametrize(
    ("path", "method", "role", "status"),
    [
        ("/mine", "GET", None, 200),
        ("/look", "GET", None, 403),
        ("/look", "GET", "viewer", 200),
        ("/look", "GET", "approver", 200),
        ("/change", "POST", "viewer", 403),
        ("/change", "POST", "admin", 403),
        ("/change", "POST", "operator", 200),
        ("/rule", "POST", "operator", 403),
        ("/rule", "POST", "admin", 200),
    ],
)
@pytest.mark.parametrize("means", ["browser", "token"])
def test_roles_are_held(served, path, method, role, status, means):
    """Each of the row's roles, and no other: an admin is no operator by itself."""
    served.person("ann", *([role] if role else []))
    assert served.call(method, path, getattr(served, means)("ann")).status_code == status


def test_a_token_counts_alone(served):
    """A worthless token is refused, though the browser has a good session beside it."""
    browser = served.browser(served.person("ann", "viewer"))
    answer = served.call("GET", "/look", browser, headers={"Authorization": "Bearer ffy_none"})
    assert answer.status_code == 401


def test_a_token_needs_nothing_of_a_form(served):
    """No browser sends it by itself, so there is nothing to prove besides."""
    token = served.token(served.person("ann", "operator"))
    assert served.call("POST", "/change", token).status_code == 200
    assert served.call("GET", "/mine", token).json()["csrf"] == ""


def test_a_token_has_at_most_what_its_person_has(served):
    """It may be limited to less; what its person lost is lost to it."""
    served.person("ann", "operator@AMS", "viewer")
    for limits, grants in (
        ((), ["operator@AMS", "viewer@*"]),
        (("operator",), ["operator@AMS"]),
        (("operator@LIM", "admin"), []),
        (("viewer@LIM",), ["viewer@LIM"]),
    ):
        assert served.call("GET", "/mine", served.token("ann", *limits)).json()["grants"] == grants
    with served.service.database.writing() as database:
        rows.delete_grant(database, "ann", role="operator", site="AMS")
    assert served.call("GET", "/mine", served.token("ann", "operator")).json()["grants"] == []


def test_what_is_taken_away_is_gone_with_the_next_request(served):
    """A grant, a token, a person: nothing of it is kept between requests."""
    served.person("ann", "viewer")
    browser, token = served.browser("ann"), served.token("ann")
    assert served.call("GET", "/look", browser).status_code == 200
    with served.service.database.writing() as database:
        revoke_token(database, "t1", at="2026-11-23T20:00:00.000Z")
    assert served.call("GET", "/look", token).status_code == 401
    with served.service.database.writing() as database:
        rows.delete_grant(database, "ann", role="viewer", site="*")
    assert served.call("GET", "/look", browser).status_code == 403
    with served.service.database.writing() as database:
        rows.set_state(database, "ann", "disabled")
    assert served.call("GET", "/mine", browser).status_code == 401


def test_sessions_and_tokens_end(served):
    """After their time they are unknown."""
    served.person("ann", "viewer")
    browser, token = served.browser("ann"), served.token("ann", days=1)
    served.clock.forward(8 * 3600 + 1)
    assert served.call("GET", "/look", browser).status_code == 401
    assert served.call("GET", "/look", token).status_code == 200
    served.clock.forward(16 * 3600)
    assert served.call("GET", "/look", token).status_code == 401


def test_a_session_left_alone_only_looks(served):
    """After half an hour without a request it changes nothing any more, also when somebody comes back."""
    browser = served.browser(served.person("ann", "operator"))
    served.clock.forward(29 * 60)
    assert served.call("POST", "/change", browser).status_code == 200
    served.clock.forward(29 * 60)
    assert served.call("GET", "/mine", browser).status_code == 200
    served.clock.forward(31 * 60)
    assert served.call("GET", "/mine", browser).status_code == 200
    answer = served.call("POST", "/change", browser)
    assert answer.status_code == 403
    assert "30 min" in answer.json()["detail"]


@pytest.mark.parametrize("headers", [{"Accept": "text/event-stream"}, {"Accept": "text/html", "X-Watch": "1"}])
def test_live_data_keeps_no_session_awake(served, headers):
    """A wall screen asks by itself, by a stream or again and again; that somebody sits there does not follow."""
    browser = served.browser(served.person("ann", "operator"))
    for _ in range(4):
        served.clock.forward(10 * 60)
        served.call("GET", "/look", browser, headers=headers)
    assert served.call("POST", "/change", browser).status_code == 403


@pytest.mark.parametrize("change", ["nothing", "disabled", "less", "over"])
def test_a_stream_ends_with_what_it_was_let_in_by(served, change, monkeypatch):
    """Who is disabled in the midst of it is sent no more; who got other grants asks again."""
    monkeypatch.setattr("flashferry.service.api.guard.RECHECK_S", 0.1)
    browser = served.browser(served.person("ann", "viewer", "operator@AMS"))

    def later() -> None:
        with served.service.database.writing() as database:
            if change == "disabled":
                rows.set_state(database, "ann", "disabled")
            elif change == "less":
                rows.delete_grant(database, "ann", role="operator", site="AMS")
            elif change == "over":
                end_sessions_of(database, "ann")

    MIDST[:] = [later]
    # One that is not ended lasts as long as the patience.
    count = 40 if change == "nothing" else int(PATIENCE_S / 0.01)
    text = served.call("GET", f"/stream?count={count}", browser).text
    assert MIDST == []
    assert (text.count("\n") == count) is (change == "nothing")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": ""}, 200),
        ({"Origin": ""}, 200),
        ({"Origin": "", "Sec-Fetch-Site": ""}, 403),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": ""}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": ""}, 403),
        ({"Origin": "http://service.example.evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"X-CSRF-Token": ""}, 403),
        ({"X-CSRF-Token": "guess"}, 403),
        ({"X-CSRF-Token": "gueß"}, 403),
    ],
)
def test_a_change_is_begun_by_a_page_of_ours(served, headers, status):
    """Where it was begun and the form's token are both held; the route is not reached otherwise."""
    browser = served.browser(served.person("ann", "operator"))
    assert served.call("POST", "/change", browser, headers=headers).status_code == status
    assert len(CALLED) == (status == 200)


def test_the_token_of_another_session_is_worth_nothing(served):
    """Not even that of the same person."""
    served.person("ann", "operator")
    other = replace(served.browser("ann"), csrf=served.browser("ann").csrf)
    assert served.call("POST", "/change", other).status_code == 403


def test_the_route_reads_the_form_that_was_checked(served):
    """The token in a field is as good as that in a header, and nothing of the form is lost."""
    browser = served.browser(served.person("ann", "operator"))
    answer = served.call("POST", "/change", browser, form={"reason": "ä & b"})
    assert answer.json() == {"csrf": browser.csrf, "reason": "ä & b"}
    wrong = served.call("POST", "/change", browser, form={"csrf": "other"})
    assert wrong.status_code == 403


def test_a_form_of_several_parts_is_read_too(served):
    """As browsers send one that has a file in it."""
    browser = served.browser(served.person("ann", "operator"))
    body = f'--x\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{browser.csrf}\r\n--x--\r\n'.encode()
    sent = {"Content-Type": "multipart/form-data; boundary=x", "X-CSRF-Token": ""}
    assert served.call("POST", "/change", browser, content=body, headers=sent).status_code == 200
    for broken in (body.replace(b"--x--", b""), body.replace(browser.csrf.encode(), b"no"), b"", b"\xff" * 100):
        assert served.call("POST", "/change", browser, content=broken, headers=sent).status_code in (400, 403)


def test_a_body_of_any_size_is_not_kept(served):
    """Of who is not signed in 64 KiB are taken, of others what the route's row says, whatever they call it."""
    token = served.token(served.person("ann", "operator"))
    kinds = ("application/json", "application/x-www-form-urlencoded", "application/octet-stream", "image/png", "")
    for path, by, most in (("/said", None, 2**16), ("/kept", token, MOST_BODY_BYTES)):
        for kind in kinds:
            headers = {"Content-Type": kind}
            assert served.call("POST", path, by, content=b"x" * most, headers=headers).status_code == 200
            answer = served.call("POST", path, by, content=b"x" * (most + 1), headers=headers)
            assert (answer.status_code, f"{most:,} bytes" in answer.json()["detail"]) == (413, True)


def test_a_plan_of_ours_has_fewer_values_than_a_body_may():
    """As `plan --output` writes it, however large it is."""
    plan = (Path(__file__).parents[2] / "contract" / "golden" / "run" / "plan-file.json").read_bytes()
    body = _Body(*[plan] * (MOST_PLAN_BYTES // len(plan)))

    async def read() -> None:
        counted = _counted(Bodies(), body, most=MOST_PLAN_BYTES)
        while body.read < len(body.pieces):
            await counted.receive()

    anyio.run(read)


def test_a_form_larger_than_any_of_ours_is_not_kept(served):
    """Who is signed in cannot fill the memory by a form either, which is read before its route."""
    browser = served.browser(served.person("ann", "operator"))
    assert served.call("POST", "/change", browser, form={"x": "y" * MOST_BODY_BYTES}).status_code == 413


class _Body:
    """A request's body in pieces; `read` counts those that were taken."""

    def __init__(self, *pieces: bytes, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        self.pieces, self.read = pieces, 0
        self.request = Request({"type": "http", "headers": list(headers)}, self._receive)

    async def _receive(self) -> Message:
        self.read += 1
        return {"type": "http.request", "body": self.pieces[self.read - 1], "more_body": self.read < len(self.pieces)}


def _counted(bodies: Bodies, body: _Body, *, most: int = 2**20, quota: Quota = SIGNED_IN, owner: str = "ann"):
    return bodies.counted(body.request, most, quota=quota, owner=lambda: owner)


def test_a_body_that_says_it_is_too_large_is_not_read():
    """Nothing is taken of what is refused anyway."""
    body = _Body(b"x", headers=[(b"content-length", b"101")])
    with pytest.raises(BodyRefused):
        anyio.run(_counted(Bodies(), body, most=100).receive)
    assert body.read == 0


@pytest.mark.parametrize("quota", [SIGNED_IN, OTHERS], ids=["signed in", "others"])
def test_all_bodies_together_are_bounded(quota):
    """What is held of others leaves no room, but to the other kind; once they are answered there is room again."""
    bodies, other = Bodies(), {SIGNED_IN: OTHERS, OTHERS: SIGNED_IN}[quota]
    size = quota.first_bytes + 50
    for number in range(quota.most_bytes // quota.share_bytes + 1):
        bodies.hold(quota, f"other {number}", min(quota.share_bytes, quota.most_bytes - bodies.held_bytes(quota)))
    assert bodies.held_bytes(quota) == quota.most_bytes
    assert bodies.hold(other, "ann", 1) is None
    refused = _counted(bodies, _Body(b"x" * size), quota=quota, most=2 * size)
    with pytest.raises(BodyRefused) as caught:
        anyio.run(refused.receive)
    assert (status_of(caught.value.error), caught.value.error.more) == (503, {"retry_after_s": 10})
    refused.let_go()
    bodies.hold(quota, "other 0", -quota.share_bytes)
    anyio.run(_counted(bodies, _Body(b"x" * size), quota=quota, most=2 * size).receive)


def test_a_person_has_a_share_and_others_are_served():
    """One holds all that one may: another body of theirs is refused by 429, and another person's is read."""
    bodies = Bodies()
    assert bodies.hold(SIGNED_IN, "ann", SIGNED_IN.share_bytes) is None
    with pytest.raises(BodyRefused) as caught:
        anyio.run(_counted(bodies, _Body(b"x")).receive)
    assert (status_of(caught.value.error), caught.value.error.more) == (429, {"retry_after_s": 10})
    anyio.run(_counted(bodies, _Body(b"x"), owner="bob").receive)


def test_a_small_body_of_a_person_is_read_however_much_others_hold():
    """Four people hold everything; a fifth one's stop of a run, say, comes through."""
    bodies = Bodies()
    for number in range(4):
        bodies.hold(SIGNED_IN, f"other {number}", SIGNED_IN.most_bytes // 4)
    assert SIGNED_IN.most_bytes // 4 < SIGNED_IN.share_bytes
    anyio.run(_counted(bodies, _Body(b"x" * 1000)).receive)


def test_bodies_that_come_together_have_room_in_turn():
    """Ten announce as much as a person may have: some have their whole room at once, the others are refused at once."""
    bodies, found = Bodies(), []
    size = SIGNED_IN.share_bytes
    for number in range(10):
        body = _Body(b"x", headers=[(b"content-length", str(size).encode())])
        try:
            anyio.run(_counted(bodies, body, most=size, owner=f"p{number}").receive)
            found.append(200)
        except BodyRefused as error:
            found.append(status_of(error.error))
            assert not body.read
    assert found[:3] == [200] * 3
    assert set(found[3:]) == {503}


def test_a_body_has_a_time(monkeypatch):
    """Who sends a byte and then nothing is refused by 408; who sends steadily has a second for each 64 KiB more."""
    monkeypatch.setattr(counted_bodies, "BODY_S", 0.01)

    class Slow(_Body):
        async def _receive(self) -> Message:
            if self.read == 1:
                await anyio.sleep_forever()
            return await super()._receive()

    async def read(*pieces: bytes) -> None:
        body = _counted(Bodies(), Slow(*pieces))
        for _ in pieces:
            await body.receive()

    with pytest.raises(BodyRefused) as caught:
        anyio.run(read, b"x", b"x")
    assert status_of(caught.value.error) == 408
    assert "1 bytes by then" in caught.value.error.sentence


def test_the_end_of_a_client_has_no_time(monkeypatch):
    """A stream is sent for hours: what waits for its reader's end, after the body, is not cut."""
    monkeypatch.setattr(counted_bodies, "BODY_S", 0.0)

    class Leaves(_Body):
        async def _receive(self) -> Message:
            if self.read == len(self.pieces):
                await anyio.sleep(0.05)
                return {"type": "http.disconnect"}
            return await super()._receive()

    async def read() -> Message:
        body = _counted(Bodies(), Leaves(b"x" * 2**17))
        await body.receive()
        return await body.receive()

    assert anyio.run(read) == {"type": "http.disconnect"}


@pytest.mark.parametrize("piece", [b"[],", b'{"a":1},', b"a&", b"1,"])
def test_a_body_of_tiny_values_is_not_parsed(served, piece):
    """A mebibyte of them would be tens of megabytes once parsed; a list as long as any may be passes."""
    token = served.token(served.person("ann", "operator"))
    answer = served.call("POST", "/kept", token, content=piece * (MOST_BODY_BYTES // len(piece)))
    assert (answer.status_code, "65,536 values" in answer.json()["detail"]) == (413, True)
    names = json.dumps({"names": ["r1"] * 10_000})
    assert served.call("POST", "/kept", token, content=names.encode()).status_code == 200


def test_a_body_is_let_go_with_its_answer(served):
    """Also where the answer is a refusal, or the route fails; else the service would be full for good."""
    token = served.token(served.person("ann", "operator"))
    for _ in range(SIGNED_IN.most_bytes // MOST_BODY_BYTES + 2):
        assert served.call("POST", "/kept", token, content=b"x" * MOST_BODY_BYTES).status_code == 200
    for _ in range(SIGNED_IN.most_bytes // MOST_BODY_BYTES + 2):
        assert served.call("POST", "/kept", token, content=b"x" * (MOST_BODY_BYTES + 1)).status_code == 413


def test_a_path_and_a_query_have_text_that_can_be_kept(served):
    """NUL, and more than any name has, are refused before the route is asked."""
    token = served.token(served.person("ann", "operator"))
    for query in ("count=%00", f"count={'1' * 3000}", "%00=1"):
        answer = served.call("GET", f"/stream?{query}", token)
        assert answer.status_code == 422
        assert "query: expected text" in answer.json()["detail"]


def test_a_request_of_two_lengths_is_refused(served):
    """It may be two requests to a proxy and one to us, or the other way round."""
    headers = [("Content-Length", "5"), ("Transfer-Encoding", "chunked")]
    answer = served.call("POST", "/open", content=b"hello", headers=headers)
    assert (answer.status_code, answer.headers["connection"]) == (400, "close")
    assert "content-security-policy" in answer.headers


def test_the_way_in_is_not_taken_from_another_page(served):
    """Somebody who signs another in as himself would see what that one does (login CSRF)."""
    assert served.call("POST", "/open").status_code == 200
    assert served.call("POST", "/open", headers={"Origin": "http://evil.example"}).status_code == 403
    assert served.call("POST", "/open", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403


def test_every_answer_has_the_headers(served):
    """Errors, too; and what an answer says for itself stays."""
    for path in ("/open", "/mine", "/nowhere"):
        headers = served.call("GET", path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers


def test_https_is_kept(tmp_path):
    """Where browsers come by HTTPS the cookie is for that alone, and they are told to stay."""
    served = serve(tmp_path, ServiceSettings(url=URL.replace("http", "https")), routers=(router,), table=TABLE)
    browser = served.browser(served.person("ann", "operator"))
    answer = served.call("POST", "/change", browser)
    assert answer.status_code == 200
    assert "max-age" in answer.headers["strict-transport-security"]
    assert served.call("GET", "/mine", headers={"Cookie": f"flashferry={browser.session_id}"}).status_code == 401


def test_a_refusal_is_in_the_audit(served):
    """Who, what, why; the second time it is counted."""
    browser = served.browser(served.person("ann", "viewer"))
    for _ in range(5):
        served.call("POST", "/change", browser)
    (entry,) = [one for one in served.audit() if one.action == "access.refused"]
    assert (entry.actor, entry.object, entry.outcome) == ("ann", "route:POST /change", "refused")
    assert "operator" in entry.reason
    served.clock.forward(61)
    served.call("POST", "/change", browser)
    assert "4 times more" in served.audit()[-1].reason


def test_nothing_secret_is_in_the_audit_or_in_an_answer(served):
    """Neither what was shown nor what was expected."""
    served.person("ann", "viewer")
    browser, token = served.browser("ann"), served.token("ann")
    texts = []
    for by in (browser, token):
        texts += [served.call("POST", "/change", by).text, served.call("GET", "/nowhere", by).text]
    texts.append(served.call("POST", "/change", browser, headers={"X-CSRF-Token": "wrong"}).text)
    kept = " ".join([*texts, *(repr(entry) for entry in served.audit())])
    for secret in (browser.session_id, browser.csrf, token.text):
        assert secret not in kept


def test_the_proxy_signs_people_in(proxied):
    """From its address, with what follows from his groups; whoever else says so is anonymous."""
    sent = {"X-Remote-User": "Ann", "X-Remote-Groups": "noc, other", "X-Forwarded-For": "198.51.100.7"}
    answer = proxied.call("GET", "/mine", headers=sent, address="10.0.0.5").json()
    assert (answer["name"], answer["via"], answer["grants"]) == ("ann", "header", ["operator@AMS"])
    assert answer["from"] == "198.51.100.7"
    assert proxied.call("GET", "/mine", headers=sent, address="10.0.1.5").status_code == 401
    sent["X-Remote-Groups"] = "boss"
    assert proxied.call("GET", "/mine", headers=sent, address="10.0.0.5").json()["grants"] == ["admin@*"]
    assert [entry.action for entry in proxied.audit()][:2] == ["user.made", "user.granted"]


def test_whom_the_proxy_signs_in_needs_the_form_too(proxied):
    """His browser is signed in by itself, with every request of whatever page."""
    sent = {"X-Remote-User": "ann", "X-Remote-Groups": "noc"}
    csrf = proxied.call("GET", "/mine", headers=sent, address="10.0.0.5").json()["csrf"]
    assert proxied.call("POST", "/change", headers=sent, address="10.0.0.5").status_code == 403
    sent |= {"Origin": URL, "X-CSRF-Token": csrf}
    assert proxied.call("POST", "/change", headers=sent, address="10.0.0.5").status_code == 200
    assert proxied.call("POST", "/change", headers=sent | {"Origin": "http://e"}, address="10.0.0.5").status_code == 403


def test_no_cookie_is_a_proxys_session(proxied):
    """What stands for it in the table is the digest of nothing."""
    proxied.call("GET", "/mine", headers={"X-Remote-User": "ann"}, address="10.0.0.5")
    assert proxied.call("GET", "/mine", headers={"Cookie": "flashferry=header:ann"}).status_code == 401


def test_a_local_name_is_not_had_by_a_header(proxied):
    """The proxy's `root` is not the admin of this service; nor is there a second `system`."""
    proxied.person("root", "admin")
    for name in ("root", "system", "anonymous", "a b", "x" * 65):
        assert proxied.call("GET", "/mine", headers={"X-Remote-User": name}, address="10.0.0.5").status_code == 403


def test_a_header_that_is_there_twice_is_not_believed(proxied):
    """A proxy that adds to what clients send would let them choose."""
    request = [("X-Remote-User", "root"), ("X-Remote-User", "ann")]
    answer = proxied.call("GET", "/mine", headers=request, address="10.0.0.5")
    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 10.0.0.9", "198.51.100.7"),
        ("<script>", "10.0.0.5"),
        ("", "10.0.0.5"),
        ("10.0.0.8", "10.0.0.5"),
    ],
)
def test_the_address_is_what_the_proxy_saw(proxied, said, address):
    """The last one that is none of our proxies': what stands before it, the client wrote himself."""
    headers = {"X-Forwarded-For": said}
    assert proxied.call("GET", "/open", headers=headers, address="10.0.0.5").json()["address"] == address
    assert proxied.call("GET", "/open", headers=headers).json()["address"] == "192.0.2.1"
