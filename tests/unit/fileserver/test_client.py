"""A run's slots at the depot, over lines that break: said again, granted once, given up where nobody is there."""

from __future__ import annotations

import pytest

from flashferry.fileserver.client import SlotReservations
from flashferry.fileserver.wire import AskSlot, ClaimSlot, FreeSlot

SITE = "AMS"


@pytest.fixture
def told():
    return []


@pytest.fixture
def book(told):
    return SlotReservations(told.append)


def test_what_is_asked_is_told_and_granted_once(book, told):
    """Also where the grant comes twice, as it may when the line broke behind the first."""
    got = []
    number = book.ask(SITE, 2, lambda: got.append(1))
    book.take((number, number, 4711))
    assert (told, got) == ([AskSlot(number=number, site=SITE, limit=2)], [1])


def test_a_new_depot_hears_of_what_is_held_first(book, told):
    """Then of what is waited for, in the order of asking; of what was given back nothing."""
    waiting = book.ask(SITE, 2, lambda: None)
    held = book.ask(SITE, 2, lambda: None)
    gone = book.ask(SITE, 2, lambda: None)
    beside = book.claim(SITE, 2)
    book.take((held,))
    book.free(gone)
    book.free(gone)
    assert told[-1] == FreeSlot(number=gone)
    assert book.again() == (
        ClaimSlot(number=held, site=SITE, limit=2),
        ClaimSlot(number=beside, site=SITE, limit=2),
        AskSlot(number=waiting, site=SITE, limit=2),
    )


def test_a_grant_for_who_has_left_is_nobody_s(book):
    """The depot has heard of it: that message was on its way."""
    got = []
    number = book.ask(SITE, 1, lambda: got.append(1))
    book.free(number)
    book.take((number,))
    assert got == []


def test_where_nobody_grants_any_more_everybody_is_let_in(book, told):
    """Who waits at once, and who asks later without a number."""
    got = []
    held = book.ask(SITE, 1, lambda: got.append("held"))
    book.take((held,))
    book.ask(SITE, 1, lambda: got.append("waiting"))
    book.give_up()
    assert got == ["held", "waiting"]
    assert (book.ask(SITE, 1, lambda: got.append("later")), book.claim(SITE, 1)) == (None, None)
    assert len(told) == 2
