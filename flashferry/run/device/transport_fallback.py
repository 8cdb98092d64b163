"""Copy by the next allowed transport where one failed before the first byte.

After the first byte the network or the device failed, not the transport, and the usual retry applies.
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
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import revoke_ticket, take_account
from flashferry.run.device.transports import next_transport, plan_now
from flashferry.run.device.tune import switch_lines
from flashferry.run.device_plan import DevicePlan
from inventory.transport_policy import USUAL
from tasks.copy import COPY
from tasks.fetching.ceilings import announce_choice
from tasks.partial_file import file_at
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines

STEP = "transport"
"""The step word of its events."""

_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused)
"""Errors that a transport may cause: no connection, no login, no common algorithm, a refused command."""


def first_plan(run: DeviceRun, lines: TcpLines) -> DevicePlan:
    """Return the plan for the first transport that can be planned; nothing was sent to the device yet.

    Args:
        run: The device's run.
        lines: The device's lines.

    Raises:
        ConfigInvalid: No transport can: no copy command can carry the image's name or the addresses.
    """
    while True:
        try:
            plan = plan_now(run, lines)
        except ConfigInvalid as error:
            if not run.next_transports:
                raise
            _take_next(run, error.at(host=run.record.host, step=COPY.word))
        else:
            _announce(run, plan)
            return plan


def _announce(run: DeviceRun, plan: DevicePlan) -> None:
    """Emit how fast the copy can be at most, where there was a choice."""
    by = run.transport.name
    has_choice = bool(run.next_transports) or by != USUAL
    if has_choice and (text := announce_choice(plan.ceilings, by)):
        run.note_event(STEP, text)


def fall_back(run: DeviceRun, error: FlashferryError, before: Snapshot) -> DevicePlan | None:
    """Return the plan for the next transport, with its lines in force; None where the failure is final.

    Args:
        run: The device's run.
        error: Why the copy failed.
        before: The device's configuration before anything was set.

    Raises:
        ConfigInvalid: No copy command can carry what the last transport needs.
        DeviceRefused: The lines could not be switched.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    if not run.next_transports or not _may_fall_back(run, error):
        return None
    return go_on(run, error, before)


def go_on(run: DeviceRun, error: FlashferryError, before: Snapshot) -> DevicePlan:
    """Return the plan for the next transport, with its lines in force; arguments and errors as of `fall_back`."""
    is_lost = isinstance(error, DeviceUnreachable)
    while run.next_transports:
        _take_next(run, error)
        try:
            plan = plan_now(run, before.running)
        except ConfigInvalid as refused:
            error = refused.at(host=run.record.host, step=COPY.word)
            continue
        run.update(window=plan.window)
        switch_lines(run, plan.tune, before, may_have_restarted=is_lost)
        return plan
    raise error


def _may_fall_back(run: DeviceRun, error: FlashferryError) -> bool:
    """Return whether the transport may have caused a failure, and nothing of the image is on the device."""
    if run.context.interrupted() or isinstance(error, Stopped | FileInTheWay) or run.traces.is_theirs:
        return False
    if not isinstance(error, _OF_TRANSPORT) and type(error) is not OutputNotUnderstood:
        return False
    return error.step == COPY.word and not _any_byte_arrived(run)


def _any_byte_arrived(run: DeviceRun) -> bool:
    """Return whether anything of the image reached the device, by our server's account or by its flash."""
    order, ticket = run.traces.order, run.traces.ticket
    if order is None or ticket is None:
        return False
    with suppress(FileServerError):
        seen = run.context.server.progress(ticket.ticket_id)
        take_account(run, seen)
        if seen.bytes_acked or (seen.record is not None and seen.record.bytes_acked):
            return True
        revoke_ticket(run)
        if order.target == "null:":
            return False
        return file_at(run.session(), order.target).size_bytes is not None
    return True


def _take_next(run: DeviceRun, error: FlashferryError) -> None:
    """Record the failed transport, and change to the next one."""
    failed, record = run.transport.name, run.record
    tried = TransportTried(transport=failed, reason=sentence_of(error), hint=error.hint, kind=kind_of(error))
    following = next_transport(run).name
    run.traces.began = run.traces.may_be_writing = run.traces.is_from_neighbour = False
    run.update(
        transport=following,
        transports_tried=(*record.transports_tried, tried),
        source=None,
        pull=None,
        transfer=None,
        clocks=None,
    )
    # In the journal at once, and only this: a run that is killed from here on is resumed with this transport.
    fallen = {"transport": following, "transports_tried": run.record.transports_tried}
    run.context.journal.record(run.context.run_id, record.host, fallen)
    vain = f"{record.source} is given up" if record.source else f"no byte came by {failed}"
    run.note_event(STEP, f"{vain}: {tried.reason}; trying {following}")
