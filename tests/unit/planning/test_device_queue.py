"""The queue of a wave: who begins, who waits, how far ahead devices are looked at."""

from __future__ import annotations

import threading

from flashferry.model.limits import Limits
from flashferry.planning.device_queue import DeviceQueue, Hold, QueuedDevice, checked_ahead


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def queue(*hosts, limits=None, **options):
    """Return a queue of devices named after their sites: `a1` is at site a, `-1` at none."""
    devices = tuple(QueuedDevice(host=host, site=host[0] if host[0] != "-" else None) for host in hosts)
    limits = limits or Limits()
    return DeviceQueue(devices, limits, **({"site_copies": lambda site: limits.of_site(None)} | options))


def begun(one):
    """Return all that begin now."""
    return list(iter(one.take, None))


def test_sites_take_turns():
    """Every link is to be busy: the site with the fewest under way goes next."""
    assert begun(queue("a1", "a2", "a3", "b1", "b2")) == ["a1", "b1", "a2", "b2", "a3"]


def test_few_are_looked_at_ahead_of_a_sites_slots():
    """One copy at a time: so many are checked as will soon have the slot, and the next when one is through."""
    site = queue(*(f"a{n}" for n in range(20)), limits=Limits(site_copies=1))
    ahead = begun(site)
    assert len(ahead) == checked_ahead(1) == 4
    site.copied("a0")
    site.copied("a0")
    assert begun(site) == ["a4"]


def test_a_device_that_ends_without_a_copy_makes_room_once():
    """Refused by its check: it counts no more, neither then nor when its task ends."""
    site = queue(*(f"a{n}" for n in range(20)), limits=Limits(site_copies=1))
    begun(site)
    site.copied("a1")
    site.ended("a1")
    assert len(begun(site)) == 1


def test_all_sites_together_have_a_limit():
    """Copies in all bound the look-ahead over all sites, those without a site included."""
    fleet = queue(*(f"{site}{n}" for site in "abcdef-" for n in range(9)), limits=Limits(copies=4))
    assert len(begun(fleet)) == checked_ahead(4)


def test_it_is_over_when_all_have_ended():
    """Not before: one that is under way may come again."""
    one = queue("a1")
    assert not one.is_over()
    begun(one)
    assert not one.is_over()
    one.ended("a1")
    assert one.is_over()


def test_a_device_comes_again_behind_its_pause():
    """Not before its pause is over, and not while its last attempt is still under way."""
    clock = Clock()
    one = queue("a1", "a2", clock=clock)
    begun(one)
    one.again("a1", 15.0)
    clock.now = 20.0
    assert one.take() is None
    one.ended("a1")
    assert one.take() == "a1"
    one.again("a1", 30.0)
    one.ended("a1")
    one.ended("a2")
    assert not one.is_over()
    assert one.take() is None
    clock.now = 50.0
    assert one.take() == "a1"


def test_a_bar_for_good_leaves_the_rest_out():
    """What is under way goes on; what waits, for its first attempt or the next, does not begin."""
    holds = [None, None, Hold(reason="too many failed", for_good=True)]
    one = queue("a1", "a2", "a3", limits=Limits(site_copies=1), hold=lambda: holds[0])
    assert one.take() == "a1"
    one.again("a1", 0.0)
    holds.pop(0)
    holds.pop(0)
    assert one.take() is None
    one.ended("a1")
    assert one.is_over()
    assert {host: hold.reason for host, hold in one.not_started.items()} == dict.fromkeys(
        ["a2", "a3"], "too many failed"
    )


def test_a_pause_leaves_nobody_out():
    """Nothing begins while it lasts, all of it afterwards."""
    holds = [Hold(reason="paused", for_good=False)]
    one = queue("a1", hold=lambda: holds[0])
    assert one.take() is None
    assert not one.is_over()
    holds[0] = None
    assert one.take() == "a1"


def test_who_does_not_fit_any_more_is_left_out_alone():
    """Its time is too short, or has not come yet; the others of its site begin."""
    closed = {"a1": Hold(reason="late", for_good=True), "a2": Hold(reason="early", for_good=False)}
    one = queue("a1", "a2", "a3", fits=closed.get)
    assert begun(one) == ["a3"]
    assert set(one.not_started) == {"a1"}
    closed.pop("a2")
    assert begun(one) == ["a2"]


def test_one_that_is_due_and_may_not_begin_is_not_asked_for_all_the_time(monkeypatch):
    """Paused: the queue is looked at once a second, not twenty times, however long the retry is overdue."""
    waited = []
    monkeypatch.setattr(threading.Condition, "wait", lambda condition, timeout_s: waited.append(timeout_s))
    now_s = [0.0]
    paused = []
    one = DeviceQueue(
        (QueuedDevice(host="r1", site=None),),
        Limits(),
        site_copies=lambda site: 1,
        hold=lambda: paused[0] if paused else None,
        clock=lambda: now_s[0],
    )
    assert one.take() == "r1"
    one.again("r1", 0.25)
    one.ended("r1")
    paused.append(Hold(reason="paused", for_good=False))
    one.wait(60.0)  # for what changed with its end
    one.wait(60.0)
    now_s[0] = 9.0
    assert one.take() is None
    one.wait(60.0)
    assert waited == [0.25, 60.0]
