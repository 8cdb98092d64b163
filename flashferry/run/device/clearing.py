"""What a copy left: found out where it ended without a result, and removed where it stands in the way of another."""

from __future__ import annotations

from flashferry.devices.errors import DeviceUnreachable
from flashferry.fileserver import Ticket
from flashferry.model.recovery_rules import Decision, Judgement
from flashferry.run.context import RunContext
from flashferry.run.device.copy_recovery import Case, reconcile
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyOrder, CopyTraces, DeviceTickets
from tasks.copy import COPY
from tasks.partial_file import REMOVE, remove
from tasks.steps import RECONCILE


class CopyClearing:
    """Clears up behind the copies of a device."""

    def __init__(
        self,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        traces: CopyTraces,
        tickets: DeviceTickets,
    ) -> None:
        self._context, self._events, self._keeper, self._steps = context, events, keeper, steps
        self._traces, self._tickets = traces, tickets

    def clear(self, order: CopyOrder, *, may_repeat: bool) -> Judgement:
        """Find out what is left of a copy, and remove it where it stands in the way of another one."""
        found = self._find_out(order, may_repeat=may_repeat)
        if found.decision is Decision.REMOVE_AND_AGAIN:
            self.remove(order.target)
        return found

    def settle(self) -> None:
        """Wait until nothing writes to the target of the last copy any more."""
        order, ticket = self._traces.order, self._traces.ticket
        if self._traces.may_be_writing and order is not None and ticket is not None:
            self._steps.run(RECONCILE, reconcile, case=self._case(order, ticket, may_repeat=False))
            self._traces.may_be_writing = False

    def remove(self, target: str) -> None:
        """Remove what a copy left, and nothing that could still be written to."""
        self._tickets.revoke()
        self._steps.run(REMOVE, remove, path=target, no_larger_than_bytes=self._traces.sent_bytes)
        self._traces.began = False

    def _find_out(self, order: CopyOrder, *, may_repeat: bool) -> Judgement:
        """Return what became of a copy that ended without a result, when there is nothing more to wait for."""
        ticket = self._traces.ticket
        if ticket is None:
            raise DeviceUnreachable(
                "the session was lost before the copy began", host=self._keeper.record.host, step=COPY.word
            )
        found: Judgement = self._steps.run(RECONCILE, reconcile, case=self._case(order, ticket, may_repeat=may_repeat))
        self._traces.may_be_writing = False
        self._tickets.take_account(self._context.server.progress(ticket.ticket_id))
        self._keeper.update(reconciled=(*self._keeper.record.reconciled, found))
        self._keeper.compare_clocks()
        self._events.tell(RECONCILE.word, "done", f"{found.reason}: {found.decision.value}")
        return found

    def _case(self, order: CopyOrder, ticket: Ticket, *, may_repeat: bool) -> Case:
        server = self._context.server
        return Case(
            target=order.target,
            image_bytes=order.image.size_bytes,
            may_remove=self._context.options.remove_partial,
            may_repeat=may_repeat,
            began=self._traces.began,
            progress=lambda: server.progress(ticket.ticket_id),
            end_transfer=lambda: server.revoke(ticket.ticket_id),
            interrupted=self._context.interrupted,
        )
