"""`check --reach`: check each device, then have it fetch a small file in the same session. Changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace
from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError, Kind
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.platforms.platform import Platform
from flashferry.fileserver import FileServerError, ServerClient, ServerEvent, Ticket, TicketRequest, TransferRecord
from flashferry.model.doubts import Doubted
from flashferry.model.probe_result import Connectivity
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.planning.inspection import CheckRecord, inspect_device
from flashferry.planning.local_images import random_image
from flashferry.run.device_plan import offer_to
from flashferry.run.request import RunOptions
from flashferry.run.server import (
    depot_for,
    left_out,
    own_fingerprints,
    port_notices,
    served_for,
    server_notes,
    serving,
    transports_to_reach,
)
from flashferry.store.leases import Lease, leases
from flashferry.store.staged import doubts
from flashferry.tcp.syn import SynOptions
from flashferry.transports.transport import ServerView, Transport
from flashferry.transports.transport_selection import allowed, ssh_offer
from inventory.host_key_rules import state_directory
from inventory.host_view import HostView, view
from inventory.transport_policy import AS_USUAL, AUTO
from tasks.check import CheckReport, TargetImage
from tasks.connectivity import ConnectivityReport, check_connectivity
from tasks.fetch_check import own_addresses
from tasks.tcp_config import plan_tune

REACH_BYTES = 16_384
"""Enough for several packets on the data connection; a second at most on the slowest device."""

_LIFETIME_S = 120.0

_ENDS = frozenset({Kind.DEVICE_UNREACHABLE, Kind.INTERRUPTED, Kind.COPY_STOPPED, Kind.QUESTION_LEFT})
"""After these failures no other transport is tried: the session is lost, or the run stops."""

_OF_TRANSPORT = frozenset({Kind.NO_CLIENT, Kind.NO_LOGIN, Kind.NO_DATA})
"""Failures after which another transport may get through."""


def reach_fleet(
    nornir: Nornir,
    target: TargetImage | None,
    options: RunOptions,
    *,
    state: Path | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[CheckRecord, ...]:
    """Check every device and have it fetch a small file; return a CheckRecord per device, in inventory order.

    Args:
        nornir: The devices, with credentials.
        target: The image that they are checked for, or None.
        options: Where our server listens, and which transports may be used.
        state: State folder with the leases of runs, read only; None: the default one.
        emit: Receives events, from several threads.
        interrupted: Whether the operator stops.

    Raises:
        ConfigInvalid: The inventory is wrong, or our server cannot start; no device was touched.
    """
    folder = state_directory(state)
    with ExitStack() as stack:
        depot, options, note = stack.enter_context(depot_for(options, folder))
        choices = transports_to_reach([view(host) for host in nornir.inventory.hosts.values()], options)
        served = served_for(choices)
        image = stack.enter_context(random_image(REACH_BYTES, folder, "reach.bin"))
        server = stack.enter_context(serving((image,), options, state=folder, transports=served, depot=depot))

        def notify(text: str) -> None:
            never_failing(emit)(Event(host=None, step="server", status="note", text=text, at_s=0.0))

        stack.enter_context(server_notes(server, notify))
        for notice in (*filter(None, (note,)), *port_notices(server, options, served)):
            notify(f"note: {notice}")
        reach_task = _ReachTask(
            server=server,
            image=image,
            target=target,
            options=options,
            emit=never_failing(emit),
            interrupted=interrupted,
            held=leases(folder),
            doubted=doubts(folder),
            choices=choices,
            fingerprints=own_fingerprints(folder, served, options),
        )
        results = nornir.run(task=reach_task, name="reach")
        return tuple(results[name][0].result for name in nornir.inventory.hosts)


Reached = tuple[Connectivity | None, Failure | None]
"""The result by one transport, and the failure if the device cannot fetch by it."""


def try_each(
    record: CheckRecord,
    transports: Iterable[Transport],
    reach: Callable[[Transport], Reached],
    *,
    any_will_do: bool,
) -> CheckRecord:
    """Try transports in the order of a run; the device fails if the transport that a run would use fails.

    With `any_will_do` a run would try the next transport if one fails.
    """
    found: list[Connectivity] = []
    failures: list[Failure | None] = []
    for transport in transports:
        reached, failure = reach(transport)
        failures.append(failure)
        if reached is not None:
            found.append(reached)
        if failure is not None and failure.kind in _ENDS:
            break
    record = replace(record, reach=found[0] if found else None, reaches=tuple(found))
    works = [one.transport for one in found if one.is_reached]
    failure = None if any_will_do and works else failures[0]
    if failure is None:
        return record
    if works:
        advice = f"By {', '.join(works)} it reaches us: stage with --transport {works[0]} or auto"
        failure = replace(failure, hint=f"{failure.hint}. {advice}" if failure.hint else advice)
    return replace(record, outcome=Outcome.FAILED, failure=failure)


@dataclass(slots=True, kw_only=True)
class _ReachTask:
    """Nornir task: check a device and have it fetch the file."""

    server: ServerClient
    image: Path
    target: TargetImage | None
    options: RunOptions
    emit: Emit
    interrupted: Callable[[], bool]
    held: tuple[Lease, ...]
    doubted: Doubted
    choices: Mapping[str, tuple[Transport, ...]]
    fingerprints: tuple[str, ...]
    started_s: float = field(default_factory=time.monotonic)

    def __call__(self, task: Task) -> Result:
        self._event(task, "check", "started", "")
        record = inspect_device(task, self.target, self.interrupted, held=self.held, doubted=self.doubted)
        self._event_end(task, "check", record.failure)
        if record.check is not None and record.failure is None:
            tried = self.choices[task.host.name]
            record = with_other_transports(
                self._reach(task, record, record.check), view(task.host), self.options, tried
            )
            self._event_end(task, "reach", record.failure)
        with suppress(Exception):  # the session goes with the process at the latest
            task.host.close_connections()
        return Result(host=task.host, result=record)

    def _reach(self, task: Task, record: CheckRecord, report: CheckReport) -> CheckRecord:
        transports = self.choices[task.host.name]
        is_alone = len(transports) == 1

        def reach(transport: Transport) -> Reached:
            by = "" if is_alone else f" by {transport.name}"
            self._event(task, "reach", "started", f"{REACH_BYTES} bytes to null:{by}")
            return self._reach_by(task, report, transport, is_alone=is_alone)

        return try_each(record, transports, reach, any_will_do=self.options.policy.transport == AUTO)

    def _reach_by(self, task: Task, report: CheckReport, transport: Transport, *, is_alone: bool) -> Reached:
        """Have the device fetch the file by one transport; return the result and the failure, if any."""
        device = view(task.host)
        try:
            session = session_of(task)
            expected = own_addresses(session)
            with _observer(self.server, self.image.name, expected, transport, report.version.release) as observer:
                offer = offer_to(
                    device,
                    report,
                    self.options.server.address,
                    ticket=observer.ticket,
                    port=self.server.port_of(transport.name),
                    transport=transport,
                    fingerprints=self.fingerprints,
                )
                found = check_connectivity(
                    session,
                    offer=offer,
                    size_bytes=REACH_BYTES,
                    expected=expected,
                    server_view=observer.server_view,
                    interrupted=self.interrupted,
                )
                if found.copied is not None:
                    # The device may be at its prompt before the server has its last acknowledgement.
                    self.server.wait_final(observer.ticket.ticket_id, 2.0)
                not_set = _not_set(device, report, session.platform, transport)
                return _reached(found, observer, transport, not_set, recent_of(task).lines())
        except FlashferryError as error:
            failure = failure_of("reach", error, recent_of(task).lines())
            if is_alone:
                return None, failure
            unread = ConnectivityReport(
                copied=None, hindrance=None, sentence=failure.reason, hint=failure.hint, came_from=None
            )
            return Connectivity(report=unread, syn=None, rtt_s=None, mode=None, transport=transport.name), failure

    def _event_end(self, task: Task, step: str, failure: Failure | None) -> None:
        self._event(task, step, "failed" if failure else "done", failure.reason if failure else "")

    def _event(self, task: Task, step: str, status: str, text: str) -> None:
        at_s = time.monotonic() - self.started_s
        self.emit(Event(host=task.host.name, step=step, status=status, text=text, at_s=at_s))


def with_other_transports(
    record: CheckRecord, device: HostView, options: RunOptions, tried: Sequence[Transport]
) -> CheckRecord:
    """Add to a record which transports were not tried, and a hint to try others if the only one is blocked. Pure.

    No hint is added if the operator named a transport.

    Args:
        record: The record of the check.
        device: The inventory's values.
        options: The transport asked for, and what our side can serve.
        tried: The transports that were tried.
    """
    record = replace(record, not_tried=left_out(device, options))
    failure, others = record.failure, [one for one in allowed(device.transport_policy) if one not in tried]
    is_named = options.policy.transport != AS_USUAL
    if failure is None or failure.kind not in _OF_TRANSPORT or is_named or len(tried) > 1 or not others:
        return record
    titles = ", ".join(one.title for one in others)
    another = (
        f"Or another transport may get through ({titles}): 'flashferry check --reach --transport auto' tries each that "
        "can be served, 'flashferry stage --transport auto' goes on to the next where one does not"
    )
    return replace(record, failure=replace(failure, hint=f"{failure.hint}. {another}" if failure.hint else another))


def _data_mode(observer: _ServerObserver, transport: Transport) -> str | None:
    seen = observer.record
    return transport.data_mode(seen.commands) if seen else None


def _reached(
    found: ConnectivityReport,
    observer: _ServerObserver,
    transport: Transport,
    not_set: str,
    transcript: tuple[str, ...],
) -> tuple[Connectivity, Failure | None]:
    seen = observer.record
    reached = Connectivity(
        report=found,
        syn=(seen.data_syn if seen else None) or observer.control_syn,
        rtt_s=seen.min_rtt_s if seen else None,
        mode=_data_mode(observer, transport),
        transport=transport.name,
    )
    if found.hindrance is None:
        return reached, None
    failure = Failure(
        step="reach",
        reason=found.sentence,
        hint=not_set or found.hint,
        kind=found.hindrance.kind,
        transcript=transcript,
    )
    return reached, failure


def _not_set(device: HostView, report: CheckReport, platform: Platform, transport: Transport) -> str:
    """Return a hint if a staging run would set a line that this check, which changes nothing, did not; else empty."""
    planned = plan_tune(
        report.running,
        platform=platform,
        transport=transport,
        window_bytes=None,
        source_interface=device.source_interface,
    ).changes
    if not planned:
        return ""
    return (
        f"A staging run sets '{planned[0].ours}' for the time of its copy; this look changes nothing and went without"
    )


class _ServerObserver:
    """Collects what the server sees of one device. Called on the server's thread.

    The device's ticket is valid from any address, so that an unexpected source address is reported rather than refused.
    A second, unused ticket is bound to the expected addresses: the server attributes to it a client that connects and
    never logs in.
    """

    def __init__(self, server: ServerClient, ticket: Ticket, marker: Ticket, expected: tuple[str, ...]) -> None:
        self.ticket = ticket
        self.control_syn: SynOptions | None = None
        self._server = server
        self._marker_id = marker.ticket_id
        self._expected = expected
        self._lock = threading.Lock()
        self._seen = ServerView()

    @property
    def record(self) -> TransferRecord | None:
        """Return the server's record of the copy once it has ended, else None."""
        return self._server.progress(self.ticket.ticket_id).record

    def server_view(self) -> ServerView:
        """Return what the server has seen so far."""
        others = {
            failure.username_masked
            for failure in self._server.unattributed_failures
            if failure.peer_address in self._expected
        }
        with self._lock:
            return replace(self._seen, other_users=tuple(sorted(others)))

    def take(self, event: ServerEvent) -> None:
        """Store what a server event says about this device."""
        seen = event.progress
        if seen is None:
            return
        with self._lock:
            if seen.ticket_id == self._marker_id:
                # The last error may say why the login failed, for example with the lists of SSH algorithms.
                self._seen = replace(self._seen, client_seen=True, failure=seen.last_error or self._seen.failure)
                self.control_syn = seen.control_syn or self.control_syn
            elif seen.ticket_id == self.ticket.ticket_id:
                self.control_syn = seen.control_syn or self.control_syn
                self._seen = replace(
                    self._seen,
                    client_seen=True,
                    logged_in=self._seen.logged_in or seen.peer_address is not None,
                    came_from=seen.peer_address or self._seen.came_from,
                    acked_bytes=max(seen.bytes_acked, self._seen.acked_bytes),
                    failure=seen.last_error or None,
                )


@contextmanager
def _observer(
    server: ServerClient, image: str, expected: tuple[str, ...], transport: Transport, release: str
) -> Iterator[_ServerObserver]:
    """Issue the two tickets and collect their events while the block runs."""
    base = TicketRequest(image_name=image, lifetime_s=_LIFETIME_S, transports=(transport.name,))
    ticket = server.issue_ticket(base)
    # Old SSH algorithms are offered only to the expected addresses.
    marker = server.issue_ticket(replace(base, source_addresses=expected, ssh=ssh_offer(transport, release)))
    observer = _ServerObserver(server, ticket, marker, expected)
    unsubscribe = server.events(observer.take)
    try:
        yield observer
    finally:
        unsubscribe()
        for one in (ticket, marker):
            with suppress(FileServerError):
                server.revoke(one.ticket_id)
