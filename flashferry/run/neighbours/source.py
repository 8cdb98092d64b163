"""The source of a device's image, our server over the WAN or a neighbour, and the copy from a neighbour.

Such a copy has no ticket and no account of our server: the device's own line says how many bytes it copied, and its
hash that they are the image's. A neighbour that fails, or is slower than the WAN, is given up, and the device copies
over the WAN by its usual transport. It is tuned by then and never waits, so it copies beyond the limit.
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
from flashferry.run.device.copy import check_target_again, start_copying
from flashferry.run.device.copy_recovery import LostCopy, recover_copy, remove_copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.slots import PATIENCE_S, take_extra_copy_slot
from flashferry.run.device.transport_fallback import STEP as TRANSPORT
from flashferry.run.device.transport_fallback import go_on
from flashferry.run.device.transports import take_neighbour
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.board import objection
from flashferry.transports.transport import Offer, offer_of
from tasks.copy import COPY, CopyReport
from tasks.copy_watch import CopyLimits, copy_limits
from tasks.neighbours.fetch import fetch, patience_s
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.source_address import interface_with
from tasks.steps import COPY_RECOVERY

STALL_S = 30.0
"""A neighbour that sends nothing for so long is given up: the WAN is left."""


def choose_source(run: DeviceRun, recheck: Callable[[], None]) -> bool:
    """Wait until it is known where the image comes from; return whether it is a neighbour.

    Args:
        run: The device's run.
        recheck: Logs in again; called where the device was logged out and its turn is near.

    Raises:
        Interrupted: The run is to stop.
        DeviceUnreachable: The session was lost.
    """
    context, board = run.context, run.context.board
    if board is None:
        reason = objection(run.host) if context.neighbourhood is not None and run.host.neighbours else ""
        if reason:
            run.note(f"not from a neighbour: {reason}")
        return False
    session = run.session()
    place = interface_with(session, named=run.host.source_interface)
    if place is None:
        run.note("not from a neighbour: no interface that is up has the address that its copy is to come from")
    served_by = board.source_for(
        run.host.name,
        address=place[1] if place is not None else None,
        can_serve=session.platform.serving is not None,
        interrupted=context.interrupted,
        patience_s=PATIENCE_S,
        on_wait=run.queued(COPY.word),
        on_patience=run.log_out,
        on_soon=recheck,
    )
    if served_by is None or place is None:
        return False
    take_neighbour(run, served_by, place[0])
    run.update(transport=run.transport.name, source=f"neighbour {served_by.host}")
    run.note_event(TRANSPORT, f"the image comes from {served_by.host}, a neighbour of its site")
    return True


def proof_started(run: DeviceRun) -> None:
    """Report to the site that the device has its copy and proves it now: the next devices log in again."""
    if run.context.board is not None:
        run.context.board.proving(run.host.name)


def fetch_from_neighbour(run: DeviceRun, order: CopyOrder, before: Snapshot) -> DevicePlan | None:
    """Copy from the neighbour; return the plan for the WAN where that was given up, None where the copy is done.

    Args:
        run: The device's run.
        order: What to copy.
        before: The device's configuration before anything was set.

    Raises:
        FlashferryError: The copy failed, and going on was not allowed, or failed as well.
    """
    run.traces.order = order
    try:
        _attempt(run, order)
    except FlashferryError as error:
        if run.context.interrupted() or isinstance(error, Stopped | FileInTheWay):
            raise
        if run.traces.is_theirs or error.step != COPY.word:
            raise
        return _give_up(run, order, error, before)
    _copied(run)
    return None


def _attempt(run: DeviceRun, order: CopyOrder) -> None:
    traces, board = run.traces, run.context.board
    check_target_again(run, order)
    start_copying(run)
    traces.is_from_neighbour = traces.may_be_writing = traces.began = True
    # A neighbour has no more than the image: a larger file at the target is not ours.
    traces.sent_bytes = max(traces.sent_bytes, order.image.size_bytes)
    try:
        done: CopyReport = run.run_step(
            COPY,
            fetch,
            offer=_offer(run, order),
            target=order.target,
            size_bytes=order.image.size_bytes,
            limits=_limits(run, order),
            longest_s=patience_s(board.wan_s if board is not None else None),
            interrupted=run.context.interrupted,
            seen=lambda marks: _emit_marks(run, marks),
        )
    except DeviceUnreachable:
        run.drop_session()
        raise
    except FlashferryError as error:
        # The device is back at its prompt: nothing is written any more. A copy that it refused did not start.
        traces.may_be_writing, traces.began = False, not isinstance(error, DeviceRefused)
        traces.is_theirs = isinstance(error, FileInTheWay)
        raise
    traces.may_be_writing = False
    run.keep(COPY, done)
    rate = exact_rate(done.device.size_bytes / max(done.device.duration_s, 0.001))
    run.note(
        f"copied from {run.record.source} at {rate} by the device's own account; no server of ours "
        "saw it, so there is no verdict on what limited it"
    )


def _emit_marks(run: DeviceRun, marks: int) -> None:
    """Emit how many progress marks the device printed; what a mark stands for is not known."""
    if marks:
        run.event(COPY.word, "progress", f"{marks} marks by the device, from {run.record.source}")


def _offer(run: DeviceRun, order: CopyOrder) -> Offer:
    assert run.served_by is not None
    no_login = Ticket(ticket_id="", username="", password="", image_name=order.image.name)
    return offer_of(run.transport, no_login, server=run.served_by.address, port=run.transport.ports.well_known)


def _limits(run: DeviceRun, order: CopyOrder) -> CopyLimits:
    least = run.session().platform.defaults.flash_bytes_per_s
    return replace(copy_limits(size_bytes=order.image.size_bytes, expected_bytes_per_s=least), stall_s=STALL_S)


def _copied(run: DeviceRun) -> None:
    run.passed(COPY)
    run.context.copied()


def _give_up(run: DeviceRun, order: CopyOrder, error: FlashferryError, before: Snapshot) -> DevicePlan | None:
    """Give the neighbour up; return the plan for the WAN, or None where the image is complete all the same."""
    if run.context.board is not None:
        run.context.board.let_down(run.host.name)
    found = _recover(run, order, error)
    if found.decision is Decision.DONE:
        run.note(f"{run.record.source} failed at the end ({sentence_of(error)}); {found.reason}")
        _copied(run)
        return None
    if found.decision is Decision.GIVE_UP:
        error.message = f"{error.message}; {found.reason}"
        raise error
    if found.decision is Decision.REMOVE_AND_AGAIN:
        remove_copy(run, order.target)
    take_extra_copy_slot(run)
    return go_on(run, error, before)


def _recover(run: DeviceRun, order: CopyOrder, error: FlashferryError) -> RecoveryDecision:
    """Return what to do about what the copy left on flash, once nothing writes there any more."""
    if not isinstance(error, DeviceUnreachable) and file_at(run.session(), order.target).size_bytes is None:
        return RecoveryDecision(decision=Decision.AGAIN, reason="no file is left on flash")
    unseen = TransferProgress(
        ticket_id="", state=TransferState.WAITING, sequence=0, size_bytes=order.image.size_bytes, tries_left=0
    )
    lost = LostCopy(
        target=order.target,
        image_bytes=order.image.size_bytes,
        may_remove=run.context.policy.remove_partial,
        may_repeat=True,
        began=True,
        progress=lambda: unseen,
        is_counted=False,
        end_transfer=lambda: None,
        interrupted=run.context.interrupted,
    )
    found: RecoveryDecision = run.run_step(COPY_RECOVERY, recover_copy, lost=lost)
    run.traces.may_be_writing = False
    run.update(reconciled=(*run.record.reconciled, found))
    return found


@contextmanager
def blame_for_other_bytes(run: DeviceRun) -> Iterator[None]:
    """Mark the neighbour as unfit to serve where the hash inside the block is not the image's."""
    served_by = run.served_by
    try:
        yield
    except ImageCorrupt:
        if served_by is not None and run.context.board is not None:
            run.context.board.blame(served_by.host)
        raise
