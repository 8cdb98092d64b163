"""Copies between devices of a site: fetch from a neighbour, and serve others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from flashferry.core.errors import FlashferryError
from flashferry.core.units import exact_rate
from flashferry.devices.errors import DeviceRefused, DeviceUnreachable, FileExists, ImageCorrupt, Stopped
from flashferry.fileserver import Ticket, TransferProgress, TransferState
from flashferry.model.lost_copy_rules import Decision, RecoveryDecision
from flashferry.model.record import sentence_of
from flashferry.run.device.copy import check_target_again, start_copying
from flashferry.run.device.copy_recovery import LostCopy, recover_copy, remove_copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.slots import PATIENCE_S, take_extra_copy_slot
from flashferry.run.device.transports import STEP as TRANSPORT
from flashferry.run.device.transports import take_neighbour, use_next_transport
from flashferry.run.device.tune import hold_lines, replace_lines
from flashferry.run.device_plan import DevicePlan
from flashferry.run.neighbours.board import SiteBoard, objection
from flashferry.transports.transport import Offer, offer_of
from tasks.copy import COPY, CopyLimits, CopyReport, copy_limits
from tasks.fetch_check import interface_with
from tasks.neighbours import (
    SERVE,
    ServicePlan,
    ServiceReport,
    admit,
    entries_for,
    fetch,
    open_service,
    patience_s,
    plan_service,
)
from tasks.partial_file import file_at
from tasks.run_marker import mark_line
from tasks.snapshot import Snapshot
from tasks.steps import COPY_RECOVERY

STALL_S = 30.0
"""A neighbour that sends nothing for so many seconds is given up for the WAN."""


def choose_source(run: DeviceRun, recheck: Callable[[], None]) -> bool:
    """Wait until it is known where the image comes from; return whether it is a neighbour.

    `recheck` logs in again; it is called if the device was logged out and its turn is near.

    Raises:
        Interrupted: The run stops.
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
    """Record on the site's board that the device hashes its copy now: the next devices log in again."""
    if run.context.board is not None:
        run.context.board.proving(run.host.name)


def fetch_from_neighbour(run: DeviceRun, order: CopyOrder, before: Snapshot) -> DevicePlan | None:
    """Copy from the neighbour; return None if done, or the plan for the WAN if the neighbour was given up.

    Raises:
        FlashferryError: The copy failed, and the WAN may not be used or failed as well.
    """
    run.traces.order = order
    try:
        _attempt(run, order)
    except FlashferryError as error:
        if run.context.interrupted() or isinstance(error, Stopped | FileExists):
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
    # A neighbour sends no more than the image: a larger file at the target is not ours.
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
        # The prompt is back: nothing is written any more. A refused copy did not start.
        traces.may_be_writing, traces.began = False, not isinstance(error, DeviceRefused)
        traces.is_theirs = isinstance(error, FileExists)
        raise
    traces.may_be_writing = False
    run.keep(COPY, done)
    rate = exact_rate(done.device.size_bytes / max(done.device.duration_s, 0.001))
    run.note(
        f"copied from {run.record.source} at {rate} by the device's own account; no server of ours "
        "saw it, so there is no verdict on what limited it"
    )


def _emit_marks(run: DeviceRun, marks: int) -> None:
    """Emit how many progress marks the device printed; the bytes per mark are not known."""
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
    """Give the neighbour up; return the plan for the WAN, or None if the image is complete nevertheless."""
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
    return use_next_transport(run, error, before)


def _recover(run: DeviceRun, order: CopyOrder, error: FlashferryError) -> RecoveryDecision:
    """Decide about the file that the copy left, once nothing writes to it any more."""
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
    """Mark the neighbour as unfit to serve if the hash computed in the block is not the image's."""
    served_by = run.served_by
    try:
        yield
    except ImageCorrupt:
        if served_by is not None and run.context.board is not None:
            run.context.board.blame(served_by.host)
        raise


def is_needed(run: DeviceRun) -> bool:
    """Record the device as having the image; return whether another device of its site needs it to serve.

    Raises:
        DeviceUnreachable: The session was lost.
    """
    board, name = run.context.board, run.host.name
    if board is None:
        return False
    board.prove(name, run.session().peer_address)
    found = board.is_serving(name) and board.is_needed(name)
    if not found:
        # Later devices must not wait for it: it continues with other steps.
        board.end(name)
    return found


def serve(run: DeviceRun, path: str) -> None:
    """Serve a proven file, for example `bootflash:image.bin`, while other devices need it."""
    board, name, record = run.context.board, run.host.name, run.record
    if board is None or not record.outcome.is_good:
        return
    wan_s = record.transfer.duration_s if record.transfer is not None and record.source is None else None
    service = NeighbourService(run, board, path)
    try:
        board.prove(name, run.session().peer_address, wan_s=wan_s)
        if board.is_serving(name):
            service.serve()
    except Stopped:
        return
    except FlashferryError as error:
        run.note(f"it could not go on serving others of its site: {sentence_of(error)}")
    finally:
        board.end(name)
        if service.served:
            run.note(f"served {', '.join(service.served)} of its site")


class NeighbourService:
    """The file service of a device for others of its site.

    Attributes:
        plan: Its lines, once it is open; None before.
        served: Names of the devices that were admitted.
    """

    def __init__(self, run: DeviceRun, board: SiteBoard, path: str) -> None:
        self._run, self._board, self._path = run, board, path
        self.plan: ServicePlan | None = None
        self.served: list[str] = []

    def serve(self) -> None:
        """Admit devices until none is left, or the run stops."""
        run, board, name = self._run, self._board, self._run.host.name
        busy_at = time.monotonic()
        while not run.context.interrupted() and board.is_needed(name):
            children = board.to_admit(name)
            if children:
                busy_at = time.monotonic()
                self._take(children)
            elif not run.is_logged_out and time.monotonic() - busy_at > PATIENCE_S:
                run.log_out()

    def _take(self, children: dict[str, str]) -> None:
        """Admit some devices; if the device refuses the lines, it serves no further ones."""
        run, board, name = self._run, self._board, self._run.host.name
        run.connect_again()
        reason = self.admit(tuple(dict.fromkeys(children.values())))
        if reason:
            run.note(f"it does not serve others of its site: {reason}")
            run.note_event(SERVE.word, f"serves no further devices: {reason}")
            board.cannot_serve(name)
            return
        self.served += children
        run.event(SERVE.word, "note", f"serves {', '.join(children)}")
        board.admitted(name, children)

    def admit(self, addresses: tuple[str, ...]) -> str:
        """Admit addresses, opening the service before the first; return why that failed, or an empty text."""
        return self._open(addresses) if self.plan is None else self._extend(self.plan, addresses)

    def _open(self, addresses: tuple[str, ...]) -> str:
        run, mark = self._run, mark_line(self._run.context.run_id, self._run.context.owner)
        plan: ServicePlan = run.run_step(SERVE, plan_service, path=self._path, mark=mark, addresses=addresses)
        if plan.reason:
            return plan.reason
        hold_lines(run, plan.changes)
        report: ServiceReport = run.run_step(SERVE, open_service, plan=plan)
        replace_lines(run, plan.changes, report.changes)
        if not report.reason:
            self.plan = plan
        return report.reason

    def _extend(self, plan: ServicePlan, addresses: tuple[str, ...]) -> str:
        run, known = self._run, {change.ours for change in plan.changes}
        found = entries_for(run.session(), plan.number, addresses)
        # A device that returns, or shares its address with another, is admitted already.
        entries = tuple(change for change in found if change.ours not in known)
        hold_lines(run, entries)
        report: ServiceReport = run.run_step(SERVE, admit, plan=plan, entries=entries)
        replace_lines(run, entries, report.changes)
        if not report.reason:
            self.plan = replace(plan, changes=(*plan.changes, *entries))
        return report.reason
