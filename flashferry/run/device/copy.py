"""Copy the image to a device: pulled with a ticket, or pushed by us; repeated once after a lost session."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, reason_of
from flashferry.core.files import descriptor_of
from flashferry.core.units import coarse_rate
from flashferry.devices.connection import session_of
from flashferry.devices.errors import (
    SESSION_LOST,
    CopyFailed,
    CopyStopped,
    DeviceOverloaded,
    DeviceRefused,
    DeviceUnreachable,
    FileExists,
    LoginRefused,
    NotDelivered,
    TransferStalled,
)
from flashferry.devices.login import lost
from flashferry.devices.scp_source import ScpRefused, ScpSource, path_on
from flashferry.devices.session import DeviceSession
from flashferry.fileserver import ImageFile
from flashferry.images.safe_open import administration, has_content_of
from flashferry.model.lost_copy_rules import Decision
from flashferry.model.states import State
from flashferry.monitor.events import Progress
from flashferry.run.device.copy_recovery import clear_copy
from flashferry.run.device.device_run import CopyOrder, DeviceRun
from flashferry.run.device.slots import copy_progressed, retake_copy_slot
from flashferry.run.device.tickets import issue_ticket, open_push, take_account
from flashferry.run.device.transports import server_port
from flashferry.run.device.tune import may_step_down, set_again, step_down
from flashferry.run.device_plan import offer_to
from flashferry.tcp.receive_window import ASSUMED_RTT_S
from flashferry.transports import PUSH
from flashferry.transports.transport import ServerView, view_of
from tasks.copy import COPY, STEP, CopyLimits, copy_limits, least_rate_bytes_per_s
from tasks.copy import copy as copy_task
from tasks.fetch_check import refusal_before_copy
from tasks.partial_file import file_at
from tasks.tcp_config import WINDOW_SIZE

if TYPE_CHECKING:
    from flashferry.fileserver import PushAccount

_ANSWER_S = 30.0

_POLL_S = 1.0

_LAST_JOIN_S = 10.0

_NEARLY_ALL = 0.99
"""The acknowledged count is a little low during a push, see `flashferry.fileserver.pushes`."""

_HINTS = {
    "Administratively disabled": "Look whether the device took 'ip scp server enable': 'show running-config | include "
    "ip scp' shows it",
    "Privilege": "SCP to the device takes a user whose login leads to privilege 15 and who may give commands (exec "
    "authorization); 'enable' comes too late",
}

_LOG = "Look at the device's log and flash; 'dir' shows what it left there"


@dataclass(frozen=True, slots=True, kw_only=True)
class PushOrder:
    """A push and its callbacks.

    Attributes:
        target: Destination, for example `bootflash:image.bin`.
        prepare: Sets the connection's socket options.
        open_account: Opens the server's account of the push, given a function that closes the connection.
        acked: Returns the acknowledged bytes and emits progress; called once a second.
        interrupted: Whether the operator stops the run; called once a second.
    """

    image: ImageFile
    target: str
    limits: CopyLimits
    prepare: Callable[[socket.socket], None]
    open_account: Callable[[Callable[[], None]], PushAccount]
    acked: Callable[[], int]
    interrupted: Callable[[], bool]


def push_to_device(task: Task, order: PushOrder) -> Result:
    """Nornir task: push an image; the result is None, since the device reports nothing. See `push_image`."""
    push_image(session_of(task), order)
    return Result(host=task.host, result=None, changed=True)


def push_image(session: DeviceSession, order: PushOrder) -> None:
    """Write an image to a device by SCP and wait until its server confirms all of it. The session stays open.

    Raises:
        CopyFailed: The device's SCP server refused or ended the transfer.
        FileExists: The target exists; nothing was sent.
        TransferStalled: A limit was reached; the connection was closed.
        CopyStopped: The operator stops the run; the connection was closed.
        DeviceUnreachable: The connection was lost during the transfer.
    """
    host = session.name
    try:
        source = session.open_source(order.prepare)
    except (LoginRefused, DeviceUnreachable) as error:
        # The device's own session is still good: only the push failed, and another transport may work.
        raise CopyFailed(error.message, host=host, step=STEP, hint=error.hint) from None
    account = order.open_account(source.close)
    try:
        _start(session, source, order.image, order.target)
        _open_account(account, source, host)
        _Sending(host, source, order, account).send_all()
    except BaseException as error:
        failure = error.message if isinstance(error, FlashferryError) else type(error).__name__
        account.conclude(account.cut_because or failure, source.channel())
        raise
    else:
        account.conclude()
    finally:
        source.close()


def _start(session: DeviceSession, source: ScpSource, image: ImageFile, target: str) -> None:
    """Start the device's SCP server, and check at the last moment that the target does not exist.

    The device overwrites without asking: it opens and empties the file when it is announced.
    """
    host = session.name
    try:
        source.start(path_on(target), limit_s=_ANSWER_S)
        found = file_at(session, target).size_bytes
        if found is not None:
            raise FileExists(
                f"{target} exists, {found:,} bytes; nothing is overwritten",
                host=host,
                step=STEP,
                hint="Find out who put it there; delete or rename it if it is not needed, then stage again",
            )
        source.announce(image.name, image.size_bytes)
    except ScpRefused as refused:
        raise _refused(refused, host) from None
    except lost() as error:
        reply = str(error) or "it said nothing"
        raise CopyFailed(f"the device's SCP server does not answer: {reply}", host=host, step=STEP, hint=_LOG) from None


def _open_account(account: PushAccount, source: ScpSource, host: str) -> None:
    try:
        account.begin(
            source.socket,
            peer_address=source.peer_address,
            cipher=source.cipher,
            mac=source.mac,
            server=source.server,
            channel=source.channel(),
        )
    except OSError as error:
        raise DeviceUnreachable(
            f"the push's SSH session was lost before the first byte: {reason_of(error)}",
            host=host,
            step=STEP,
            hint=SESSION_LOST,
        ) from None


def _refused(refused: ScpRefused, host: str) -> CopyFailed:
    said = str(refused)
    hint = next((hint for words, hint in _HINTS.items() if words.lower() in said.lower()), _LOG)
    return CopyFailed(f"the device's SCP server says: {said}", host=host, step=STEP, hint=hint)


class _Sending:
    """Sends a file in a thread, and ends it when a limit is reached."""

    def __init__(self, host: str, source: ScpSource, order: PushOrder, account: PushAccount) -> None:
        self._host, self._source, self._order, self._account = host, source, order, account
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._started_s = self._progress_s = time.monotonic()
        self._acked_bytes = 0

    def send_all(self) -> None:
        """Send the whole file. Raises as `push_image` does."""
        sender = threading.Thread(target=self._send, name=f"push-{self._host}", daemon=True)
        sender.start()
        try:
            while not self._done.wait(_POLL_S):
                self._account.sample(self._source.channel())
                self._check(time.monotonic())
        finally:
            # End the sending thread, whatever was raised.
            if not self._done.is_set():
                self._source.close()
            sender.join(_LAST_JOIN_S)
        self._raise_error()

    def _send(self) -> None:
        try:
            descriptor = descriptor_of(self._order.image.path)
            try:
                self._send_file(descriptor)
            finally:
                os.close(descriptor)
        except BaseException as error:  # noqa: BLE001 -- raised by the watching thread
            self._error = error
        finally:
            self._done.set()

    def _send_file(self, descriptor: int) -> None:
        identity, status = self._order.image.identity, os.fstat(descriptor)
        opened = administration(status)
        if not has_content_of(identity, opened, status):
            raise ValueError("image changed on disk before it was sent")
        self._source.send(descriptor, self._order.image.size_bytes, self._account.wrote, end_s=self._order.limits.end_s)
        if not has_content_of(identity, opened, os.fstat(descriptor)):
            raise ValueError("image changed on disk while it was sent")

    def _check(self, now_s: float) -> None:
        if self._order.interrupted():
            raise CopyStopped("the operator interrupted the push", host=self._host, step=STEP)
        acked = self._order.acked()
        if acked > self._acked_bytes:
            self._acked_bytes, self._progress_s = acked, now_s
        silent_s, limits = now_s - self._progress_s, self._order.limits
        if not self._acked_bytes and silent_s > limits.start_s:
            raise self._stalled(f"no byte was taken within {limits.start_s:.0f} s")
        # After the last byte the device may still write flash; only its server's reply shows the end.
        most_s = limits.end_s if self._is_nearly_done else limits.stall_s
        if self._acked_bytes and silent_s > most_s:
            raise self._stalled(f"no progress for {most_s:.0f} s after {self._acked_bytes} bytes")
        if now_s - self._started_s > limits.total_s:
            raise self._stalled(f"{self._acked_bytes} bytes in {limits.total_s:.0f} s, the limit")

    @property
    def _is_nearly_done(self) -> bool:
        return self._acked_bytes >= _NEARLY_ALL * self._order.image.size_bytes

    def _stalled(self, reason: str) -> TransferStalled:
        return TransferStalled(reason, host=self._host, step=STEP)

    def _raise_error(self) -> None:
        error, host = self._error, self._host
        if error is None:
            return
        if isinstance(error, ScpRefused):
            raise _refused(error, host) from None
        if isinstance(error, ValueError):
            raise CopyFailed(
                str(error), host=host, step=STEP, hint="Put the image back as it was, then stage again"
            ) from None
        if self._account.cut_because:
            raise CopyFailed(self._account.cut_because, host=host, step=STEP, hint=_LOG) from None
        if isinstance(error, lost()):
            reply = f": {error}" if str(error) else ""
            raise DeviceUnreachable(
                f"the push's SSH session was lost after {self._acked_bytes} bytes{reply}",
                host=host,
                step=STEP,
                hint=SESSION_LOST,
            ) from None
        raise error


LAST_ACCOUNT_S = 2.0
"""Seconds to wait for the server's final account: the device may be at its prompt a round trip before it is
complete."""


def copy(run: DeviceRun, order: CopyOrder) -> None:
    """Copy; repeat once if it is safe after a lost session, or after an overload by our window."""
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
        # The prompt is back: nothing is written any more.
        traces.may_be_writing = False
        traces.is_theirs = isinstance(error, FileExists)
        raise
    finally:
        take_account(run, context.server.wait(ticket.ticket_id, LAST_ACCOUNT_S))
    run.keep(COPY, done)


def _push(run: DeviceRun, order: CopyOrder) -> None:
    """Write the image to the device, which then reports no figures of its own."""
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
        # We closed the connection: the device writes no more than its buffers.
        traces.may_be_writing = isinstance(error, DeviceUnreachable)
        traces.is_theirs = isinstance(error, FileExists)
        raise
    finally:
        if traces.ticket is not None:
            take_account(run, context.server.progress(traces.ticket.ticket_id))


def _check_pushed(run: DeviceRun, order: CopyOrder) -> None:
    """Raise unless our own count of acknowledged bytes confirms what the device's SCP server reports."""
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
        flash_bytes_per_s=platform.defaults.flash_bytes_per_s,
        window_bytes=platform.defaults.window_bytes,
        rtt_s=run.checked.rtt_s or ASSUMED_RTT_S,
        tuned=any(change.keyword == WINDOW_SIZE for change in run.in_force),
        channel_window_bytes=platform.ssh.default_bytes if is_narrow else None,
    )
    return copy_limits(size_bytes=order.image.size_bytes, expected_bytes_per_s=least_rate)


def check_target_again(run: DeviceRun, order: CopyOrder) -> None:
    """Check the target right before the copy: since the check a file may have appeared, or the flash filled up.

    Raises:
        DeviceRefused: The image can no longer be written there.
    """
    if order.target == "null:":
        return
    refusal = refusal_before_copy(
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
            hint="Find out who put it there or filled the flash since the check; then stage again",
        )


def server_view(run: DeviceRun) -> ServerView:
    """Return the server's view of the current copy, and emit its progress."""
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
