"""What goes wrong, told to people by a page and to programs by RFC 9457, with what helps each of them."""

from __future__ import annotations

import pytest

from flashferry.service.problems import listed
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
    assert "{} is enough" in problem["hint"]
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


def test_a_list_is_named_for_people_and_for_programs():
    """The same hint stands on a page and in an answer of the API."""
    assert listed("plans") == "The list of plans has those that there are: /plans, or by the API GET /api/v1/plans"
    assert ": /me, or by the API GET /api/v1/tokens" in listed("tokens", page="/me")
