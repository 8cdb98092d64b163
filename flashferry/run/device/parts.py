"""The parts that a device's run is composed of, put together in one place."""

from __future__ import annotations

from dataclasses import dataclass

from nornir.core.task import Task

from flashferry.devices.identity import guard_logins
from flashferry.run.context import RunContext
from flashferry.run.device.check import DeviceCheck
from flashferry.run.device.clearing import CopyClearing
from flashferry.run.device.copy import DeviceCopy
from flashferry.run.device.delivery import Delivery
from flashferry.run.device.leftover import Leftover
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.restore import DeviceRestore
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyTraces, DeviceTickets
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device.waiting import CopySlot, HashSlot
from inventory.view import HostView, view


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceParts:
    """What works on one device of a run. Each part knows only those that it needs.

    Attributes:
        task: The Nornir task that the device's run is.
        context: What it shares with the other devices, and what is the device's own.
        host: The inventory's view.
        events: Tells what happens.
        keeper: Keeps the record.
        steps: Runs the steps.
        login: Has the session.
        slot: Has the slot for the copy.
        hash_slot: Has the slot for a hash run.
        tuning: Sets our lines.
        traces: What the copies have done so far.
        tickets: Issues credentials, and keeps the server's account.
        clearing: Clears up behind a copy.
        copy: Copies.
        check: Looks and decides.
        delivery: Tunes, copies, verifies.
        leftover: Sees to what a failed copy left.
        restore: Brings the configuration back.
    """

    task: Task
    context: RunContext
    host: HostView
    events: DeviceEvents
    keeper: RecordKeeper
    steps: StepRunner
    login: DeviceLogin
    slot: CopySlot
    hash_slot: HashSlot
    tuning: DeviceTuning
    traces: CopyTraces
    tickets: DeviceTickets
    clearing: CopyClearing
    copy: DeviceCopy
    check: DeviceCheck
    delivery: Delivery
    leftover: Leftover
    restore: DeviceRestore


def parts_of(task: Task, context: RunContext) -> DeviceParts:
    """Return the parts of a device's run, and have its logins held against who answered first."""
    host = view(task.host)
    events, keeper, traces = DeviceEvents(task, context), RecordKeeper(task, context), CopyTraces()
    steps = StepRunner(task, context, events, keeper)
    login = DeviceLogin(task, context, events, steps)
    slot, hash_slot = CopySlot(host.site, context, events, login), HashSlot(context, events, login)
    tuning = DeviceTuning(context, events, keeper, steps)
    tickets = DeviceTickets(context, host, login, events, keeper, tuning, traces)
    clearing = CopyClearing(context, events, keeper, steps, traces, tickets)
    copy = DeviceCopy(context, host, events, keeper, steps, login, slot, tuning, traces, tickets, clearing)
    leftover = Leftover(context, events, keeper, login, traces, tickets, clearing)
    guard_logins(task, context.guard)
    return DeviceParts(
        task=task,
        context=context,
        host=host,
        events=events,
        keeper=keeper,
        steps=steps,
        login=login,
        slot=slot,
        hash_slot=hash_slot,
        tuning=tuning,
        traces=traces,
        tickets=tickets,
        clearing=clearing,
        copy=copy,
        check=DeviceCheck(context, host, events, keeper, steps, login, hash_slot, traces, clearing),
        delivery=Delivery(context, keeper, steps, login, slot, hash_slot, tuning, copy),
        leftover=leftover,
        restore=DeviceRestore(task, context, events, keeper, steps, login, leftover),
    )
