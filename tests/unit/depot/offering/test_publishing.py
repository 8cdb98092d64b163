"""Refused logins: each address and user is told once in a minute, and nothing is lost without a count."""

from flashferry.depot.offering.publishing import EVERY_S, MOST_APART, Refusals
from flashferry.fileserver import LoginFailure


def failure(address: str = "10.1.0.5", *, site: str = "branch", user: str = "b***") -> LoginFailure:
    return LoginFailure(at=0.0, peer_address=address, username_masked=user, reason="wrong password", site=site)


def test_the_first_is_told_at_once_and_the_rest_counted():
    """A minute later, in one sentence; a minute without any and it is forgotten."""
    refusals = Refusals()
    told = "login refused for 10.1.0.5: site branch, wrong password"
    assert refusals.take(failure(), 0.0) == told
    assert [refusals.take(failure(), 1.0 + number) for number in range(12)] == [""] * 12
    assert list(refusals.due(EVERY_S - 1)) == []
    assert list(refusals.due(EVERY_S)) == [f"{told}; 12 more times since the last report"]
    assert list(refusals.due(2 * EVERY_S)) == []
    assert refusals.take(failure(), 2 * EVERY_S + 1) == told


def test_addresses_and_users_are_told_apart():
    """A user that no site has is shown by a letter: it may be a password."""
    refusals = Refusals()
    assert refusals.take(failure("10.1.0.6"), 0.0)
    assert refusals.take(failure("10.1.0.7"), 0.0)
    assert refusals.take(failure("10.1.0.7", site="", user="n***"), 0.0) == (
        "login refused for 10.1.0.7: user n***, wrong password"
    )


def test_a_flood_of_addresses_is_one_line():
    """And one more with their number a minute later."""
    refusals = Refusals()
    told = [refusals.take(failure(f"10.1.{number // 250}.{number % 250}"), 0.0) for number in range(MOST_APART + 50)]
    assert len([one for one in told if one]) == MOST_APART + 1
    assert list(refusals.due(EVERY_S)) == [
        "login refused: more addresses and users than are counted singly; 49 more times since the last report"
    ]
