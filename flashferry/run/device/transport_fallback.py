"""A copy that failed before a byte came goes on by the next transport that is allowed, and that is told.

Not after a byte came: then it is the network or the device that failed and not the transport, and the usual retry does.
"""

from __future__ import annotations

from contextlib import suppress

from flashferry.core.errors import ConfigInvalid, FlashferryError, kind_of
from flashferry.devices.errors import (
    CopyFailed,
    DeviceRefused,
    DeviceUnreachable,
    FileInTheWay,
    OutputNotUnderstood,
    Stopped,
    TransferStalled,
)
from flashferry.fileserver import FileServerError
from flashferry.model.record import TransportTried, sentence_of
from flashferry.run.context import RunContext
from flashferry.run.device.login import DeviceLogin
from flashferry.run.device.record_keeper import DeviceEvents, RecordKeeper
from flashferry.run.device.tickets import CopyTraces, DeviceTickets
from flashferry.run.device.transports import DevicePlanner, DeviceTransport
from flashferry.run.device.tuning import DeviceTuning
from flashferry.run.device_plan import DevicePlan
from inventory.transport_policy import USUAL
from tasks.copy import COPY
from tasks.fetching.ceilings import announce_choice
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines

STEP = "transport"
"""The word of its events."""

_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused)
"""What a transport may be the cause of: nobody came, no login, no algorithm in common, a command that is refused."""


class TransportFall:
    """Goes on to the next transport where one failed before a byte came."""

    def __init__(
        self,
        context: RunContext,
        events: DeviceEvents,
        keeper: RecordKeeper,
        login: DeviceLogin,
        traces: CopyTraces,
        tickets: DeviceTickets,
        transport: DeviceTransport,
        planner: DevicePlanner,
        tuning: DeviceTuning,
    ) -> None:
        self._context, self._events, self._keeper, self._login = context, events, keeper, login
        self._traces, self._tickets, self._transport = traces, tickets, transport
        self._planner, self._tuning = planner, tuning

    def first_plan(self, lines: TcpLines) -> DevicePlan:
        """Return the plan for the first transport that can be planned; nothing was sent to the device yet.

        Args:
            lines: The device's lines as they are.

        Raises:
            ConfigInvalid: None can: no copy command can carry the image's name or the addresses.
        """
        while True:
            try:
                plan = self._planner.plan(lines)
            except ConfigInvalid as error:
                if self._transport.following is None:
                    raise
                self._take_note(error.at(host=self._keeper.record.host, step=COPY.word))
            else:
                self._announce(plan)
                return plan

    def _announce(self, plan: DevicePlan) -> None:
        """Tell how fast the copy can be at most, where there was a choice."""
        by = self._transport.current.name
        has_choice = self._transport.following is not None or by != USUAL
        if has_choice and (said := announce_choice(plan.ceilings, by)):
            self._events.tell(STEP, "note", f"note: {said}")

    def next_plan(self, error: FlashferryError, before: Snapshot) -> DevicePlan | None:
        """Return the plan for the next transport, with its lines in force; None where the failure is the device's end.

        Args:
            error: Why the copy failed.
            before: What the device was before anything was set.

        Raises:
            ConfigInvalid: No copy command can carry what the last one needs.
            DeviceRefused: The lines could not be changed over.
            DeviceUnreachable: The session was lost; lines may be in force.
        """
        if self._transport.following is None or not self._may_fall(error):
            return None
        return self.go_on(error, before)

    def go_on(self, error: FlashferryError, before: Snapshot) -> DevicePlan:
        """Return the plan for the next transport, with its lines in force; arguments and errors as of `next_plan`."""
        is_lost = isinstance(error, DeviceUnreachable)
        while self._transport.following is not None:
            self._take_note(error)
            try:
                plan = self._planner.plan(before.running)
            except ConfigInvalid as refused:
                # No way for this one, and nothing of it was sent.
                error = refused.at(host=self._keeper.record.host, step=COPY.word)
                continue
            self._keeper.update(window=plan.window)
            self._tuning.change_over(plan.tune, before, is_again=is_lost)
            return plan
        raise error

    def _may_fall(self, error: FlashferryError) -> bool:
        """Tell whether a failure is the transport's, and nothing of the image is on the device."""
        if self._context.interrupted() or isinstance(error, Stopped | FileInTheWay) or self._traces.is_theirs:
            return False
        if not isinstance(error, _OF_TRANSPORT) and type(error) is not OutputNotUnderstood:
            return False
        return error.step == COPY.word and not self._came_a_byte()

    def _came_a_byte(self) -> bool:
        """Tell whether anything of the image came to the device, by our server's account and by its flash."""
        order, ticket = self._traces.order, self._traces.ticket
        if order is None or ticket is None:
            return False
        with suppress(FileServerError):
            seen = self._context.server.progress(ticket.ticket_id)
            self._tickets.take_account(seen)
            if seen.bytes_acked or (seen.record is not None and seen.record.bytes_acked):
                return True
            self._tickets.revoke()
            if order.target == "null:":
                return False
            return file_at(self._login.session(), order.target).size_bytes is not None
        return True

    def _take_note(self, error: FlashferryError) -> None:
        """Keep what was tried in vain, and go on to the next one."""
        failed, record = self._transport.current.name, self._keeper.record
        tried = TransportTried(transport=failed, reason=sentence_of(error), hint=error.hint, kind=kind_of(error))
        following = self._transport.fall().name
        self._traces.began = self._traces.may_be_writing = self._traces.is_from_neighbour = False
        self._keeper.update(
            transport=following,
            transports_tried=(*record.transports_tried, tried),
            source=None,
            pull=None,
            transfer=None,
            clocks=None,
        )
        # On disk at once, and no more than this: a run that dies from here on is gone on with by this one.
        fallen = {"transport": following, "transports_tried": self._keeper.record.transports_tried}
        self._context.journal.record(self._context.run_id, record.host, fallen)
        vain = f"{record.source} is given up" if record.source else f"no byte came by {failed}"
        self._events.tell(STEP, "note", f"note: {vain}: {tried.reason}; trying {following}")
