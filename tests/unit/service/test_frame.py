"""What is around every page: escaped text, a navigation of what one may call, files by what is in them."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from fastapi import APIRouter, FastAPI, Request

from flashferry.core.redaction import keep_secret
from flashferry.service import access
from flashferry.service.app import build_app
from flashferry.service.errors import Conflict
from flashferry.service.pages import assets
from flashferry.service.pages.frame import link, problem_page, view_page
from flashferry.service.principal import Actor, Grant, Role, Via
from tests.unit.service.client import TestClient

NASTY = "<script>alert(1)</script>\x1b[31m\u202e'\"&"


def actor(*roles: Role) -> Actor:
    return Actor(name="ada", via=Via.SESSION, grants=frozenset(Grant(role=role) for role in roles))


def client(service, router: APIRouter, who: Actor | None = None, csrf: str = "c-s-r-f") -> TestClient:
    app = FastAPI()
    app.state.service = service

    @app.middleware("http")
    async def signed_in(request: Request, call_next):
        request.state.actor = who
        request.state.csrf = csrf
        return await call_next(request)

    app.include_router(router)
    app.state.routes = access.routes_in([router])
    return TestClient(app, raise_server_exceptions=True)


@pytest.fixture
def router():
    made = APIRouter()

    @view_page(made, "/things/{name}", "problem.html")
    def things(name: str):
        return {"title": name, "detail": NASTY, "hint": ""}

    return made


def test_text_of_whatever_origin_stays_text(service, router):
    """No element, no control character, no turned writing comes out of a name."""
    text = client(service, router, actor(Role.VIEWER)).get("/things/x").text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202e&#39;&#34;&amp;" in text


def test_a_known_secret_is_on_no_page(service, router):
    """Whatever a device quoted."""
    keep_secret("hunter2hunter2")
    path = "/things/hunter2hunter2"
    assert "hunter2" not in client(service, router, actor(Role.VIEWER)).get(path).text.replace(path, "")


def test_nothing_of_a_page_is_kept_by_browsers(service, router):
    """Who signs out leaves nothing behind the back button."""
    assert client(service, router).get("/things/x").headers["cache-control"] == "no-store"


def test_a_view_may_ask_for_the_request_itself(service):
    """Under whatever name."""
    made = APIRouter()

    @view_page(made, "/asked", "problem.html")
    def asked(asked_for: Request):
        return {"title": asked_for.url.path, "detail": "", "hint": ""}

    browser = client(service, made)
    assert "/asked" in browser.get("/asked").text


def test_the_navigation_has_what_one_may_call(service, router, monkeypatch):
    """A page that is not there, or not for him, is not offered."""
    monkeypatch.setattr(
        "flashferry.service.pages.frame.ROUTES",
        {("GET", "/runs"): access.VIEWS, ("GET", "/admin"): access.ADMINISTERS, ("GET", "/plans"): access.VIEWS},
    )
    for path in ("/runs", "/admin"):
        router.add_api_route(path, lambda request: None)
    shown = client(service, router, actor(Role.VIEWER)).get("/things/x").text
    assert 'href="/runs"' in shown
    assert 'href="/admin"' not in shown
    assert 'href="/plans"' not in shown
    assert 'href="/admin"' in client(service, router, actor(Role.ADMIN)).get("/things/x").text


def test_nobody_signed_in_sees_no_navigation(service, router):
    """The page to sign in has the same base."""
    assert "<nav" not in client(service, router).get("/things/x").text


@pytest.mark.parametrize(
    ("path", "accept", "is_page"),
    [
        ("/runs/x", "text/html,*/*", True),
        ("/runs/x", "*/*", False),
        ("/api/v1/runs/x", "text/html", False),
    ],
)
def test_a_problem_is_a_page_for_people_only(service, path, accept, is_page):
    """Programs get RFC 9457."""
    made = APIRouter()
    found = []

    @made.get(path)
    async def fails(request: Request):
        answer = await problem_page(request, Conflict("no", hint="do"), HTTPStatus.CONFLICT)
        found.append(answer)
        return answer

    answer = client(service, made).get(path, headers={"accept": accept})
    assert (found[0] is not None) is is_page
    if is_page:
        assert answer.status_code == 409
        assert "no" in answer.text


@pytest.mark.parametrize(
    ("sentence", "is_raised"),
    [("the plan is old", True), ("'flashferry plan' says why", False), ("`x` is no y", False)],
)
def test_a_quoted_command_at_the_beginning_is_spelled_as_it_is(service, sentence, is_raised):
    """The first letter of any other sentence is raised by the stylesheet."""
    made = APIRouter()

    @made.get("/failing")
    async def fails(request: Request):
        return await problem_page(request, Conflict(sentence, hint=sentence), HTTPStatus.CONFLICT)

    text = client(service, made).get("/failing", headers={"accept": "text/html"}).text
    assert text.count('<p class="as-is">') == (0 if is_raised else 2)


@pytest.mark.parametrize(("accept", "path"), [("text/html", "/nosuch"), ("*/*", "/nosuch"), ("*/*", "/api/v1/nosuch")])
def test_what_is_not_there_is_told_to_people_and_programs(service, accept, path):
    """A page leads back to Tonight; a call of the API that another release has is told as our client knows it."""
    answer = TestClient(build_app(service)).get(path, headers={"accept": accept})
    assert answer.status_code == 404
    told = answer.text if accept == "text/html" else answer.json()["detail"]
    assert ("GET here: Not Found" if path.startswith("/api/") else "there is no such page") in told
    assert ('href="/tonight">Back' in answer.text) is (accept == "text/html")


def test_names_in_links_are_quoted_whole():
    """A slash in a name is no further part of the path."""
    assert link("/runs", "a/b", "devices", "r 1?#") == "/runs/a%2Fb/devices/r%201%3F%23"


def test_files_of_pages_are_kept_by_browsers_under_what_is_in_them(service):
    """The name changes with the contents; without it the browser asks again."""
    with TestClient(build_app(service)) as browser:
        path = assets.asset("service.css")
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
        assert "immutable" in answer.headers["cache-control"]
        plain = browser.get("/assets/service.css")
        assert plain.headers["cache-control"] == "no-cache"
        again = browser.get("/assets/service.css", headers={"if-none-match": plain.headers["etag"]})
        assert again.status_code == 304
        assert browser.get("/assets/base.html").status_code == 404


def test_a_route_without_a_row_is_not_served(service, monkeypatch):
    """Nobody could say who may call it."""
    made = APIRouter()
    made.add_api_route("/unknown", lambda: None)
    monkeypatch.setattr("flashferry.service.app.ROUTERS", (made,))
    with pytest.raises(LookupError, match="GET /unknown has no row"):
        build_app(service)


def test_the_first_page_is_tonight(service):
    """What somebody types is the service's name alone."""
    with TestClient(build_app(service), follow_redirects=False) as browser:
        answer = browser.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/tonight")
