"""One device's way through a run, as one Nornir task: restoring is part of it, whatever failed before.

Nornir skips hosts that failed on its next `run`, so a restore in a second run would skip exactly the devices that
need it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from nornir.core.task import Result, Task

from flashferry.devices.identity import guard_logins, identity_of, member_serials
from flashferry.fileserver import FileServerError
from flashferry.model.lease import JournalUnusable
from flashferry.model.record import DeviceRecord, failure_of
from flashferry.model.states import Outcome, Restored, State
from flashferry.run.context import RunContext
from flashferry.run.device.check import DeviceCheck
from flashferry.run.device.copy import DeviceCopy
from flashferry.run.device.copy_recovery import CopyRecovery
from flashferry.run.device.delivery import Delivery
from flashferry.run.device.finish import DeviceFinish
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.partial_file import Leftover
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.restore import DeviceRestore
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyTraces, DeviceTickets
from flashferry.run.device.transport_fallback import STEP as TRANSPORT
from flashferry.run.device.transport_fallback import TransportFall
from flashferry.run.device.transports import DevicePlanner, DeviceTransport
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device.waiting import CopySlot, HashSlot
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.parent import NeighbourServing
from flashferry.run.neighbours.source import NeighbourSource
from flashferry.tcp.ssh_channel_window import Limit
from inventory.host_view import HostView, view
from tasks.fetching.ceilings import announce
from tasks.snapshot import SNAPSHOT, Snapshot, snapshot
from tasks.tcp_config import Change


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
        transport: Knows by what the copy goes.
        planner: Makes the plan.
        fall: Goes on to the next transport.
        tuning: Sets our lines.
        traces: What the copies have done so far.
        tickets: Issues credentials, and keeps the server's account.
        recovery: Finds out what became of a copy, and clears up behind it.
        copy: Copies.
        check: Looks and decides.
        delivery: Tunes, copies, verifies.
        leftover: Sees to what a failed copy left.
        restore: Brings the configuration back.
        finish: Does what follows the restore.
        source: Knows whether the image comes from a neighbour.
        serving: Serves it to others of the site.
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
    transport: DeviceTransport
    planner: DevicePlanner
    fall: TransportFall
    tuning: DeviceTuning
    traces: CopyTraces
    tickets: DeviceTickets
    recovery: CopyRecovery
    copy: DeviceCopy
    check: DeviceCheck
    delivery: Delivery
    leftover: Leftover
    restore: DeviceRestore
    finish: DeviceFinish
    source: NeighbourSource
    serving: NeighbourServing


def parts_of(task: Task, context: RunContext) -> DeviceParts:
    """Return the parts of a device's run, and have its logins held against who answered first."""
    host = view(task.host)
    events, keeper, traces = DeviceEvents(task, context, host.site), RecordKeeper(task, context), CopyTraces()
    steps = StepRunner(task, context, events, keeper)
    login = DeviceLogin(task, context, events, steps)
    slot, hash_slot = CopySlot(host.site, context, events, login), HashSlot(context, events, login)
    tuning = DeviceTuning(context, events, keeper, steps)
    transport = DeviceTransport(context)
    tickets = DeviceTickets(context, host, login, events, keeper, tuning, traces, transport)
    planner = DevicePlanner(context, host, keeper, login, transport)
    recovery = CopyRecovery(context, events, keeper, steps, traces, tickets)
    copy = DeviceCopy(context, host, events, keeper, steps, login, slot, tuning, traces, tickets, recovery, transport)
    fall = TransportFall(context, events, keeper, login, traces, tickets, transport, planner, tuning)
    source = NeighbourSource(context, host, events, keeper, steps, login, slot, traces, transport, fall, recovery, copy)
    leftover = Leftover(context, events, keeper, login, traces, tickets, recovery)
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
        transport=transport,
        planner=planner,
        fall=fall,
        tuning=tuning,
        traces=traces,
        tickets=tickets,
        recovery=recovery,
        copy=copy,
        check=DeviceCheck(context, host, events, keeper, steps, login, hash_slot, traces, recovery),
        delivery=Delivery(context, keeper, steps, login, slot, hash_slot, tuning, copy, fall, source),
        source=source,
        serving=NeighbourServing(context, host, events, keeper, steps, login, tuning),
        leftover=leftover,
        restore=DeviceRestore(task, context, events, keeper, steps, login, leftover),
        finish=DeviceFinish(context, events, keeper, steps, login, hash_slot),
    )


Deliver = Callable[[DevicePlan, Snapshot], None]
"""What is done to a device between journal and restore, given what is planned and what it was; it may raise."""


def stage_device(task: Task, context: RunContext) -> Result:
    """Nornir task: take one device through the run and return its DeviceRecord; never raises for a device's fault."""
    parts = parts_of(task, context)
    return run_device(DeviceRun(parts, parts.delivery.deliver))


def run_device(run: DeviceRun) -> Result:
    """Take a device through its run, keep the record in the journal and return it."""
    task, context = run.parts.task, run.parts.context
    record = run.execute()
    try:
        context.journal.record(context.run_id, task.host.name, record)
    except JournalUnusable as error:
        # The report outweighs its copy in the journal.
        record = replace(record, failure=record.failure or failure_of("record", error))
    run.tell_end(record)
    is_changed = record.transfer is not None or record.source is not None
    return Result(host=task.host, result=record, changed=is_changed)


class DeviceRun:
    """The steps of one device, in their order.

    Args:
        parts: What works on the device.
        deliver: What is done once it is in our hands.
    """

    def __init__(self, parts: DeviceParts, deliver: Deliver) -> None:
        self.parts = parts
        self._deliver = deliver

    def execute(self) -> DeviceRecord:
        """Go through all steps and return the record."""
        parts, board = self.parts, self.parts.context.board
        if board is not None:
            board.enter(parts.host.name, has_image=parts.context.is_helper)
        try:
            parts.login.connect()
            parts.check.ask_lease()
            parts.check.check()
            if parts.context.is_helper or parts.keeper.record.outcome is Outcome.ALREADY_THERE:
                self._serve_what_is_there()
            elif self._is_to_be_staged:
                self.wait_and_stage()
            if not parts.context.is_helper:
                parts.finish.finish()
        except Exception as error:  # noqa: BLE001 -- one device's fault must not end the others' run
            parts.keeper.take_failure(error)
        finally:
            with suppress(FileServerError):  # a server that is gone honours no ticket
                parts.tickets.revoke()
            parts.login.end()
            if board is not None:
                board.leave(parts.host.name)
        return parts.keeper.record

    def tell_end(self, record: DeviceRecord) -> None:
        """Tell that this device is through, and what became of it."""
        failure = record.failure or record.restore_failure
        good = record.outcome.is_good and failure is None
        self.parts.events.tell(
            "device",
            "done" if good else "failed",
            record.outcome.label if failure is None else f"{record.outcome.label}: {failure.step}: {failure.reason}",
            outcome=record.outcome.value,
            restored=record.restored.value,
            failure=failure.kind if failure else None,
        )

    def wait_and_stage(self) -> None:
        """Wait for a slot, untouched; then stage."""
        parts = self.parts
        # Refuses what no copy command can carry while the device is still as it was.
        parts.fall.first_plan(parts.keeper.checked.running)
        if parts.context.untuned_because is not None:
            parts.keeper.note(f"not tuned: {parts.context.untuned_because}")
        if not parts.source.choose(parts.check.recheck):
            parts.slot.take(parts.check.recheck)
        try:
            parts.check.recheck()
            if self._is_to_be_staged:
                self._stage()
        finally:
            parts.slot.free()

    def _serve_what_is_there(self) -> None:
        """Take a device that was found with the image in hand, where others of its site need that; give it back."""
        parts = self.parts
        if self._is_to_be_staged:
            parts.keeper.note("it was to serve others of its site, and the image is not there any more: stage it again")
        if parts.keeper.record.outcome is not Outcome.ALREADY_THERE or not parts.serving.is_wanted():
            return
        before: Snapshot = parts.steps.run(SNAPSHOT, snapshot)
        target = f"{parts.keeper.checked.file_system}{parts.context.image.name}"
        self._acquire(before, (), target)
        parts.keeper.update(state=State.JOURNALED)
        # It has its copy behind it: whom it serves is to be looked at.
        parts.context.copied()
        try:
            parts.serving.serve(target)
        finally:
            parts.restore.restore(before)

    @property
    def _is_to_be_staged(self) -> bool:
        return self.parts.keeper.record.outcome not in {Outcome.REFUSED, Outcome.ALREADY_THERE}

    def _stage(self) -> None:
        """Take the device in hand, deliver, and give it back as it was, whatever happened in between."""
        parts = self.parts
        before: Snapshot = parts.steps.run(SNAPSHOT, snapshot)
        # From the snapshot, not from the check: what somebody set in between is theirs and comes back.
        plan = parts.planner.plan(before.running)
        self._take_in_hand(plan, before)
        try:
            self._deliver(plan, before)
            parts.serving.serve(plan.target)
        except BaseException as error:  # noqa: BLE001 -- whatever happened, restoring comes first
            parts.keeper.take_failure(error)
        finally:
            parts.slot.free()
            parts.restore.restore(before)
            if parts.keeper.record.failure is not None:
                parts.leftover.clean_up()
        if parts.keeper.record.outcome is Outcome.DONE and not parts.context.to_null:
            parts.delivery.final_check(plan.target)

    def _take_in_hand(self, plan: DevicePlan, before: Snapshot) -> None:
        """Have on disk what the device was before anything changes.

        Also where nothing is to be changed: the lease keeps a device that a dead run left tuned, or that another run
        has in its hands, from being taken for one that is fine as it is.
        """
        parts = self.parts
        self._acquire(before, plan.tune.changes, plan.target)
        if plan.ceilings and plan.ceilings[0].limit is Limit.SSH_WINDOW:
            parts.events.tell(TRANSPORT, "note", f"note: {announce(plan.ceilings[:1])}")
        restored = Restored.INCOMPLETE if plan.tune.changes else Restored.UNTOUCHED
        parts.keeper.update(state=State.JOURNALED, restored=restored, window=plan.window, changes=plan.tune.changes)

    def _acquire(self, before: Snapshot, changes: tuple[Change, ...], target: str) -> None:
        parts = self.parts
        parts.context.journal.acquire_lease(
            parts.context.run_id,
            parts.host.name,
            identity=identity_of(parts.keeper.checked.facts),
            snapshot=before,
            changes=changes,
            target=target,
            members=member_serials(parts.login.session().show_version()),
        )
