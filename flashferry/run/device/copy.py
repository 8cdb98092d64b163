"""The copy of a device: ticket, dialogue, and once more where the session was lost in the middle of it."""

from __future__ import annotations

from flashferry.core.errors import FlashferryError
from flashferry.core.units import coarse_rate
from flashferry.devices.errors import (
    CopyFailed,
    DeviceOverloaded,
    DeviceRefused,
    DeviceUnreachable,
    FileInTheWay,
    NotDelivered,
)
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.states import State
from flashferry.monitor.events import Progress
from flashferry.run.context import RunContext
from flashferry.run.device.copy_recovery import CopyRecovery
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.push import PushOrder
from flashferry.run.device.push import push as push_task
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.step_runner import StepRunner
from flashferry.run.device.tickets import CopyOrder, CopyTraces, DeviceTickets
from flashferry.run.device.transports import DeviceTransport
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device.waiting import CopySlot
from flashferry.run.device_plan import offer_to
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.transports.server_view import ServerView, view_of
from flashferry.transports.transport import Offer
from inventory.host_view import HostView
from tasks.copy import COPY, CopyReport
from tasks.copy import copy as copy_task
from tasks.copy_watch import CopyLimits, copy_limits, least_rate_bytes_per_s
from tasks.fetching.target import look_again

LAST_ACCOUNT_S = 2.0
"""So long the server's last word is waited for: the device may be back at its prompt a round trip before it is said."""


class DeviceCopy:
    """Has a device copy an image."""

    def __init__(
        self,
        context: RunContext,
        host: HostView,
        events: DeviceEvents,
        keeper: RecordKeeper,
        steps: StepRunner,
        login: DeviceLogin,
        slot: CopySlot,
        tuning: DeviceTuning,
        traces: CopyTraces,
        tickets: DeviceTickets,
        recovery: CopyRecovery,
        transport: DeviceTransport,
    ) -> None:
        self._transport = transport
        self._context, self._host, self._events, self._keeper = context, host, events, keeper
        self._steps, self._login, self._slot, self._tuning = steps, login, slot, tuning
        self._traces, self._tickets, self._recovery = traces, tickets, recovery

    def copy(self, order: CopyOrder) -> None:
        """Copy, and once more where the session was lost or the device failed with our window, if that is safe."""
        self._traces.order = order
        for may_repeat in (True, False):
            self._slot.take_back()
            try:
                self._attempt(order)
            except DeviceOverloaded:
                if not (may_repeat and self._tuning.may_step_down) or self._context.interrupted():
                    raise
                decision = self._recovery.clear(order, may_repeat=True).decision
                if decision is Decision.GIVE_UP:
                    raise
                if decision is Decision.DONE:
                    break
                self._tuning.step_down()
            except DeviceUnreachable as lost:
                self._login.forget()
                if self._context.interrupted():
                    raise
                found = self._recovery.clear(order, may_repeat=may_repeat)
                if found.decision is Decision.GIVE_UP:
                    message = f"{lost.message}; {found.reason}"
                    raise DeviceUnreachable(message, host=lost.host, step=COPY.word, hint=lost.hint) from None
                if found.decision is Decision.DONE:
                    break
                self._tuning.set_again()
            else:
                break
        self._keeper.passed(COPY)

    def _attempt(self, order: CopyOrder) -> None:
        context, traces = self._context, self._traces
        self.look_again(order)
        if self._transport.is_push:
            self._push(order)
            return
        ticket = self._tickets.issue(order.image)
        if self._keeper.record.state is not State.COPYING:
            self._keeper.move(State.COPYING)
        offer = offer_to(
            self._host,
            self._keeper.checked,
            context.server_address,
            ticket=ticket,
            port=self._transport.port,
            transport=self._transport.current,
            fingerprints=context.fingerprints,
        )
        try:
            done = self._pull(order, offer)
        except (CopyFailed, DeviceRefused) as error:
            # The device is back at its prompt: nothing of it goes on.
            traces.may_be_writing = False
            traces.is_theirs = isinstance(error, FileInTheWay)
            raise
        finally:
            self._tickets.take_account(context.server.wait(ticket.ticket_id, LAST_ACCOUNT_S))
        traces.may_be_writing = False
        self._keeper.keep(COPY, done)
        self._keeper.compare_clocks()

    def _push(self, order: CopyOrder) -> None:
        """Write the image to the device by ourselves; the device has no figures of its own then."""
        context, traces = self._context, self._traces
        if self._keeper.record.state is not State.COPYING:
            self._keeper.move(State.COPYING)
        try:
            pushed = PushOrder(
                image=order.image,
                target=order.target,
                limits=self._limits(order),
                prepare=context.server.prepare_push,
                open_account=lambda close: self._tickets.open_push(order.image, close),
                acked=lambda: self.witness().acked_bytes,
                interrupted=context.interrupted,
            )
            self._steps.run(COPY, push_task, order=pushed)
            self._check_pushed(order)
        except FlashferryError as error:
            # Our side has closed the connection: nothing of it goes on but what the device has in its buffers.
            traces.may_be_writing = isinstance(error, DeviceUnreachable)
            traces.is_theirs = isinstance(error, FileInTheWay)
            raise
        finally:
            if traces.ticket is not None:
                self._tickets.take_account(context.server.progress(traces.ticket.ticket_id))
        traces.may_be_writing = False
        self._keeper.compare_clocks()

    def _check_pushed(self, order: CopyOrder) -> None:
        """Hold the word of the device's server against our own account.

        Raises:
            NotDelivered: Fewer bytes than the image has were sent and taken.
        """
        assert self._traces.ticket is not None
        seen = view_of(self._context.server.progress(self._traces.ticket.ticket_id))
        if not seen.delivered:
            raise NotDelivered(
                f"the device's SCP server reports {order.target} complete, expected {order.image.size_bytes} bytes of "
                f"ours taken, found {seen.acked_bytes}",
                host=self._keeper.record.host,
                step=COPY.word,
            )

    def _limits(self, order: CopyOrder) -> CopyLimits:
        platform = self._login.session().platform
        is_narrow = self._transport.current.has_channel and not self._tuning.sets_channel
        least_rate = least_rate_bytes_per_s(
            platform.defaults,
            rtt_s=self._keeper.checked.rtt_s or ASSUMED_RTT_S,
            tuned=self._tuning.sets_window,
            channel_window_bytes=platform.ssh.default_bytes if is_narrow else None,
        )
        return copy_limits(size_bytes=order.image.size_bytes, expected_bytes_per_s=least_rate)

    def _pull(self, order: CopyOrder, offer: Offer) -> CopyReport:
        done: CopyReport = self._steps.run(
            COPY,
            copy_task,
            offer=offer,
            target=order.target,
            size_bytes=order.image.size_bytes,
            limits=self._limits(order),
            witness=self.witness,
            interrupted=self._context.interrupted,
        )
        return done

    def look_again(self, order: CopyOrder) -> None:
        """Look at the target once more: a file may have come there, or the room gone, since the check.

        Raises:
            DeviceRefused: It cannot be put there any more.
        """
        if order.target == "null:":
            return
        checked = self._keeper.checked
        refusal = look_again(
            self._login.session(),
            checked.file_system,
            order.image,
            overwrites_silently=checked.overwrites_silently,
        )
        if refusal is not None:
            self._traces.is_theirs = True
            raise DeviceRefused(
                f"since the check: {refusal}",
                host=self._keeper.record.host,
                step=COPY.word,
                hint="Look who put it there, or filled the flash, since the check; then stage again",
            )

    def witness(self) -> ServerView:
        """Return the server's account of the copy under way, and tell who watches."""
        order, ticket = self._traces.order, self._traces.ticket
        assert order is not None
        assert ticket is not None
        seen = self._context.server.progress(ticket.ticket_id)
        if seen.bytes_acked:
            size_bytes = order.image.size_bytes
            rate = f", {coarse_rate(seen.rate_bytes_per_s)}" if seen.rate_bytes_per_s else ""
            so_far = Progress(
                acked_bytes=seen.bytes_acked, size_bytes=size_bytes, rate_bytes_per_s=seen.rate_bytes_per_s
            )
            text = f"{seen.bytes_acked / max(size_bytes, 1):.0%} acknowledged{rate}"
            limited_by = seen.limited_by.value if seen.limited_by else None
            self._events.tell(COPY.word, "progress", text, progress=so_far, verdict=limited_by)
            # A speed test has another copy before it.
            if not self._context.to_null:
                self._slot.copied(so_far)
        return view_of(seen)
