"""The copy of a device: ticket, dialogue, and a second attempt where the session was lost during it."""

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
from flashferry.run.device.copy_recovery import clear_copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.push import PushOrder, push_to_device
from flashferry.run.device.slots import copy_progressed, retake_copy_slot
from flashferry.run.device.tickets import issue_ticket, open_push, take_account
from flashferry.run.device.transports import server_port
from flashferry.run.device.tune import may_step_down, set_again, step_down
from flashferry.run.device_plan import offer_to
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.transports import PUSH
from flashferry.transports.server_view import ServerView, view_of
from tasks.copy import COPY
from tasks.copy import copy as copy_task
from tasks.copy_watch import CopyLimits, copy_limits, least_rate_bytes_per_s
from tasks.fetching.target import look_again
from tasks.tcp_config import WINDOW_SIZE

LAST_ACCOUNT_S = 2.0
"""Time to wait for the server's last account: the device may be at its prompt a round trip before that is complete."""


def copy(run: DeviceRun, order: CopyOrder) -> None:
    """Copy; repeat once where the session was lost or the device failed with our window, if that is safe."""
    run.traces.order = order
    for may_repeat in (True, False):
        retake_copy_slot(run)
        try:
            _attempt(run, order)
        except DeviceOverloaded:
            if not (may_repeat and may_step_down(run)) or run.context.interrupted():
                raise
            decision = clear_copy(run, order, may_repeat=True).decision
            if decision is Decision.GIVE_UP:
                raise
            if decision is Decision.DONE:
                break
            step_down(run)
        except DeviceUnreachable as lost:
            run.drop_session()
            if run.context.interrupted():
                raise
            found = clear_copy(run, order, may_repeat=may_repeat)
            if found.decision is Decision.GIVE_UP:
                message = f"{lost.message}; {found.reason}"
                raise DeviceUnreachable(message, host=lost.host, step=COPY.word, hint=lost.hint) from None
            if found.decision is Decision.DONE:
                break
            set_again(run)
        else:
            break
    run.passed(COPY)


def _attempt(run: DeviceRun, order: CopyOrder) -> None:
    check_target_again(run, order)
    if run.transport is PUSH:
        _push(run, order)
    else:
        _pull(run, order)
    run.traces.may_be_writing = False
    run.compare_clocks()


def start_copying(run: DeviceRun) -> None:
    """Change the state to COPYING, once."""
    if run.record.state is not State.COPYING:
        run.move(State.COPYING)


def _pull(run: DeviceRun, order: CopyOrder) -> None:
    """Have the device fetch the image."""
    context, traces = run.context, run.traces
    ticket = issue_ticket(run, order.image)
    start_copying(run)
    offer = offer_to(
        run.host,
        run.checked,
        context.server_address,
        ticket=ticket,
        port=server_port(run),
        transport=run.transport,
        fingerprints=context.fingerprints,
    )
    try:
        done = run.run_step(
            COPY,
            copy_task,
            offer=offer,
            target=order.target,
            size_bytes=order.image.size_bytes,
            limits=_limits(run, order),
            witness=lambda: server_view(run),
            interrupted=context.interrupted,
        )
    except (CopyFailed, DeviceRefused) as error:
        # The device is back at its prompt: nothing is written any more.
        traces.may_be_writing = False
        traces.is_theirs = isinstance(error, FileInTheWay)
        raise
    finally:
        take_account(run, context.server.wait(ticket.ticket_id, LAST_ACCOUNT_S))
    run.keep(COPY, done)


def _push(run: DeviceRun, order: CopyOrder) -> None:
    """Write the image to the device; the device reports no figures of its own then."""
    context, traces = run.context, run.traces
    start_copying(run)
    try:
        pushed = PushOrder(
            image=order.image,
            target=order.target,
            limits=_limits(run, order),
            prepare=context.server.prepare_push,
            open_account=lambda close: open_push(run, order.image, close),
            acked=lambda: server_view(run).acked_bytes,
            interrupted=context.interrupted,
        )
        run.run_step(COPY, push_to_device, order=pushed)
        _check_pushed(run, order)
    except FlashferryError as error:
        # Our side closed the connection: the device writes no more than its buffers.
        traces.may_be_writing = isinstance(error, DeviceUnreachable)
        traces.is_theirs = isinstance(error, FileInTheWay)
        raise
    finally:
        if traces.ticket is not None:
            take_account(run, context.server.progress(traces.ticket.ticket_id))


def _check_pushed(run: DeviceRun, order: CopyOrder) -> None:
    """Compare the report of the device's SCP server with our own account.

    Raises:
        NotDelivered: Fewer bytes than the image has were sent and acknowledged.
    """
    assert run.traces.ticket is not None
    seen = view_of(run.context.server.progress(run.traces.ticket.ticket_id))
    if not seen.delivered:
        raise NotDelivered(
            f"the device's SCP server reports {order.target} complete, expected {order.image.size_bytes} bytes of "
            f"ours taken, found {seen.acked_bytes}",
            host=run.record.host,
            step=COPY.word,
        )


def _limits(run: DeviceRun, order: CopyOrder) -> CopyLimits:
    platform = run.session().platform
    is_narrow = run.transport.has_channel and not any(change.is_channel for change in run.in_force)
    least_rate = least_rate_bytes_per_s(
        platform.defaults,
        rtt_s=run.checked.rtt_s or ASSUMED_RTT_S,
        tuned=any(change.keyword == WINDOW_SIZE for change in run.in_force),
        channel_window_bytes=platform.ssh.default_bytes if is_narrow else None,
    )
    return copy_limits(size_bytes=order.image.size_bytes, expected_bytes_per_s=least_rate)


def check_target_again(run: DeviceRun, order: CopyOrder) -> None:
    """Check the target once more: since the check a file may have appeared there, or the flash may be full.

    Raises:
        DeviceRefused: The image cannot be written there any more.
    """
    if order.target == "null:":
        return
    refusal = look_again(
        run.session(),
        run.checked.file_system,
        order.image,
        overwrites_silently=run.checked.overwrites_silently,
    )
    if refusal is not None:
        run.traces.is_theirs = True
        raise DeviceRefused(
            f"since the check: {refusal}",
            host=run.record.host,
            step=COPY.word,
            hint="Look who put it there, or filled the flash, since the check; then stage again",
        )


def server_view(run: DeviceRun) -> ServerView:
    """Return the server's account of the current copy, and emit its progress."""
    order, ticket = run.traces.order, run.traces.ticket
    assert order is not None
    assert ticket is not None
    seen = run.context.server.progress(ticket.ticket_id)
    if seen.bytes_acked:
        size_bytes = order.image.size_bytes
        rate = f", {coarse_rate(seen.rate_bytes_per_s)}" if seen.rate_bytes_per_s else ""
        so_far = Progress(acked_bytes=seen.bytes_acked, size_bytes=size_bytes, rate_bytes_per_s=seen.rate_bytes_per_s)
        text = f"{seen.bytes_acked / max(size_bytes, 1):.0%} acknowledged{rate}"
        limited_by = seen.limited_by.value if seen.limited_by else None
        run.event(COPY.word, "progress", text, progress=so_far, verdict=limited_by)
        # A speed test copies again, so it keeps its slot.
        if not run.context.to_null:
            copy_progressed(run, so_far)
    return view_of(seen)
