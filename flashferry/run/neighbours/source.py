"""Where a device of a site takes the image from: from us over the WAN, or from a neighbour; and the copy from there.

There is no ticket and no account of our server of such a copy: the device's own line says how many bytes it copied, and
its hash that they are the image's. A neighbour that fails the device, or is slower than the WAN, is given up, and the
copy goes on over the WAN, by the transport that it would have gone by. The device is tuned by then and never waits: it
goes beside whoever copies there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from flashferry.core.errors import FlashferryError
from flashferry.core.units import exact_rate
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, FileInTheWay, ImageCorrupt, Stopped
from flashferry.fileserver import Ticket, TransferProgress, TransferState
from flashferry.model.lost_copy_rules import Decision, RecoveryDecision
from flashferry.model.record import sentence_of
from flashferry.model.states import State
from flashferry.run.context import RunContext
from flashferry.run.device.copy import DeviceCopy
from flashferry.run.device.copy_recovery import CopyRecovery, LostCopy, recover_copy
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyOrder, CopyTraces
from flashferry.run.device.transport_fallback import STEP as TRANSPORT
from flashferry.run.device.transport_fallback import TransportFall
from flashferry.run.device.transports import DeviceTransport
from flashferry.run.device.waiting import PATIENCE_S, CopySlot
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.board import objection
from flashferry.transports.transport import Offer, offer_of
from inventory.host_view import HostView
from tasks.copy import COPY, CopyReport
from tasks.copy_watch import CopyLimits, copy_limits
from tasks.neighbours.fetch import fetch, patience_s
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.source_address import interface_with
from tasks.steps import COPY_RECOVERY

STALL_S = 30.0
"""A neighbour that sends nothing for so long is given up: there is another way."""


class NeighbourSource:
    """Knows where a device takes the image from, and has it fetched from a neighbour."""

    def __init__(
        self,
        context: RunContext,
        host: HostView,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        slot: CopySlot,
        traces: CopyTraces,
        transport: DeviceTransport,
        fall: TransportFall,
        recovery: CopyRecovery,
        copy: DeviceCopy,
    ) -> None:
        self._context, self._host, self._events, self._keeper = context, host, events, keeper
        self._steps, self._login, self._slot, self._traces = steps, login, slot, traces
        self._transport, self._fall, self._recovery, self._copy = transport, fall, recovery, copy

    @property
    def is_neighbour(self) -> bool:
        """Whether the image comes from a neighbour, as things stand."""
        return self._transport.served_by is not None

    def choose(self, recheck: Callable[[], None]) -> bool:
        """Wait until it is clear where the image comes from; tell whether it is a neighbour.

        Args:
            recheck: Logs in again; called where it was logged out and its turn is near.

        Raises:
            Interrupted: The run is to stop.
            DeviceUnreachable: The session was lost.
        """
        board = self._context.board
        if board is None:
            self._tell_objection()
            return False
        session = self._login.session()
        place = interface_with(session, named=self._host.source_interface)
        if place is None:
            self._keeper.note(
                "not from a neighbour: no interface that is up has the address that its copy is to come from"
            )
        served_by = board.source_for(
            self._host.name,
            address=place[1] if place is not None else None,
            can_serve=session.platform.serving is not None,
            interrupted=self._context.interrupted,
            patience_s=PATIENCE_S,
            on_wait=self._events.queued(COPY.word),
            on_patience=self._login.log_out,
            on_soon=recheck,
        )
        if served_by is None or place is None:
            return False
        self._transport.take_neighbour(served_by, place[0])
        self._keeper.update(transport=self._transport.current.name, source=f"neighbour {served_by.host}")
        self._events.tell(TRANSPORT, "note", f"note: the image comes from {served_by.host}, a neighbour of its site")
        return True

    def proving(self) -> None:
        """Note that the device has its copy and proves it now: who comes next at its site is to make ready."""
        if self._context.board is not None:
            self._context.board.proving(self._host.name)

    def _tell_objection(self) -> None:
        """Tell where a device takes no part in what its site allows."""
        reason = objection(self._host) if self._context.neighbourhood is not None and self._host.neighbours else ""
        if reason:
            self._keeper.note(f"not from a neighbour: {reason}")

    def fetch(self, order: CopyOrder, before: Snapshot) -> DevicePlan | None:
        """Have the device copy from its neighbour; return how it goes on over the WAN where that was given up.

        Args:
            order: What it is to copy.
            before: What the device was before anything was set.

        Raises:
            FlashferryError: The copy failed, and going on was not allowed, or failed as well.
        """
        self._traces.order = order
        try:
            self._attempt(order)
        except FlashferryError as error:
            if not self._may_go_on(error):
                raise
            return self._given_up(order, error, before)
        self._copied()
        return None

    def _attempt(self, order: CopyOrder) -> None:
        traces = self._traces
        self._copy.look_again(order)
        if self._keeper.record.state is not State.COPYING:
            self._keeper.move(State.COPYING)
        traces.is_from_neighbour = traces.may_be_writing = traces.began = True
        # No more than the image comes from there: a larger file at the target is not ours.
        traces.sent_bytes = max(traces.sent_bytes, order.image.size_bytes)
        try:
            done = self._pulled(order)
        except DeviceUnreachable:
            self._login.forget()
            raise
        except FlashferryError as error:
            # The device is back at its prompt: nothing of it goes on. What it refused it has not begun.
            traces.may_be_writing, traces.began = False, not isinstance(error, DeviceRefused)
            traces.is_theirs = isinstance(error, FileInTheWay)
            raise
        traces.may_be_writing = False
        self._keeper.keep(COPY, done)
        self._note(done)

    def _pulled(self, order: CopyOrder) -> CopyReport:
        done: CopyReport = self._steps.run(
            COPY,
            fetch,
            offer=self._offer(order),
            target=order.target,
            size_bytes=order.image.size_bytes,
            limits=self._limits(order),
            longest_s=patience_s(self._context.board.wan_s if self._context.board is not None else None),
            interrupted=self._context.interrupted,
            seen=self._tell_marks,
        )
        return done

    def _tell_marks(self, marks: int) -> None:
        """Tell how far the device says that it is; what a mark stands for is not known."""
        if marks:
            self._events.tell(COPY.word, "progress", f"{marks} marks by the device, from {self._keeper.record.source}")

    def _offer(self, order: CopyOrder) -> Offer:
        served_by, transport = self._transport.served_by, self._transport.current
        assert served_by is not None
        nobody = Ticket(ticket_id="", username="", password="", image_name=order.image.name)
        return offer_of(transport, nobody, server=served_by.address, port=transport.ports.well_known)

    def _limits(self, order: CopyOrder) -> CopyLimits:
        least = self._login.session().platform.defaults.flash_bytes_per_s
        return replace(copy_limits(size_bytes=order.image.size_bytes, expected_bytes_per_s=least), stall_s=STALL_S)

    def _note(self, done: CopyReport) -> None:
        rate = exact_rate(done.device.size_bytes / max(done.device.duration_s, 0.001))
        self._keeper.note(
            f"copied from {self._keeper.record.source} at {rate} by the device's own account; no server of ours "
            "saw it, so there is no verdict on what limited it"
        )

    def _copied(self) -> None:
        self._keeper.passed(COPY)
        self._context.copied()

    def _may_go_on(self, error: FlashferryError) -> bool:
        """Tell whether a failure is the neighbour's, or may be, so that the WAN is worth a try."""
        if self._context.interrupted() or isinstance(error, Stopped | FileInTheWay):
            return False
        return not self._traces.is_theirs and error.step == COPY.word

    def _given_up(self, order: CopyOrder, error: FlashferryError, before: Snapshot) -> DevicePlan | None:
        """Give the neighbour up; return how to go on, or None where the image came all the same."""
        if self._context.board is not None:
            self._context.board.let_down(self._host.name)
        found = self._left(order, error)
        if found.decision is Decision.DONE:
            self._keeper.note(f"{self._keeper.record.source} failed at the end ({sentence_of(error)}); {found.reason}")
            self._copied()
            return None
        if found.decision is Decision.GIVE_UP:
            error.message = f"{error.message}; {found.reason}"
            raise error
        if found.decision is Decision.REMOVE_AND_AGAIN:
            self._recovery.remove(order.target)
        self._slot.take_beside()
        return self._fall.go_on(error, before)

    def _left(self, order: CopyOrder, error: FlashferryError) -> RecoveryDecision:
        """Return what to do about what the copy left on flash, once nothing writes there any more."""
        if not isinstance(error, DeviceUnreachable) and file_at(self._login.session(), order.target).size_bytes is None:
            return RecoveryDecision(decision=Decision.AGAIN, reason="no file is left on flash")
        found: RecoveryDecision = self._steps.run(COPY_RECOVERY, recover_copy, lost=self._lost_copy(order))
        self._traces.may_be_writing = False
        self._keeper.update(reconciled=(*self._keeper.record.reconciled, found))
        return found

    def _lost_copy(self, order: CopyOrder) -> LostCopy:
        unseen = TransferProgress(
            ticket_id="", state=TransferState.WAITING, sequence=0, size_bytes=order.image.size_bytes, tries_left=0
        )
        return LostCopy(
            target=order.target,
            image_bytes=order.image.size_bytes,
            may_remove=self._context.policy.remove_partial,
            may_repeat=True,
            began=True,
            progress=lambda: unseen,
            is_counted=False,
            end_transfer=lambda: None,
            interrupted=self._context.interrupted,
        )

    @contextmanager
    def blamed_for_other_bytes(self) -> Iterator[None]:
        """Have a neighbour get nobody new where the hash inside the block is not the image's."""
        served_by = self._transport.served_by
        try:
            yield
        except ImageCorrupt:
            if served_by is not None and self._context.board is not None:
                self._context.board.blame(served_by.host)
            raise
