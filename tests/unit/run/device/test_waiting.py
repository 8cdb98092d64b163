"""What a device does while it waits for a slot: it is told, it stays untouched, and in the end it is logged out."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest
from nornir.core.inventory import Defaults, Host

from flashferry.devices.errors import DeviceUnreachable, Interrupted
from flashferry.fileserver import TransferState
from flashferry.model.limits import Limits
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.policy import StagePolicy
from flashferry.run import concurrency as slot_pools
from flashferry.run.concurrency import SlotPools
from flashferry.run.context import RunContext
from flashferry.run.device import login as device_login
from flashferry.run.device import waiting as slots_of_device
from flashferry.run.device.tickets import CopyOrder
from flashferry.run.device.workflow import DeviceRun, parts_of
from tests import patience
from tests.patience import PATIENCE_S


class Steps:
    """Stands for a Nornir task."""

    parent_task = None

    def __init__(self, host) -> None:
        self.host = host


class Watched:
    """A device's run whose steps only note that they were taken; its site has one slot for copies."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(slot_pools, "LOOK_EVERY_S", 0.005)
        monkeypatch.setattr(device_login, "session_of", lambda task: self.done.append("login"))
        self.done, self.events, self.copied = [], [], []
        self.stop = threading.Event()
        self.slots = SlotPools(Limits(site_copies=1))
        host = Host(name="r1", hostname="192.0.2.1", platform="ios", data={"site": "a"}, defaults=Defaults())
        monkeypatch.setattr(Host, "close_connections", lambda host: self.done.append("logout"))
        context = RunContext(
            run_id="run",
            image=SimpleNamespace(name="x.bin", size_bytes=1),
            server=SimpleNamespace(port=21),
            journal=None,
            policy=StagePolicy(),
            emit=self.events.append,
            interrupted=self.stop.is_set,
            started_s=0.0,
            slots=self.slots,
            copied=lambda: self.copied.append(1),
        )
        self.parts = parts_of(Steps(host), context)
        self.parts.keeper.update(check=SimpleNamespace(running=None))
        self.parts.check._look = lambda: self.done.append("check")
        self.parts.check.decide = lambda report: None
        self.run = DeviceRun(self.parts, lambda plan, before: None)
        self.parts.planner.plan = lambda before: None
        self.run._stage = lambda: self.done.append("stage")

    def copying(self, acked_bytes, *, to_null=False):
        """Return the parts of a device's run that holds the slot and has so much of 1000 bytes, at ten a second."""
        account = SimpleNamespace(
            state=TransferState.TRANSFERRING,
            bytes_acked=acked_bytes,
            rate_bytes_per_s=10.0,
            limited_by=None,
            last_error=None,
            record=None,
            size_bytes=1000,
        )
        context = replace(
            self.parts.context,
            image=SimpleNamespace(name="x.bin", size_bytes=1000),
            server=SimpleNamespace(port=21, progress=lambda ticket: account),
            to_null=to_null,
        )
        parts = parts_of(self.parts.task, context)
        parts.traces.order = CopyOrder(image=context.image, target="flash:x.bin")
        parts.traces.ticket = SimpleNamespace(ticket_id="t1")
        parts.slot.take(lambda: None)
        return parts

    def queued(self):
        return [event.text for event in self.events if event.status == "queued"]


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def until(condition):
    patience.until(condition, "a condition of the device")


def logged_out_in_line(watched):
    """Have the device wait behind another one until it is logged out; return its thread."""
    watched.slots.copies.enter("a")
    waiting = threading.Thread(target=watched.run.wait_and_stage)
    waiting.start()
    until(lambda: watched.done == ["logout"])
    return waiting


def test_a_free_slot_is_taken_without_a_word(watched):
    """Staged in it, and it is given back once; another device may be looked at."""
    watched.run.wait_and_stage()
    assert watched.done == ["stage"]
    assert (watched.queued(), watched.copied, watched.slots.copies.inside) == ([], [1], 0)


def test_who_waits_long_is_logged_out_and_looked_at_again(watched, monkeypatch):
    """Untouched while it waits; when the slot comes it logs in and checks anew before anything is set."""
    monkeypatch.setattr(slots_of_device, "PATIENCE_S", 0.0)
    waiting = logged_out_in_line(watched)
    watched.slots.copies.leave("a")
    waiting.join(PATIENCE_S)
    assert watched.done == ["logout", "login", "check", "stage"]
    assert watched.queued() == ["waits for a copy slot at site a: 1 at a time"]


def test_a_stop_ends_the_wait(watched):
    """Nothing was done to the device, and no slot is held."""
    watched.slots.copies.enter("a")
    watched.stop.set()
    with pytest.raises(Interrupted):
        watched.run.wait_and_stage()
    assert watched.done == []
    assert (watched.slots.copies.inside, watched.slots.copies.waiting) == (1, 0)


def test_a_slot_is_given_back_when_staging_fails(watched):
    """Whatever happened in it: the next one of the site goes on."""

    def fails():
        raise ZeroDivisionError

    watched.run._stage = fails
    with pytest.raises(ZeroDivisionError):
        watched.run.wait_and_stage()
    assert watched.slots.copies.inside == 0
    assert watched.copied == [1]


def test_who_was_logged_out_is_back_before_its_slot_comes(watched, monkeypatch):
    """When a copy before it nears its end it logs in and checks, and stages at once when the slot is its own."""
    monkeypatch.setattr(slots_of_device, "PATIENCE_S", 0.5)
    waiting = logged_out_in_line(watched)
    watched.slots.copies.expect("a")
    until(lambda: watched.done == ["logout", "login", "check"])
    watched.slots.copies.leave("a", was_expected=True)
    waiting.join(PATIENCE_S)
    assert watched.done == ["logout", "login", "check", "stage"]
    assert watched.queued()[1:] == ["logged in again, its copy slot comes soon"]


@pytest.mark.parametrize(("acked_bytes", "to_null", "inside"), [(500, False, 1), (950, False, 0), (950, True, 1)])
def test_a_copy_releases_its_slot_early(watched, acked_bytes, to_null, inside):
    """The next one of the site is tuned meanwhile; a speed test keeps its slot, for the real copy is still to come."""
    parts = watched.copying(acked_bytes, to_null=to_null)
    for _ in range(2):
        assert parts.copy.witness().acked_bytes == acked_bytes
    assert watched.slots.copies.inside == inside
    assert len(watched.copied) == 1 - inside


def test_a_copy_that_is_repeated_holds_its_slot_again(watched, monkeypatch):
    """Beside the follower that has it by then: a tuned device does not wait."""
    parts, held = watched.copying(950), []

    def attempt(order):
        held.append(parts.slot.is_held)
        if len(held) == 1:
            parts.copy.witness()
            watched.slots.copies.enter("a")
            raise DeviceUnreachable("lost", host="r1", step="pull")

    monkeypatch.setattr(parts.copy, "_attempt", attempt)
    monkeypatch.setattr(parts.login, "forget", lambda: None)
    again = SimpleNamespace(decision=Decision.REMOVE_AND_AGAIN)
    monkeypatch.setattr(parts.recovery, "clear", lambda order, *, may_repeat: again)
    monkeypatch.setattr(parts.keeper, "move", lambda state: None)
    parts.copy.copy(parts.traces.order)
    assert (held, watched.slots.copies.inside) == ([True, True], 2)
    parts.slot.free()
    assert watched.slots.copies.inside == 1


@pytest.mark.parametrize(("acked_bytes", "told"), [(500, []), (600, ["a"]), (950, [])])
def test_a_copy_near_its_end_has_the_next_one_make_ready(watched, monkeypatch, acked_bytes, told):
    """Once, half a minute or so before, and the pool is told of it when the slot is given back."""
    parts, expected, left = watched.copying(acked_bytes), [], []
    monkeypatch.setattr(watched.slots.copies, "expect", expected.append)
    monkeypatch.setattr(watched.slots.copies, "leave", lambda site, *, was_expected: left.append(was_expected))
    for _ in range(2):
        parts.copy.witness()
    parts.slot.free()
    assert expected == told
    assert left == [bool(told)]
