"""Refusals are in the audit, and a flood of them does not fill the disk."""

from __future__ import annotations

import pytest

from flashferry.service.people.identity import anonymous
from flashferry.service.people.sign_in import BUCKET, MOST_KEPT, DenialLog
from tests.served import ADMIN


@pytest.fixture
def book(served) -> DenialLog:
    return DenialLog(served.service)


def test_repeats_are_counted_and_told(served, book):
    """In windows that double: a minute, two, four, up to an hour."""
    for second in range(0, 600, 10):
        book.note(ADMIN, "access.refused", "route:GET /x", "no role")
        served.clock.forward(10)
        del second
    reasons = [one.reason for one in served.audit()]
    assert reasons == [
        "no role",
        "no role; 5 times more since it was written last",
        "no role; 11 times more since it was written last",
        "no role; 23 times more since it was written last",
    ]
    served.clock.forward(480)
    book.flush()
    assert served.audit()[-1].reason == "no role; 17 times more since it was written last"
    book.flush()
    assert len(served.audit()) == 5


def test_nothing_counted_is_lost_at_the_end(served, book):
    """The service says at its end what it had not said yet."""
    for _ in range(3):
        book.note(ADMIN, "access.refused", "route:GET /x", "no role")
    book.flush(is_end=True)
    assert "2 times more" in served.audit()[-1].reason


def test_an_anonymous_flood_writes_little(served, book):
    """From a thousand addresses over every route, for an hour: a bucket of entries, and then one a minute."""
    for number in range(10_000):
        book.note(anonymous(f"198.51.{number % 4}.{number % 251}"), "access.refused", f"route:GET /{number % 40}", "no")
        served.clock.forward(0.36)
    written = len(served.audit())
    assert BUCKET <= written <= BUCKET + 61
    assert "other refusals of anonymous were not written" in served.audit()[-1].reason
    assert len(book._kept) <= MOST_KEPT


def test_a_flood_hides_nobody_else(served, book):
    """Who is signed in has a bucket of his own."""
    for number in range(500):
        book.note(anonymous(f"198.51.100.{number % 250}"), "access.refused", f"route:GET /{number}", "no")
    assert book.note(ADMIN, "access.refused", "route:GET /x", "no role")
    assert served.audit()[-1].actor == "root"


def test_a_clock_that_goes_back_stops_nothing(served, book):
    """What was refused then is written then."""
    book.note(ADMIN, "access.refused", "route:GET /x", "no role")
    served.clock.forward(-3600)
    assert book.note(ADMIN, "access.refused", "route:GET /x", "no role")
