"""Slots and caps of sites over several runs: who gets what, by the strictest limit, and what a run leaves behind."""

from __future__ import annotations

import pytest

from flashferry.depot.shared_state import SiteCaps, SiteSlots
from flashferry.fileserver.wire import SetSiteCap

SITE, OTHER = "AMS", "LIM"


@pytest.fixture
def slots():
    return SiteSlots()


def test_the_strictest_limit_holds_for_all(slots):
    """Three copies of one run, until another comes that would have one there; then no more until all have gone."""
    assert [slots.ask("a", number, SITE, 3) for number in (1, 2)] == [(("a", 1),), (("a", 2),)]
    assert slots.ask("b", 1, SITE, 1) == ()
    assert slots.ask("a", 3, SITE, 3) == ()
    assert slots.free("a", 1) == ()
    assert slots.free("a", 2) == (("b", 1),)
    assert slots.free("b", 1) == (("a", 3),)


def test_who_has_fewest_is_served_first(slots):
    """A run whose hundred devices asked before another's first one does not keep it waiting for all of them."""
    for number in range(100):
        slots.ask("a", number, SITE, 2)
    slots.ask("b", 1, SITE, 2)
    assert slots.free("a", 0) == (("b", 1),)
    assert slots.free("a", 1) == (("a", 2),), "in the order of asking where runs have as many"
    assert slots.free("b", 1) == (("a", 3),)


def test_sites_and_those_of_none_are_apart(slots):
    """A full site holds nobody else up, and what counts for no site has no limit here."""
    slots.ask("a", 1, SITE, 1)
    assert slots.ask("b", 1, OTHER, 1) == (("b", 1),)
    assert [slots.ask("b", number, None, None) for number in (2, 3)] == [(("b", 2),), (("b", 3),)]


def test_a_claimed_slot_is_beside_the_others(slots):
    """Nobody gets another one before so many are held again."""
    slots.ask("a", 1, SITE, 1)
    slots.claim("b", 1, SITE, 1)
    slots.ask("c", 1, SITE, 1)
    assert slots.free("a", 1) == ()
    assert slots.free("b", 1) == (("c", 1),)


def test_what_a_run_leaves_is_given_on(slots):
    """Held or waited for; what it asked for twice it had once, and what nobody knows is nobody's."""
    slots.ask("a", 1, SITE, 1)
    slots.ask("a", 1, SITE, 1)
    slots.ask("a", 2, SITE, 1)
    slots.ask("b", 1, SITE, 1)
    assert slots.counts("a") == (1, 1)
    assert slots.leave("a") == (("b", 1),)
    assert slots.counts("a") == (0, 0)
    assert slots.free("a", 1) == ()
    assert slots.leave("a") == ()


def test_nothing_is_granted_before_it_begins_nor_at_its_end():
    """Who held a slot of a depot that was killed claims it first; who only waited comes behind."""
    slots = SiteSlots(is_held_up=True)
    assert slots.ask("b", 1, SITE, 1) == ()
    slots.claim("a", 1, SITE, 1)
    assert slots.start() == ()
    assert slots.free("a", 1) == (("b", 1),)
    slots.hold_up()
    assert slots.ask("c", 1, OTHER, 1) == ()


def test_how_sites_stand(slots):
    """Held, waited for, and the limit that holds."""
    slots.ask("a", 1, SITE, 1)
    slots.ask("b", 1, SITE, 4)
    slots.ask("b", 2, None, None)
    (seen,) = slots.seen()
    assert (seen.site, seen.copies, seen.waiting, seen.limit) == (SITE, 1, 1, 1)


def test_the_least_cap_that_is_stated_holds():
    """With its source; another one once its run parts, and none where nobody says anything."""
    caps = SiteCaps()
    low = SetSiteCap(site=SITE, cap_bytes_per_s=1000, source="low")
    high = SetSiteCap(site=SITE, cap_bytes_per_s=2000, source="high")
    none = SetSiteCap(site=SITE, cap_bytes_per_s=None, source="")
    assert caps.state("a", low) == low
    assert caps.state("b", high) == low
    assert caps.leave("b") == ()
    caps.state("b", high)
    assert caps.leave("a") == (high,)
    assert caps.sites() == (SITE,)
    assert caps.state("b", none) == none
    assert caps.sites() == ()
