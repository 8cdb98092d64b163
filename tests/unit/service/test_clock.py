"""The host's clock put back: nobody stays signed in longer for it, and what is told in order stays in order."""

from __future__ import annotations

import pytest

from tests.served import serve


@pytest.fixture
def served(tmp_path):
    made = serve(tmp_path)
    made.person("root", "admin")
    return made


@pytest.mark.parametrize(("back_s", "status"), [(60, 200), (299, 200), (301, 401), (86_400 * 365, 401)])
def test_sessions_of_the_time_to_come_are_over(served, back_s, status):
    """They would last longer than a sign-in may; a few minutes are a time server's."""
    browser = served.browser("root")
    served.clock.forward(-back_s)
    assert served.call("GET", "/api/v1/users", browser).status_code == status


def test_who_signs_in_anew_goes_on(served):
    """The clock is as it is now."""
    served.clock.forward(-86_400)
    assert served.call("GET", "/api/v1/users", served.browser("root")).status_code == 200


def test_tokens_are_good_until_their_end(served):
    """A program is not stopped by a clock; the token ends on its day, as ever."""
    token = served.token("root")
    served.clock.forward(-86_400)
    assert served.call("GET", "/api/v1/users", token).status_code == 200


def test_the_audit_says_that_the_clock_was_put_back(served):
    """Between what was done before and what was done after."""
    token = served.token("root")

    def entered(name):
        return served.call("POST", "/api/v1/users", token, json={"name": name}).status_code

    assert entered("anna") == 201
    served.clock.forward(-3600)
    assert entered("bert") == 201
    assert [one.action for one in served.audit()] == ["user.made", "clock.back", "user.made"]
