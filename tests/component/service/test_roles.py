"""Each route x each role x each site, as `rights.py` has it, by the calls of `calls.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from flashferry.service.access import ROUTES, routes_in
from flashferry.service.app import ROUTERS
from flashferry.service.people.accounts import give_grants
from flashferry.service.principal import Grant, Role
from flashferry.store.journal import Journal
from flashferry.store.service import people
from tests.component.service.calls import STREAMS, Call, World, call_of, lacking, world
from tests.component.service.rights import RIGHTS, WITHOUT_SITE, Right
from tests.served import ADMIN, Browser

REFUSED = frozenset({401, 403, 404})
KEPT_BY_LOOKING = frozenset({"audit", "sessions", "tokens"})
"""What a look may write: its refusal, and that somebody was there."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Somebody who calls, and whether he is let in."""

    name: str
    grants: tuple[str, ...]
    is_let_in: bool


def cases(row: Right) -> Iterator[Case]:
    """Yield everybody who makes a difference to a row; objects are at AMS, and `maker` made them."""
    yield Case(name="nothing", grants=(), is_let_in=not row.roles)
    for role in Role:
        is_let_in = not row.roles or role in row.roles
        yield Case(name=f"{role}-everywhere", grants=(role.value,), is_let_in=is_let_in)
        if row.is_per_site and role not in WITHOUT_SITE:
            yield Case(name=f"{role}-here", grants=(f"{role}@AMS",), is_let_in=is_let_in)
            yield Case(name=f"{role}-elsewhere", grants=(f"{role}@LIM",), is_let_in=False)
    if row.roles and row.roles != frozenset(Role):
        others = tuple(role.value for role in Role if role not in row.roles)
        yield Case(name=f"all-{'-'.join(others)}", grants=others, is_let_in=False)


def let_in(answer: httpx.Response, call: Call) -> bool:
    return answer.status_code < 400 or answer.status_code in call.may_answer


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> World:
    """Return one service for all rows: each call that is let in has objects of its own."""
    return world(tmp_path_factory.mktemp("service"))


def browser(made: World, name: str, grants: Iterable[str]) -> Browser:
    """Return a browser of somebody with grants; there is one person for each name."""
    with made.served.service.database.reading() as database:
        is_known = people.person(database, name) is not None
    if not is_known:
        made.served.person(name, *grants)
    return made.served.browser(name)


def sent_with(made: World, call: Call) -> dict[str, Any]:
    """Return what is sent with a call, its objects made."""
    if call.content is None:
        return {"json": call.json, "form": None if call.form is None else dict(call.form)}
    kind, content = call.content(made)
    return {"content": content, "headers": {"Content-Type": kind}}


def ask(
    made: World, route: tuple[str, str], who: Browser | None, names: Mapping[str, str], sent: dict[str, Any]
) -> httpx.Response:
    method, path = route
    for name, value in names.items():
        path = path.replace(f"{{{name}}}", value)
    call = call_of(route)
    assert call is not None
    return made.served.call(method, path + call.query, who, **sent)


def test_every_route_has_a_row_and_an_entry(made):
    """Nothing is served that is not tried here, and nothing stands in a table that is not served."""
    assert set(RIGHTS) == set(ROUTES), "decide its roles, then add it to tests/component/service/rights.py"
    assert lacking() == [], "add them to tests/component/service/calls.py"
    assert routes_in(ROUTERS) == set(ROUTES)
    assert made.served.app.state.routes == set(ROUTES)


@pytest.mark.parametrize("route", sorted(RIGHTS), ids=" ".join)
def test_who_may_call(made, route):
    """Whoever the row names is let in, at the object's site; nobody else is, whatever other roles he has."""
    row, call = RIGHTS[route], call_of(route)
    assert call is not None, "add it to tests/component/service/calls.py"
    names, sent = call.arrange(made, "maker"), sent_with(made, call)
    if row.is_public:
        assert let_in(ask(made, route, None, names, sent), call)
        return
    is_look = route[0] == "GET"
    callers = [(case, browser(made, case.name, case.grants)) for case in cases(row)]
    before = state_of(made) if is_look else ""
    assert ask(made, route, None, names, sent).status_code == 401
    for case, who in callers:
        if not case.is_let_in:
            answer = ask(made, route, who, names, sent)
            assert answer.status_code in REFUSED, f"{case.name} is let in: {answer.status_code} {answer.text[:200]}"
        elif route not in STREAMS:
            own = names if is_look else call.arrange(made, case.name)
            answer = ask(made, route, who, own, sent if is_look else sent_with(made, call))
            assert let_in(answer, call), f"{case.name} is refused: {answer.status_code} {answer.text[:300]}"
    if is_look:
        assert state_of(made) == before, "a look changed something"


OF_A_RUN = sorted(route for route in RIGHTS if "{run_id}" in route[1])


@pytest.mark.parametrize("route", OF_A_RUN, ids=" ".join)
def test_a_run_at_two_sites(made, route):
    """Who sees one of them looks, and is told of no device of the other; who changes something needs both."""
    row, call = RIGHTS[route], call_of(route)
    assert call is not None
    names = call.arrange(made, "maker")
    with Journal(made.served.service.state) as journal:
        more = {"address": "x", "port": 22, "platform": "ios", "wave": 0, "image": "new.bin"}
        journal.add_device(names["run_id"], host="gva-r9", site="GVA", **more)
    for role in sorted(row.roles - WITHOUT_SITE):
        here = browser(made, f"{role}-here", (f"{role}@AMS",))
        answer = ask(made, route, here, names, sent_with(made, call))
        if route[0] == "GET":
            assert let_in(answer, call), f"{role} is refused: {answer.status_code} {answer.text[:300]}"
            assert "gva-r9" not in answer.text
            assert "GVA" not in answer.text
        else:
            assert answer.status_code == 403, f"{role}: {answer.status_code} {answer.text[:300]}"
        elsewhere = browser(made, f"{role}-elsewhere", (f"{role}@LIM",))
        assert ask(made, route, elsewhere, names, sent_with(made, call)).status_code == 404


@pytest.mark.parametrize(
    "route", sorted(route for route, row in RIGHTS.items() if route[0] != "GET" and not row.is_public), ids=" ".join
)
def test_a_browser_brings_the_forms_token(made, route):
    """Every change that a cookie can make is refused without it, and where it was begun elsewhere."""
    call = call_of(route)
    assert call is not None
    who = browser(made, "everything", Role)
    names, sent = call.arrange(made, "everything"), sent_with(made, call)
    before = state_of(made)
    forged = Browser(who.session_id, "guess")
    elsewhere = sent.get("headers", {}) | {"Origin": "http://evil.example", "Sec-Fetch-Site": ""}
    for one, given in ((forged, sent), (who, sent | {"headers": elsewhere})):
        answer = ask(made, route, one, names, given)
        assert answer.status_code == 403, f"{answer.status_code} {answer.text[:200]}"
    assert state_of(made) == before


@pytest.mark.parametrize("route", sorted(route for route, row in RIGHTS.items() if row.not_own), ids=" ".join)
def test_nobody_decides_about_what_he_made(tmp_path, route):
    """Also with every role there is; an admin is no approver by himself."""
    call = call_of(route)
    assert call is not None
    made = world(tmp_path)
    give_grants(made.served.service, ADMIN, "maker", [Grant(role=role) for role in Role])
    answer = ask(made, route, made.served.browser("maker"), call.arrange(made, "maker"), sent_with(made, call))
    assert answer.status_code in {403, 409}, answer.text


def state_of(made: World) -> str:
    """Return everything that the service keeps but what a look may write."""
    with made.served.service.database.reading() as database:
        return repr([(name, _rows(database, name)) for name in _tables(database) if name not in KEPT_BY_LOOKING])


def _tables(database: sqlite3.Connection) -> list[str]:
    return [
        row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]


def _rows(database: sqlite3.Connection, name: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in database.execute(f"SELECT * FROM {name}")]
