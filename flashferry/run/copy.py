"""The copy of a device's run: ticket, dialogue, and what is done where the session is lost in the middle of it."""

from __future__ import annotations

from nornir.core.task import Task

from flashferry.devices.connection import NAME as CONNECTION
from flashferry.devices.connection import session_of
from flashferry.devices.errors import CopyFailed, DeviceOverloaded, DeviceRefused, DeviceUnreachable, FileInTheWay
from flashferry.devices.identity import identity_of
from flashferry.fileserver import Ticket, TicketRequest, TransferProgress, TransferRecord, TransferState
from flashferry.model.links import LinkCap, payload_cap_bytes_per_s
from flashferry.model.record import compare_clocks
from flashferry.model.recovery_rules import Decision, Judgement
from flashferry.model.states import State
from flashferry.monitor.events import Progress, TransferEnd
from flashferry.run.context import RunContext
from flashferry.run.copy_recovery import Case, has_begun, reconcile
from flashferry.run.device_plan import ASSUMED_RTT_S, source_of
from flashferry.run.slots import is_nearly_over, is_soon_over
from flashferry.run.waiting import SlotRun
from flashferry.store.transfer_row import STAGE, KeptTransfer
from flashferry.tcp.probing import steady_bytes_per_s
from tasks.check import CheckReport, look_again
from tasks.copy import CopyReport, ServerView, copy, copy_limits
from tasks.copy_watch import least_rate_bytes_per_s
from tasks.partial_file import remove
from tasks.source_address import own_addresses
from tasks.tcp_config import WINDOW_SIZE, Change, TunePlan
from tasks.tune import set_again, step_down


class CopyRun(SlotRun):
    """The steps of a device that have to do with its copy."""

    def __init__(self, task: Task, context: RunContext) -> None:
        super().__init__(task, context)
        # Of the changes planned, those that the device was sent: a speed test measures it as it is first.
        self._in_force: tuple[Change, ...] = ()
        # Over all tickets: what an earlier copy left is ours, too, until it is proven gone.
        self._began = False
        self._may_be_writing = False
        # By our server's account: a file that is larger than what the device got from us is not ours.
        self._sent_bytes = 0
        self._is_theirs = False
        self._target = ""

    def _pull(self, target: str) -> None:
        """Copy, and once more where the session was lost or the device failed with our window, if that is safe."""
        self._target = target
        for may_repeat in (True, False):
            self._take_copy_slot_back()
            try:
                self._copy(target)
            except DeviceOverloaded:
                if not (may_repeat and self._has_window_of_ours) or self._context.interrupted():
                    raise
                decision = self._clear(target, may_repeat=True).decision
                if decision is Decision.GIVE_UP:
                    raise
                if decision is Decision.DONE:
                    break
                self._step_down()
            except DeviceUnreachable as lost:
                self._forget_session()
                if self._context.interrupted():
                    raise
                found = self._clear(target, may_repeat=may_repeat)
                if found.decision is Decision.GIVE_UP:
                    message = f"{lost.message}; {found.reason}"
                    raise DeviceUnreachable(message, host=lost.host, step="pull", hint=lost.hint) from None
                if found.decision is Decision.DONE:
                    break
                self._set_again()
            else:
                break
        self._move(State.COPIED)

    def _clear(self, target: str, *, may_repeat: bool) -> Judgement:
        """Find out what is left of a copy, and remove it where it stands in the way of another one."""
        found = self._find_out(target, may_repeat=may_repeat)
        if found.decision is Decision.REMOVE_AND_AGAIN:
            self._remove(target)
        return found

    def _remove(self, target: str) -> None:
        """Remove what a copy left, and nothing that could still be written to."""
        if self._ticket is not None:
            self._context.server.revoke(self._ticket.ticket_id)
        self._do("remove", remove, path=target, no_larger_than_bytes=self._sent_bytes)
        self._began = False

    @property
    def _has_window_of_ours(self) -> bool:
        """Whether a scaled window is in force that we chose: then a smaller one may help."""
        tuned = TunePlan(changes=self._in_force, may_back_off=self._context.options.window_bytes is None)
        return tuned.unscaled() is not None

    def _step_down(self) -> None:
        self._update(tune=self._do("tune", step_down, changes=self._in_force, remember=self._remember))

    def _remember(self, changes: tuple[Change, ...]) -> None:
        """Have changes of ours on disk before they are sent; from then on they count as in force."""
        self._context.journal.replan(self._context.run_id, self._record.host, changes)
        self._update(changes=changes)
        self._in_force = changes

    def _look_again(self, target: str) -> None:
        """Look at the target once more: a file may have come there, or the room gone, since the check.

        Raises:
            DeviceRefused: It cannot be put there any more.
        """
        if target == "null:":
            return
        refusal = look_again(session_of(self._task), self._checked().file_system, self._context.image)
        if refusal is not None:
            self._is_theirs = True
            raise DeviceRefused(f"since the check: {refusal}", host=self._record.host, step="pull")

    def _copy(self, target: str) -> None:
        context = self._context
        self._look_again(target)
        self._issue_ticket()
        assert self._ticket is not None
        ticket = self._ticket
        if self._record.state is not State.COPYING:
            self._move(State.COPYING)
        source = source_of(
            self._host,
            self._checked(),
            context.options,
            image=context.image.name,
            port=context.server.port,
            username=ticket.username,
            password=ticket.password,
        )
        try:
            done: CopyReport = self._do(
                "pull",
                copy,
                source=source,
                target=target,
                size_bytes=context.image.size_bytes,
                limits=copy_limits(
                    size_bytes=context.image.size_bytes, expected_bytes_per_s=self._least_rate_bytes_per_s()
                ),
                witness=self._witness,
                interrupted=context.interrupted,
            )
        except (CopyFailed, DeviceRefused) as error:
            # The device is back at its prompt: nothing of it goes on.
            self._may_be_writing = False
            self._is_theirs = isinstance(error, FileInTheWay)
            raise
        finally:
            # The device may be back at its prompt a round trip before the server has its last acknowledgement.
            self._take_transfer(context.server.wait(ticket.ticket_id, 2.0))
        self._may_be_writing = False
        self._update(pull=done)
        self._compare_clocks()

    def _issue_ticket(self) -> None:
        """Issue credentials for one transfer, bound to the device's addresses; those before are worthless."""
        context, session = self._context, session_of(self._task)
        if self._ticket is not None:
            context.server.revoke(self._ticket.ticket_id)
        self._may_be_writing = True
        # A device of a site shares the site's cap with its neighbours; one without a site has its own.
        cap: LinkCap | None = None if self._host.site else context.links.cap(self._host, session.peer_address)
        link = context.links.of(self._host, session.peer_address)
        self._ticket = context.server.issue_ticket(
            TicketRequest(
                image_name=context.image.name,
                source_addresses=own_addresses(session),
                lifetime_s=24 * 3600,
                tries=1,
                cap_bytes_per_s=cap.bytes_per_s if cap else None,
                site=self._host.site or "",
                link_bytes_per_s=payload_cap_bytes_per_s(link.rate_bps) if link else None,
            )
        )

    def _find_out(self, target: str, *, may_repeat: bool) -> Judgement:
        """Return what became of a copy that ended without a result, when there is nothing more to wait for."""
        ticket = self._ticket
        if ticket is None:
            raise DeviceUnreachable("the session was lost before the copy began", host=self._record.host, step="pull")
        found: Judgement = self._do("reconcile", reconcile, case=self._case(ticket, target, may_repeat=may_repeat))
        self._may_be_writing = False
        self._take_transfer(self._context.server.progress(ticket.ticket_id))
        self._update(reconciled=(*self._record.reconciled, found))
        self._compare_clocks()
        self._tell("reconcile", "done", f"{found.reason}: {found.decision.value}")
        return found

    def _case(self, ticket: Ticket, target: str, *, may_repeat: bool) -> Case:
        server = self._context.server
        return Case(
            target=target,
            image_bytes=self._context.image.size_bytes,
            may_remove=self._context.options.remove_partial,
            may_repeat=may_repeat,
            began=self._began,
            progress=lambda: server.progress(ticket.ticket_id),
            end_transfer=lambda: server.revoke(ticket.ticket_id),
            interrupted=self._context.interrupted,
        )

    def _set_again(self) -> None:
        """Set our lines again where they are gone: a device that restarted is as it was before."""
        if self._in_force:
            self._update(tune=self._do("tune", set_again, changes=self._in_force, remember=self._remember))

    def _take_transfer(self, seen: TransferProgress) -> None:
        """Keep the server's record, and what it tells about the link."""
        self._began = self._began or has_begun(seen)
        if seen.record is not None:
            self._sent_bytes = max(self._sent_bytes, seen.record.bytes_sent)
        if seen.record is not None and seen.record != self._record.transfer:
            self._context.links.note(self._host, seen.record)
            self._tell_transfer(seen.record)
            self._keep_transfer(seen.record)
        self._update(transfer=seen.record)

    def _tell_transfer(self, record: TransferRecord) -> None:
        end = TransferEnd(
            is_delivered=record.outcome == "delivered",
            verdict=record.verdict.kind.value,
            bytes_acked=record.bytes_acked,
            retransmitted_bytes=record.retransmitted_bytes,
            duration_s=record.duration_s,
            rate_bytes_per_s=record.rate_bytes_per_s,
        )
        text = f"{record.rate_bytes_per_s / 1e6:.3g} MB/s by our server, {end.verdict}"
        self._tell("transfer", "done" if end.is_delivered else "failed", text, transfer=end)

    @property
    def _is_tuned(self) -> bool:
        """Whether lines are in force that change the speed; a source interface only makes the way."""
        return any(change.is_tuning for change in self._in_force)

    @property
    def _kind(self) -> str:
        """What its copies are, by the words of the store."""
        return STAGE

    def _keep_transfer(self, record: TransferRecord) -> None:
        """Keep the server's account at once: the next plan predicts from it, also where the copy failed."""
        kept = KeptTransfer(
            identity=identity_of(self._checked().facts),
            kind=self._kind,
            tuned=self._is_tuned,
            target=self._target,
            image=self._context.image.name,
            record=record,
            steady_bytes_per_s=steady_bytes_per_s(record.samples),
        )
        self._context.journal.keep_transfer(self._context.run_id, self._record.host, kept)

    def _compare_clocks(self) -> None:
        done, seen = self._record.pull, self._record.transfer
        clocks = compare_clocks(
            device_s=done.device.duration_s if done else None,
            server_s=seen.duration_s if seen else None,
            wall_s=done.wall_s if done else None,
        )
        self._update(clocks=clocks)

    def _least_rate_bytes_per_s(self) -> float:
        tuned = any(change.keyword == WINDOW_SIZE for change in self._in_force)
        return least_rate_bytes_per_s(rtt_s=self._checked().rtt_s or ASSUMED_RTT_S, tuned=tuned)

    def _witness(self) -> ServerView:
        """Return the server's account, and tell who watches."""
        assert self._ticket is not None
        seen = self._context.server.progress(self._ticket.ticket_id)
        if seen.bytes_acked:
            size_bytes = self._context.image.size_bytes
            rate = f", {seen.rate_bytes_per_s / 1e6:.2f} MB/s" if seen.rate_bytes_per_s else ""
            so_far = Progress(
                acked_bytes=seen.bytes_acked, size_bytes=size_bytes, rate_bytes_per_s=seen.rate_bytes_per_s
            )
            text = f"{seen.bytes_acked / max(size_bytes, 1):.0%} acknowledged{rate}"
            limited_by = seen.limited_by.value if seen.limited_by else None
            self._tell("pull", "progress", text, progress=so_far, verdict=limited_by)
            # A speed test has another copy before it.
            if not self._context.options.to_null:
                self._hand_on(so_far)
        return ServerView(
            client_seen=seen.state is not TransferState.WAITING,
            logged_in=seen.state not in {TransferState.WAITING, TransferState.CONNECTED},
            acked_bytes=seen.bytes_acked,
            failure=seen.last_error,
        )

    def _hand_on(self, so_far: Progress) -> None:
        """Have the next one make ready, then give it the slot, when the end is near."""
        copied = (so_far.acked_bytes, so_far.size_bytes, so_far.rate_bytes_per_s)
        if is_nearly_over(*copied):
            self._hand_copy_slot_on()
        elif is_soon_over(*copied):
            self._leave_soon()

    def _forget_session(self) -> None:
        """Hang up, so that the next attempt logs in anew: whatever state the session was in is not to be trusted."""
        found = self._task.host.connections.pop(CONNECTION, None)
        if found is not None and found.connection is not None:
            found.connection.abandon()

    def _checked(self) -> CheckReport:
        assert self._record.check is not None
        return self._record.check
