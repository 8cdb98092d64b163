"""What a device does while it waits for a slot: it is told, it stays untouched, and in the end it is logged out."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest
from nornir.core.inventory import Host

from flashferry.core.values import replace
from flashferry.devices.errors import DeviceUnreachable, Interrupted
from flashferry.fileserver import TransferState
from flashferry.model.limits import Limits
from flashferry.model.lost_copy_rules import Decision
from flashferry.run import concurrency as slot_pools
from flashferry.run.concurrency import SlotPools
from flashferry.run.device import check, device_run, slots, workflow
from flashferry.run.device import copy as device_copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from tests import patience
from tests.patience import PATIENCE_S
from tests.unit.run.device.scripted import Steps, context

CHECKED = SimpleNamespace(
    running=None,
    already_there=False,
    notes=(),
    refusal=None,
    facts=SimpleNamespace(serial_number="9X", hostname="r1"),
)


class Watched:
    """A device's run whose steps only note that they were taken; its site has one slot for copies."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(slot_pools, "POLL_S", 0.005)
        monkeypatch.setattr(device_run, "session_of", lambda task: self.done.append("login"))
        monkeypatch.setattr(Host, "close_connections", lambda host: self.done.append("logout"))
        monkeypatch.setattr(check, "decide", lambda run, report: None)
        for name in ("first_plan", "restore"):
            monkeypatch.setattr(workflow, name, lambda run, given: None)
        plan = SimpleNamespace(target="flash:x.bin", tune=SimpleNamespace(changes=()), ceilings=(), window=None)
        monkeypatch.setattr(workflow, "plan_now", lambda run, lines: plan)
        self.done, self.events, self.copied, self.fails = [], [], [], False
        self.stop = threading.Event()
        self.slots = SlotPools(Limits(site_copies=1))
        given = replace(
            context(),
            emit=self.events.append,
            interrupted=self.stop.is_set,
            slots=self.slots,
            copied=lambda: self.copied.append(1),
        )
        given.journal.acquire_lease = lambda *given, **named: None
        steps = Steps(snapshot=self.snapshot, check=lambda task, **given: self.done.append("check") or CHECKED)
        steps.host.data["site"] = "a"
        self.run = DeviceRun(steps, given)
        self.run.session = lambda: SimpleNamespace(show_version=lambda: "")
        self.run.update(check=CHECKED)

    def snapshot(self, task):
        """Note the first step of staging."""
        if self.fails:
            raise ZeroDivisionError
        self.done.append("stage")
        return SimpleNamespace(running=None)

    def wait_and_stage(self):
        workflow.wait_and_stage(self.run, lambda run, plan, before: None)

    def copying(self, acked_bytes, *, to_null=False):
        """Return a device's run that holds the slot and has so much of 1000 bytes, at ten a second."""
        account = SimpleNamespace(
            state=TransferState.TRANSFERRING,
            bytes_acked=acked_bytes,
            rate_bytes_per_s=10.0,
            limited_by=None,
            last_error=None,
            record=None,
            size_bytes=1000,
        )
        given = replace(
            self.run.context,
            image=SimpleNamespace(name="x.bin", size_bytes=1000),
            server=SimpleNamespace(progress=lambda ticket: account),
            to_null=to_null,
        )
        run = DeviceRun(self.run.task, given)
        run.traces.order = CopyOrder(image=given.image, target="flash:x.bin")
        run.traces.ticket = SimpleNamespace(ticket_id="t1")
        slots.take_copy_slot(run, lambda: None)
        return run

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
    waiting = threading.Thread(target=watched.wait_and_stage)
    waiting.start()
    until(lambda: watched.done == ["logout"])
    return waiting


def test_a_free_slot_is_taken_without_a_word(watched):
    """Staged in it, and it is given back once; another device may be looked at."""
    watched.wait_and_stage()
    assert watched.done == ["stage"]
    assert (watched.queued(), watched.copied, watched.slots.copies.inside) == ([], [1], 0)


def test_who_waits_long_is_logged_out_and_looked_at_again(watched, monkeypatch):
    """Untouched while it waits; when the slot comes it logs in and checks anew before anything is set."""
    monkeypatch.setattr(slots, "PATIENCE_S", 0.0)
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
        watched.wait_and_stage()
    assert watched.done == []
    assert (watched.slots.copies.inside, watched.slots.copies.waiting) == (1, 0)


def test_a_slot_is_given_back_when_staging_fails(watched):
    """Whatever happened in it: the next one of the site goes on."""
    watched.fails = True
    with pytest.raises(ZeroDivisionError):
        watched.wait_and_stage()
    assert watched.slots.copies.inside == 0
    assert watched.copied == [1]


def test_who_was_logged_out_is_back_before_its_slot_comes(watched, monkeypatch):
    """When a copy before it nears its end it logs in and checks, and stages at once when the slot is its own."""
    monkeypatch.setattr(slots, "PATIENCE_S", 0.5)
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
    run = watched.copying(acked_bytes, to_null=to_null)
    for _ in range(2):
        assert device_copy.server_view(run).acked_bytes == acked_bytes
    assert watched.slots.copies.inside == inside
    assert len(watched.copied) == 1 - inside


def test_a_copy_that_is_repeated_holds_its_slot_again(watched, monkeypatch):
    """Beside the follower that has it by then: a tuned device does not wait."""
    run, held = watched.copying(950), []

    def attempt(run, order):
        held.append(slots.holds_copy_slot(run))
        if len(held) == 1:
            device_copy.server_view(run)
            watched.slots.copies.enter("a")
            raise DeviceUnreachable("lost", host="r1", step="pull")

    monkeypatch.setattr(device_copy, "_attempt", attempt)
    monkeypatch.setattr(run, "drop_session", lambda: None)
    again = SimpleNamespace(decision=Decision.REMOVE_AND_AGAIN)
    monkeypatch.setattr(device_copy, "clear_copy", lambda run, order, *, may_repeat: again)
    device_copy.copy(run, run.traces.order)
    assert (held, watched.slots.copies.inside) == ([True, True], 2)
    slots.free_copy_slot(run)
    assert watched.slots.copies.inside == 1


@pytest.mark.parametrize(("acked_bytes", "told"), [(500, []), (600, ["a"]), (950, [])])
def test_a_copy_near_its_end_has_the_next_one_make_ready(watched, monkeypatch, acked_bytes, told):
    """Once, half a minute or so before, and the pool is told of it when the slot is given back."""
    run, expected, left = watched.copying(acked_bytes), [], []
    monkeypatch.setattr(watched.slots.copies, "expect", expected.append)
    monkeypatch.setattr(watched.slots.copies, "leave", lambda site, *, was_expected: left.append(was_expected))
    for _ in range(2):
        device_copy.server_view(run)
    slots.free_copy_slot(run)
    assert expected == told
    assert left == [bool(told)]
