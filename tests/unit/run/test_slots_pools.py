"""Slots: served in order, taken together, given back whatever happens."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from flashferry.devices.errors import Interrupted
from flashferry.model.limits import Limits
from flashferry.run import concurrency as slot_pools
from flashferry.run.concurrency import SlotPool, SlotPools
from tests.patience import PATIENCE_S, until


class Visitor(threading.Thread):
    """Takes a slot and stays until told to leave."""

    def __init__(self, pool, key=None, order=None, **options):
        super().__init__(daemon=True)
        self.pool, self.key, self.options = pool, key, options
        self.order = order if order is not None else []
        self.told: list[str] = []
        self.inside, self.leave, self.error = threading.Event(), threading.Event(), None
        self.start()

    def run(self):
        try:
            self.pool.enter(self.key, on_wait=self.told.append, **self.options)
        except Interrupted as error:
            self.error = error
            return
        self.order.append(self)
        self.inside.set()
        self.leave.wait(PATIENCE_S)
        self.pool.leave(self.key)


def waiting(pool, count, **options):
    """Return visitors that wait, in the order in which they came."""
    found = []
    for _ in range(count):
        found.append(Visitor(pool, **options))
        until(lambda: pool.waiting == len(found), "one more waiting")
    return found


def test_no_more_than_the_total_are_inside():
    """The third of two waits, and has the slot as soon as one leaves; it is told once what it waits for."""
    pool = SlotPool("copy", 2)
    first, second = Visitor(pool), Visitor(pool)
    until(lambda: pool.inside == 2, "two inside")
    (third,) = waiting(pool, 1)
    assert not third.inside.is_set()
    first.leave.set()
    assert third.inside.wait(PATIENCE_S)
    assert third.told == ["waits for a copy slot: 2 at a time"]
    assert second.told == []


def test_the_order_of_arrival_holds():
    """Whoever came first goes first."""
    pool, order = SlotPool("copy", 1), []
    holder = Visitor(pool)
    assert holder.inside.wait(PATIENCE_S)
    line = waiting(pool, 5, order=order)
    holder.leave.set()
    for visitor in line:
        assert visitor.inside.wait(PATIENCE_S)
        visitor.leave.set()
    until(lambda: pool.inside == 0, "nothing inside")
    assert order == line


def test_a_full_site_holds_no_other_up():
    """The first in the line is of a full site and holds no slot of the fleet meanwhile; another site's goes on."""
    pool = SlotPool("copy", 2, lambda site: 1)
    a1 = Visitor(pool, "a")
    assert a1.inside.wait(PATIENCE_S)
    (a2,) = waiting(pool, 1, key="a")
    assert a2.told == ["waits for a copy slot at site a: 1 at a time"]
    b1 = Visitor(pool, "b")
    assert b1.inside.wait(PATIENCE_S)
    assert not a2.inside.is_set()
    b1.leave.set()
    until(lambda: pool.inside == 1, "one inside")
    assert not a2.inside.is_set()
    a1.leave.set()
    assert a2.inside.wait(PATIENCE_S)


def test_who_enters_beside_the_others_keeps_the_next_one_waiting():
    """It never waits itself; the line moves on only when so many are inside as may be."""
    pool = SlotPool("copy", 2, lambda site: 1)
    holder = Visitor(pool, "a")
    assert holder.inside.wait(PATIENCE_S)
    (next_one,) = waiting(pool, 1, key="a")
    pool.enter_beyond_limit("a")
    assert pool.inside == 2
    holder.leave.set()
    until(lambda: pool.inside == 1, "one inside")
    assert not next_one.inside.is_set()
    pool.leave("a")
    assert next_one.inside.wait(PATIENCE_S)


def test_who_is_to_stop_waits_no_longer_and_holds_nothing(monkeypatch):
    """An interruption ends the wait with an error; the slot goes to the next one in the line."""
    monkeypatch.setattr(slot_pools, "POLL_S", 0.01)
    pool, stop = SlotPool("copy", 1), threading.Event()
    holder = Visitor(pool)
    assert holder.inside.wait(PATIENCE_S)
    (gives_up,) = waiting(pool, 1, interrupted=stop.is_set)
    stop.set()
    until(lambda: gives_up.error is not None, "the one that gives up")
    patient = Visitor(pool)
    holder.leave.set()
    assert patient.inside.wait(PATIENCE_S)
    assert (pool.inside, pool.waiting) == (1, 0)


def test_who_is_next_is_told_that_a_slot_will_come(monkeypatch):
    """As many as leave soon, of the same site, in the order of arrival, once each; then it is over."""
    monkeypatch.setattr(slot_pools, "POLL_S", 0.005)
    pool, soon = SlotPool("copy", 3, lambda site: 2), []
    pool.enter("a")
    pool.enter("a")
    line, looks = [], Counter()

    def look_again(*names):
        before = looks.copy()
        until(lambda: all(looks[name] > before[name] + 1 for name in names), "two more looks of those that wait")

    for name in ("first", "second", "third"):
        options = {
            "on_soon": lambda name=name: soon.append(name),
            "interrupted": lambda name=name: looks.update([name]),
        }
        line.append(Visitor(pool, "a", **options))
        until(lambda: pool.waiting == len(line), "one more waiting")
    pool.expect("a")
    until(lambda: soon, "the first is notified")
    look_again("first", "second", "third")
    assert soon == ["first"]
    pool.leave("a", was_expected=True)
    assert line[0].inside.wait(PATIENCE_S)
    look_again("second", "third")
    assert soon == ["first"]
    pool.expect("a")
    until(lambda: soon == ["first", "second"], "the second is notified")
    pool.leave("a", was_expected=True)
    for visitor in line:
        visitor.leave.set()
        assert visitor.inside.wait(PATIENCE_S)


def test_patience_begins_anew_when_a_slot_is_near(monkeypatch):
    """Logged in again for a slot that then does not come after all: it is logged out again in time."""
    monkeypatch.setattr(slot_pools, "POLL_S", 0.005)
    pool, told = SlotPool("copy", 1), []
    holder = Visitor(pool)
    assert holder.inside.wait(PATIENCE_S)
    options = {"on_patience": lambda: told.append("out"), "on_soon": lambda: told.append("in")}
    waits = Visitor(pool, patience_s=0.1, **options)
    until(lambda: told == ["out"], "the logout")
    pool.expect()
    until(lambda: told == ["out", "in", "out"], "the second logout")
    holder.leave.set()
    assert waits.inside.wait(PATIENCE_S)
    waits.leave.set()


def test_a_slot_that_came_at_the_moment_of_giving_up_is_not_lost():
    """Let in and interrupted at once: the slot goes back."""
    pool = SlotPool("copy", 1)

    def fails(text):
        pool.leave()  # lets the one in that is about to fail
        raise Interrupted("now")

    pool.enter()
    with pytest.raises(Interrupted):
        pool.enter(on_wait=fails)
    assert (pool.inside, pool.waiting) == (0, 0)


def test_patience_ends_once(monkeypatch):
    """Who waits long is told so once, and goes on waiting in its place."""
    monkeypatch.setattr(slot_pools, "POLL_S", 0.005)
    pool, tired = SlotPool("copy", 1), []
    holder = Visitor(pool)
    assert holder.inside.wait(PATIENCE_S)
    (visitor,) = waiting(pool, 1, patience_s=0.0, on_patience=lambda: tired.append(1))
    until(lambda: tired, "the end of its patience")
    holder.leave.set()
    assert visitor.inside.wait(PATIENCE_S)
    assert tired == [1]


def test_a_site_has_the_lower_of_its_own_limit_and_the_runs():
    """The run's limit of copies per site holds where nothing else is said."""
    pool = SlotPools(Limits(copies=5, site_copies=2)).copies
    pool.enter("a")
    pool.enter("a")
    (third,) = waiting(pool, 1, key="a")
    assert "2 at a time" in third.told[0]
    for _ in range(3):
        pool.enter(None)
    assert pool.inside == 5
