"""A pool whose slots somebody else has a say in: asked for one by one, held by nobody who waits, given back with it."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from flashferry.devices.errors import Interrupted
from flashferry.run.concurrency import SlotPool
from tests.patience import PATIENCE_S, until


class Gate:
    """Grants when it is told to."""

    def __init__(self):
        self.asked, self.held, self.claimed = {}, [], []
        self.is_open = False

    def ask(self, site, limit, granted):
        number = len(self.asked) + 1
        self.asked[number] = (site, limit, granted)
        return number

    def claim(self, site, limit):
        self.claimed.append((site, limit))
        return -len(self.claimed)

    def free(self, number):
        self.held.append(number)

    def grant(self, number):
        self.asked[number][2]()


class NobodyLeft(Gate):
    def ask(self, site, limit, granted):
        return None

    claim = ask


@pytest.fixture
def gate():
    return Gate()


def entering(pool, key, **more):
    """Enter in a thread; return an event that is set once it is in, or has given up."""
    over = threading.Event()

    def enter():
        with suppress(Interrupted):
            pool.enter(key, **more)
        over.set()

    threading.Thread(target=enter, daemon=True).start()
    return over


def test_nobody_comes_in_without_the_gate_s_yes(gate):
    """It is told the site and the run's own limit; what is waited for is told once it takes a while."""
    told = []
    pool = SlotPool("copy", 5, lambda site: 2, gate)
    over = entering(pool, "AMS", on_wait=told.append)
    until(lambda: told, "what it waits for is shown")
    assert told == ["waits for a copy slot at site AMS, which all runs of this host share"]
    assert gate.asked[1][:2] == ("AMS", 2)
    assert (pool.inside, pool.waiting) == (0, 1)
    gate.grant(1)
    assert over.wait(PATIENCE_S)
    pool.leave("AMS")
    assert gate.held == [1]


def test_who_waits_for_a_yes_holds_nobody_up(gate):
    """Another site's device comes in meanwhile, and one of no site."""
    pool = SlotPool("copy", 1, lambda site: 1, gate)
    entering(pool, "AMS")
    until(lambda: 1 in gate.asked, "the first request")
    over = entering(pool, "LIM")
    until(lambda: 2 in gate.asked, "the second request")
    gate.grant(2)
    assert over.wait(PATIENCE_S)


def test_a_yes_that_comes_where_there_is_no_room_is_given_back(gate):
    """For other runs; it is asked for again as soon as there is room."""
    pool = SlotPool("copy", 1, lambda site: 1, gate)
    entering(pool, "AMS")
    until(lambda: 1 in gate.asked, "the first request")
    entering(pool, "LIM")
    until(lambda: 2 in gate.asked, "the second request")
    gate.grant(2)
    gate.grant(1)
    assert (gate.held, pool.inside) == ([1], 1)
    pool.leave("LIM")
    assert gate.asked[3][0] == "AMS"
    gate.grant(3)
    until(lambda: pool.inside == 1, "one inside")


def test_who_gives_up_waits_at_the_gate_no_more(gate):
    """Nor does a yes that comes a moment later let anybody in."""
    stop = threading.Event()
    pool = SlotPool("copy", 1, lambda site: 1, gate)
    over = entering(pool, "AMS", interrupted=stop.is_set)
    until(lambda: 1 in gate.asked, "the first request")
    stop.set()
    assert over.wait(PATIENCE_S)
    assert gate.held == [1]
    gate.grant(1)
    assert pool.inside == 0


def test_one_beside_the_others_is_claimed(gate):
    """A device that is tuned never waits; its slot goes back with its number."""
    pool = SlotPool("copy", 1, lambda site: 1, gate)
    pool.enter_beyond_limit("AMS")
    assert gate.claimed == [("AMS", 1)]
    pool.leave("AMS")
    assert gate.held == [-1]


def test_where_nobody_is_at_the_gate_the_run_s_own_limits_hold():
    """They are all there is then."""
    pool = SlotPool("copy", 2, lambda site: 1, NobodyLeft())
    assert entering(pool, "AMS").wait(PATIENCE_S)
    waiting = entering(pool, "AMS")
    until(lambda: pool.waiting == 1, "one waiting")
    pool.leave("AMS")
    assert waiting.wait(PATIENCE_S)
