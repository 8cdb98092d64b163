"""Signing in and out, tokens and people, as browsers and programs do it."""

from __future__ import annotations

import logging

import httpx
import pytest

from flashferry.service.api.guard import safe_next
from flashferry.service.people.accounts import NewPerson, add_person
from flashferry.service.settings import ServiceSettings
from tests.served import ADMIN, URL, Browser, Served, Token, serve

LONG = "correct horse battery"
PAGE = {"Accept": "text/html"}
HOSTILE = "<script>alert(1)</script>'\"&\u202e\x1b[31m"


@pytest.fixture
def served(tmp_path) -> Served:
    made = serve(tmp_path)
    made.person("root", "admin")
    new = NewPerson(name="ann", password=LONG, display=HOSTILE, email="<b>@x")
    add_person(made.service, ADMIN, new, made.app.state.password_login.passwords)
    return made


def by(answer: httpx.Response) -> Browser:
    name, _, value = answer.headers["set-cookie"].split(";")[0].partition("=")
    assert name == "flashferry"
    return Browser(value, answer.json()["csrf"] if answer.content else "")


def login(served: Served, password: str = LONG, **others: object) -> httpx.Response:
    return served.call("POST", "/api/v1/login", json={"name": "ann", "password": password}, **others)  # type: ignore[arg-type]


def test_a_program_signs_in_and_out(served):
    """A cookie for what follows, a token for its changes; after it there is no session."""
    browser = by(login(served))
    told = served.call("GET", "/api/v1/me", browser).json()
    assert (told["name"], told["via"], told["grants"], told["csrf"]) == ("ann", "session", [], browser.csrf)
    assert served.call("POST", "/api/v1/logout", browser).status_code == 204
    assert served.call("GET", "/api/v1/me", browser).status_code == 401
    assert [one.action for one in served.audit()][-2:] == ["logout", "access.refused"]


def test_a_person_signs_in_and_comes_to_what_he_wanted(served):
    """By the form; a wrong password shows it again with what was wrong, and nothing else of what was typed."""
    form = {"name": "ann", "password": "wrong horse battery", "next": "/runs?site=AMS"}
    answer = served.call("POST", "/login", form=form, headers=PAGE)
    assert answer.status_code == 401
    assert 'value="/runs?site=AMS"' in answer.text
    assert "wrong horse" not in answer.text
    assert "set-cookie" not in answer.headers
    answer = served.call("POST", "/login", form={**form, "password": LONG}, headers=PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?site=AMS")
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=lax" in answer.headers["set-cookie"]


def test_the_cookie_is_for_https_alone_where_there_is_https(tmp_path):
    """Its name says so, and browsers hold it to that."""
    served = serve(tmp_path, ServiceSettings(url="https://service.example"))
    add_person(served.service, ADMIN, NewPerson(name="ann", password=LONG), served.app.state.password_login.passwords)
    cookie = login(served).headers["set-cookie"]
    assert cookie.startswith("__Host-flashferry=")
    for word in ("Secure", "HttpOnly", "Path=/"):
        assert word in cookie
    assert "domain" not in cookie.lower()


def test_a_session_is_new_at_each_sign_in(served):
    """What the browser came with is no session afterwards, whoever planted it (fixation)."""
    planted = {"Cookie": "flashferry=planted"}
    first = by(login(served, headers=planted))
    assert first.session_id != "planted"
    second = by(login(served, headers={"Cookie": f"flashferry={first.session_id}"}))
    assert served.call("GET", "/api/v1/me", first).status_code == 401
    assert served.call("GET", "/api/v1/me", second).status_code == 200


@pytest.mark.parametrize(
    ("wanted", "page"),
    [
        ("/runs", "/runs"),
        ("/runs/x?y=%2F%2Fz", "/runs/x?y=%2F%2Fz"),
        ("", "/"),
        ("runs", "/"),
        ("//evil.example", "/"),
        ("///evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\\\\evil.example", "/"),
        ("/\t/evil.example", "/"),
        ("/\r\nLocation: //evil", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/api/v1/me", "/"),
        ("/login?next=/x", "/"),
        ("/logout", "/"),
        ("/" + "x" * 3000, "/"),
        ("/\u202eevil", "/"),
    ],
)
def test_nobody_is_led_elsewhere(wanted, page):
    """The page after a sign-in is one of ours, whatever a link says."""
    assert safe_next(wanted) == page


def test_a_token_is_shown_once(served):
    """It opens what its person may; its list and the audit have its name alone."""
    browser = by(login(served))
    made = served.call("POST", "/api/v1/tokens", browser, json={"name": "CI", "days": 30})
    assert made.status_code == 201
    text = made.json()["token"]
    assert text.startswith("ffy_")
    assert served.call("GET", "/api/v1/me", Token(text)).json()["via"] == "token"
    told = served.call("GET", "/api/v1/tokens", browser)
    assert [one["name"] for one in told.json()] == ["CI"]
    assert text not in told.text + repr(served.audit())
    assert served.call("DELETE", made.headers["location"], browser).status_code == 204
    assert served.call("GET", "/api/v1/me", Token(text)).status_code == 401
    assert served.call("DELETE", made.headers["location"], browser).status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 101},
        {"name": "a\nb"},
        {"name": "x", "days": 0},
        {"name": "x", "days": 400},
        {"name": "x", "days": "NaN"},
        {"name": "x", "grants": [{"role": "boss"}]},
        {"name": "x", "grants": [{"role": "admin", "site": "AMS"}]},
        {"days": 3},
    ],
)
def test_a_token_that_will_not_do_is_not_made(served, body):
    """Too long a life, no name, no such role."""
    browser = by(login(served))
    answer = served.call("POST", "/api/v1/tokens", browser, json=body)
    assert answer.status_code == 422
    assert answer.json()["hint"]
    assert served.call("GET", "/api/v1/tokens", browser).json() == []


def test_a_token_makes_no_token_and_changes_no_password(served):
    """Who found one has it until it is taken back, and not longer."""
    token = served.token("ann")
    calls = (
        ("POST", "/api/v1/tokens", {"json": {"name": "x"}}),
        ("POST", "/me/tokens", {"form": {"name": "x"}}),
        ("PUT", "/api/v1/me/password", {"json": {"old": LONG, "new": "another horse battery"}}),
        ("POST", "/me/sessions/end", {"form": {}}),
    )
    for method, path, sent in calls:
        assert served.call(method, path, token, **sent).status_code == 403, path


def test_nobody_takes_back_anothers_token_but_an_admin(served):
    """404: that there is one is nobody else's business."""
    served.token("ann")
    eve = served.browser(served.person("eve", "operator"))
    assert served.call("DELETE", "/api/v1/tokens/t1", eve).status_code == 404
    assert served.call("GET", "/api/v1/tokens?all=true", eve).status_code == 403
    root = served.browser("root")
    assert [one["person"] for one in served.call("GET", "/api/v1/tokens?all=true", root).json()] == ["ann"]
    assert served.call("DELETE", "/api/v1/tokens/t1", root).status_code == 204


def test_a_password_is_changed_by_who_knows_it(served):
    """Guessing the old one locks as guessing at the door does; other sessions end, this one goes on."""
    browser, other = by(login(served)), by(login(served))
    body = {"old": LONG, "new": "another horse battery"}
    wrong = served.call("PUT", "/api/v1/me/password", browser, json={**body, "old": "x"})
    assert wrong.status_code == 403
    assert served.call("PUT", "/api/v1/me/password", browser, json={**body, "new": "short"}).status_code == 422
    assert served.call("PUT", "/api/v1/me/password", browser, json=body).status_code == 204
    assert served.call("GET", "/api/v1/me", browser).status_code == 200
    assert served.call("GET", "/api/v1/me", other).status_code == 401
    assert login(served).status_code == 401
    assert login(served, body["new"]).status_code == 200
    for _ in range(5):
        wrong = served.call("PUT", "/api/v1/me/password", browser, json={**body, "old": "x"})
    assert served.call("PUT", "/api/v1/me/password", browser, json={**body, "old": body["new"]}).status_code == 429


def test_an_admin_keeps_people_by_the_api(served):
    """Entered, given roles, disabled, enabled; each told back as it is then."""
    root = served.browser("root")
    body = {"name": "bob", "password": LONG, "grants": [{"role": "viewer"}]}
    made = served.call("POST", "/api/v1/users", root, json=body)
    assert (made.status_code, made.headers["location"]) == (201, "/api/v1/users/bob")
    assert served.call("POST", "/api/v1/users", root, json=body).status_code == 409
    grants = [{"role": "operator", "site": "AMS"}, {"role": "approver", "site": "*"}]
    told = served.call("PUT", "/api/v1/users/bob/grants", root, json=grants).json()
    assert [(one["role"], one["site"], one["given_by"]) for one in told["grants"]] == [
        ("approver", "*", "root"),
        ("operator", "AMS", "root"),
    ]
    assert served.call("POST", "/api/v1/users/bob/disable", root, json={"reason": "left"}).json()["state"] == "disabled"
    assert served.audit()[-1].reason == "left"
    assert served.call("POST", "/api/v1/users/bob/enable", root, json={}).json()["state"] == "active"
    assert served.call("PUT", "/api/v1/users/bob/password", root, json={"password": "x" * 20}).status_code == 422
    assert served.call("POST", "/api/v1/users/root/disable", root, json={}).status_code == 409
    assert served.call("GET", "/api/v1/users/nobody", root).status_code == 404
    assert {one["name"] for one in served.call("GET", "/api/v1/users", root).json()} == {"root", "ann", "bob"}


def test_an_admin_keeps_people_by_pages(served):
    """The same by forms, which lead back to the person."""
    root = served.browser("root")
    form = {"name": "bob", "password": LONG, "grants": "viewer, operator@AMS"}
    answer = served.call("POST", "/admin/people", root, form=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/people/bob")
    assert served.call("POST", "/admin/people/bob/grants", root, form={"grants": "approver@LIM"}).status_code == 303
    told = served.view("/admin/people/bob", root)["person"]
    assert [(one["role"], one["site"]) for one in told["grants"]] == [("approver", "LIM")]
    assert served.call("POST", "/admin/people/bob/grants", root, form={"grants": "boss"}).status_code == 422
    assert served.call("POST", "/admin/people/bob/disable", root, form={"reason": "left"}).status_code == 303
    assert served.call("POST", "/admin/people/bob/enable", root, form={}).status_code == 303
    assert served.call("POST", "/admin/people/bob/password", root, form={"password": LONG + "2"}).status_code == 303
    served.token("bob")
    assert served.call("POST", "/admin/tokens/t1/revoke", root, form={}).status_code == 303


def test_pages_about_people_show_text_as_text(served):
    """Names, addresses and tokens' names are anybody's; they are no element, and turn no writing round."""
    root, ann = served.browser("root"), by(login(served))
    name = HOSTILE.replace("\u202e\x1b[31m", "")
    made = served.call("POST", "/me/tokens", ann, form={"name": name, "days": "3"}, headers=PAGE)
    assert made.status_code == 201
    assert "ffy_" in made.text
    pages = [made] + [
        served.call("GET", path, who, headers=PAGE)
        for path, who in (("/me", ann), ("/admin", root), ("/admin/people/ann", root))
    ]
    for page in pages:
        assert page.status_code in (200, 201)
        assert "<script>alert" not in page.text
        assert "<b>@x" not in page.text
        assert "\u202e" not in page.text
        assert "***" not in page.text


def test_the_form_of_a_page_is_taken_by_its_route(served):
    """What the page has in its hidden field is what a change is held against, also once it is a known secret."""
    ann = by(login(served))
    page = served.call("GET", "/me", ann, headers=PAGE)
    assert f'name="csrf" value="{ann.csrf}"' in page.text


def test_who_is_nobody_sees_no_pages(served):
    """He is led to the sign-in; who lacks the role is told which."""
    for path in ("/me", "/admin", "/admin/people/ann"):
        assert served.call("GET", path, headers=PAGE).headers["location"].startswith("/login?next=/")
    answer = served.call("GET", "/admin", by(login(served)), headers=PAGE)
    assert answer.status_code == 403
    assert "admin" in answer.text


def test_passwords_and_tokens_come_out_nowhere(served, caplog):
    """Not in answers to wrong requests, not in the log, not in the audit, not in the files of the service."""
    caplog.set_level(logging.DEBUG)
    secret = "Tr0ub4dor&3 and more"
    ann = by(login(served))
    bodies = (
        {"name": "ann", "password": secret},
        {"name": secret, "password": 5},
        {"name": ["ann"], "password": {"x": secret}},
        {"password": secret},
    )
    texts = [served.call("POST", "/api/v1/login", json=body).text for body in bodies]
    texts.append(served.call("POST", "/api/v1/login", content=f'{{"password": "{secret}'.encode()).text)
    texts.append(served.call("POST", "/login", form={"name": secret, "password": secret}).text)
    root = served.browser("root")
    texts.append(served.call("PUT", "/api/v1/users/ann/password", root, json={"password": secret[:8]}).text)
    texts.append(served.call("PUT", "/api/v1/users/ann/password", root, json={"password": secret}).text)
    texts += [repr(served.audit()), caplog.text, served.call("GET", "/admin", root).text]
    assert secret[:8] not in "".join(texts)
    for path in served.service.state.iterdir():
        content = path.read_bytes()
        for one in (secret, LONG, ann.session_id, root.session_id):
            assert one.encode() not in content, path


def test_a_password_masks_nobody_elses_words(served):
    """Whoever takes words of our pages for his password would have them taken off every page."""
    root = served.browser("root")
    words = "not restored, ever"
    assert served.call("PUT", "/api/v1/users/ann/password", root, json={"password": words}).status_code == 204
    assert login(served, words).status_code == 200
    answer = served.call("POST", "/admin/people/ann/disable", root, form={"reason": words})
    assert answer.status_code == 303
    assert served.audit()[-1].reason == words


def test_errors_have_the_headers_too(served, monkeypatch):
    """Those that nobody foresaw as well."""
    served.is_loud = False
    monkeypatch.setattr("flashferry.service.api.sign_in.me_json", lambda _: 1 / 0)
    answer = served.call("GET", "/api/v1/me", served.browser("root"))
    assert answer.status_code == 500
    assert "content-security-policy" in answer.headers
    assert "ZeroDivision" not in answer.text


def test_a_sign_in_is_not_begun_elsewhere(served):
    """No page of somebody else's signs a browser in as him."""
    form = {"name": "ann", "password": LONG}
    assert served.call("POST", "/login", form=form, headers={"Origin": "http://evil.example"}).status_code == 403
    assert served.call("POST", "/login", form=form, headers={"Origin": URL}).status_code == 303
