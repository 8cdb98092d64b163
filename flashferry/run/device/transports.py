"""The transport of a device's copy, its plan, and the fallback to the next transport."""

from __future__ import annotations

from contextlib import suppress

from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid, FlashferryError, kind_of
from flashferry.devices.errors import (
    CopyFailed,
    DeviceRefused,
    DeviceUnreachable,
    FileExists,
    OutputNotUnderstood,
    Stopped,
    TransferStalled,
)
from flashferry.fileserver import FileServerError
from flashferry.model.record import TransportTried, sentence_of
from flashferry.run.device.device_run import DeviceRun
from flashferry.run.device.tickets import revoke_ticket, take_account
from flashferry.run.device.tune import switch_lines
from flashferry.run.device_plan import DevicePlan, plan_device
from flashferry.run.neighbours.board import ServedBy
from flashferry.transports import NEIGHBOUR, PUSH
from flashferry.transports.listeners import check_files, is_certified
from flashferry.transports.transport import Transport
from inventory.transport_policy import USUAL
from tasks.copy import COPY
from tasks.fetch_check import announce_choice
from tasks.partial_file import file_at
from tasks.run_marker import mark_line
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines


def take_neighbour(run: DeviceRun, served_by: ServedBy, own_interface: str) -> None:
    """Copy from a neighbour first; the present transport becomes the next one to try."""
    run.next_transports = (run.transport, *run.next_transports)
    run.transport, run.served_by, run.own_interface = NEIGHBOUR, served_by, own_interface


def next_transport(run: DeviceRun) -> Transport:
    """Change to the next transport and return it."""
    run.served_by = None
    run.transport, *left = run.next_transports
    run.next_transports = tuple(left)
    return run.transport


def server_port(run: DeviceRun) -> int:
    """Return the port that the device connects to; 0 for a push, where we connect to the device."""
    if run.served_by is not None:
        return run.transport.ports.well_known
    return 0 if run.transport is PUSH else run.context.server.port_of(run.transport.name)


def plan_now(run: DeviceRun, before: TcpLines) -> DevicePlan:
    """Return the plan for the present transport, and record the link's rate.

    `before` has the device's lines before any of ours was set.

    Raises:
        ConfigInvalid: No copy command can carry the image's name or the addresses, or our certificate does not cover
            the address that the device connects to.
    """
    _check_certificate(run)
    context, session = run.context, run.session()
    link = context.links.of(run.host, session.peer_address)
    run.update(link_rate=link)
    made_from = (before, run.transport, run.served_by, run.checked, link, server_port(run))
    # The snapshot's lines mostly equal the check's, for which there is a plan already.
    if run.plan is None or run.plan[0] != made_from:
        device, address = run.host, context.server_address
        if run.served_by is not None:
            device, address = replace(device, source_interface=run.own_interface), run.served_by.address
        run.plan = (
            made_from,
            plan_device(
                device=device,
                platform=session.platform,
                check=run.checked,
                before=before,
                policy=context.policy,
                to_null=context.to_null,
                server_address=address,
                link=link,
                image=context.image.name,
                port=server_port(run),
                transport=run.transport,
                mark=mark_line(context.run_id, context.owner),
            ),
        )
    return run.plan[1]


def _check_certificate(run: DeviceRun) -> None:
    """Raise unless our certificate covers the address that the device connects to."""
    if run.context.certificate is None or not is_certified(run.transport):
        return
    address = run.context.server_address or run.host.server_address or run.checked.server_address
    check_files(*run.context.certificate, addresses=(address,))


STEP = "transport"
"""The step in this module's events."""

_OF_TRANSPORT = (CopyFailed, TransferStalled, DeviceRefused)
"""Errors that a transport may cause: no connection, no login, no common algorithm, a refused command."""


def first_plan(run: DeviceRun, lines: TcpLines) -> DevicePlan:
    """Return the plan for the first transport that can be planned; nothing has been sent to the device yet.

    Raises:
        ConfigInvalid: No copy command of any transport can carry the image's name or the addresses.
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
    """Emit the highest possible rate of the copy if there was a choice of transports."""
    by = run.transport.name
    has_choice = bool(run.next_transports) or by != USUAL
    if has_choice and (text := announce_choice(plan.ceilings, by)):
        run.note_event(STEP, text)


def fall_back(run: DeviceRun, error: FlashferryError, before: Snapshot) -> DevicePlan | None:
    """Return the plan for the next transport, with its lines in force; None if the failure is final.

    `error` is why the copy failed, `before` the configuration before any line was set.

    Raises:
        ConfigInvalid: No copy command can carry what the last transport needs.
        DeviceRefused: The lines could not be switched.
        DeviceUnreachable: The session was lost; lines may be in force.
    """
    if not run.next_transports or not _may_fall_back(run, error):
        return None
    return use_next_transport(run, error, before)


def use_next_transport(run: DeviceRun, error: FlashferryError, before: Snapshot) -> DevicePlan:
    """Return the plan for the next transport, with its lines in force. Arguments and errors as `fall_back`."""
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
    """Return whether the transport may have caused a failure and no byte of the image is on the device."""
    if run.context.interrupted() or isinstance(error, Stopped | FileExists) or run.traces.is_theirs:
        return False
    if not isinstance(error, _OF_TRANSPORT) and type(error) is not OutputNotUnderstood:
        return False
    return error.step == COPY.word and not _any_byte_arrived(run)


def _any_byte_arrived(run: DeviceRun) -> bool:
    """Return whether any byte reached the device, by our server's account or by its flash."""
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
    """Record the failed transport and change to the next one."""
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
    # Stored at once: a run that is killed from here on is resumed with this transport.
    fallen = {"transport": following, "transports_tried": run.record.transports_tried}
    run.context.journal.record(run.context.run_id, record.host, fallen)
    vain = f"{record.source} is given up" if record.source else f"no byte came by {failed}"
    run.note_event(STEP, f"{vain}: {tried.reason}; trying {following}")
