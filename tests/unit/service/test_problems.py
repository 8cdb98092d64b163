"""What goes wrong, told to people by a page and to programs by RFC 9457, with what helps each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import flashferry.service as service_package
from flashferry.service import errors
from flashferry.service.api.problems import STATUSES
from tests.served import serve

PAGE = {"Accept": "text/html"}


@pytest.fixture
def served(tmp_path):
    return serve(tmp_path)


def test_who_is_signed_in_keeps_his_navigation_where_there_is_no_page(served):
    """He finds on from there; who is not is told no more than that."""
    served.person("ann", "viewer")
    answer = served.call("GET", "/nosuch", served.browser("ann"), headers=PAGE)
    assert answer.status_code == 404
    assert "there is no such page" in answer.text
    assert 'href="/runs"' in answer.text
    assert 'href="/me">ann<' in answer.text
    assert "<nav" not in served.call("GET", "/nosuch", headers=PAGE).text


@pytest.mark.parametrize("body", [b"{nope", b""])
def test_what_is_no_json_is_told_so(served, body):
    """With where the description is, and that an empty object will do; what was sent is not repeated."""
    served.person("ann", "approver")
    headers = {"Content-Type": "application/json"}
    path = f"/api/v1/plans/{'0' * 64}/approve"
    answer = served.call("POST", path, served.token("ann"), content=body, headers=headers)
    problem = answer.json()
    assert (answer.status_code, problem["detail"]) == (422, "body: expected a JSON object, found none")
    assert "{} if there is nothing to say" in problem["hint"]
    assert "/api/v1/openapi.json" in problem["hint"]
    assert "nope" not in answer.text


def test_other_wrong_input_names_where_it_is(served):
    """A key of another type is not taken for no JSON."""
    served.person("ann", "approver")
    answer = served.call("POST", f"/api/v1/plans/{'0' * 64}/approve", served.token("ann"), json={"comment": 1})
    assert "expected other input: body.comment" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/api/v1/audit?actors=eve", "query: unknown key 'actors'; did you mean 'actor'?"),
        ("/api/v1/users?limit=1", "query: this path takes no parameter"),
    ],
)
def test_an_unknown_query_parameter_is_refused(served, path, detail):
    """A misspelled filter must not answer with everything."""
    served.person("ann", "admin", "auditor")
    answer = served.call("GET", path, served.token("ann"))
    assert (answer.status_code, answer.json()["detail"]) == (422, detail)


def test_only_the_api_and_the_pages_know_http_statuses():
    """Domain modules raise domain errors; what asks other servers reads their statuses."""
    asks_others = {"outbound.py", "hooks/sending.py", "people/oidc.py"}
    folder = Path(service_package.__file__).parent
    found = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if path.relative_to(folder).parts[0] not in {"api", "pages", "client"} and "HTTPStatus" in path.read_text()
    }
    assert found <= asks_others


def test_every_error_has_a_status():
    """Each domain error of the service is in the one table."""
    kinds = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.ServiceError)}
    assert kinds - {errors.ServiceError} == set(STATUSES)


@pytest.fixture
def vera(served):
    served.person("vera", "operator", "viewer")
    return served.browser("vera")


def test_a_refused_form_is_shown_again_with_its_input(served, vera):
    """The sentence stands in the form that was sent, and what was typed and chosen is still there."""
    form = {"title": 'a "b" <c>', "window": "22-5", "sites": "AMS", "golden": "true"}
    answer = served.call("POST", "/plans/make", vera, form=form, headers=PAGE)
    assert answer.status_code == 422
    head, _, rest = answer.text.partition('action="/plans/make"')
    assert "<h1>Plans</h1>" in head
    assert "window: expected two times of day such as 22:00-05:00, found &#39;22-5&#39;" not in head
    form_text = rest.partition("</form>")[0]
    assert "expected two times of day" in form_text
    assert 'value="a &quot;b&quot; &lt;c&gt;"' in form_text
    assert 'value="22-5"' in form_text
    assert "Unprocessable" not in answer.text
    assert "/api/v1" not in form_text


def test_a_refusal_of_a_form_that_is_gone_stands_at_the_top(served, vera):
    """The page of what was to be changed, with the sentence; never the phrase of a status."""
    served.person("root", "admin")
    answer = served.call("POST", "/admin/people/root/disable", served.browser("root"), form={}, headers=PAGE)
    assert answer.status_code == 409
    assert "<h1>root</h1>" in answer.text
    assert "the last one" in answer.text.partition('action="/admin/people/root/disable"')[2].partition("</form>")[0]
    answer = served.call("POST", "/jobs/j1/cancel", vera, form={"reason": "x"}, headers=PAGE)
    assert (answer.status_code, "<h1>Not found</h1>" in answer.text) == (404, True)


def test_a_password_is_not_filled_in_again(served):
    """Only what is no secret is kept."""
    served.person("root", "admin")
    form = {"name": "Not Good", "password": "a long one, really"}
    answer = served.call("POST", "/admin/people", served.browser("root"), form=form, headers=PAGE)
    assert answer.status_code == 422
    assert 'value="Not Good"' in answer.text
    assert "a long one" not in answer.text


def test_a_form_of_another_site_fills_no_form(served, vera):
    """What did not pass the guard is answered with the reason alone."""
    headers = {**PAGE, "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    answer = served.call("POST", "/plans/make", vera, form={"title": "planted"}, headers=headers)
    assert answer.status_code == 403
    assert "planted" not in answer.text
    assert "<h1>Not allowed</h1>" in answer.text
