"""`check --reach`: look at each device, then have it fetch a tiny file, in the same session. Changes nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nornir.core import Nornir
from nornir.core.task import Result, Task

from flashferry.core.errors import FlashferryError
from flashferry.devices.connection import recent_of, session_of
from flashferry.devices.platforms.platform import Platform
from flashferry.fileserver import FileServer, FileServerError, ServerEvent, Ticket, TicketRequest, TransferRecord
from flashferry.model.probe_result import Connectivity
from flashferry.model.record import Failure, failure_of
from flashferry.model.states import Outcome
from flashferry.monitor.events import Emit, Event, never_failing, silent
from flashferry.planning.inspection import CheckRecord, look
from flashferry.planning.local_images import random_image
from flashferry.run.device_plan import offer_to
from flashferry.run.run import RunOptions
from flashferry.run.server import port_notices, serving
from flashferry.run.transports import served_for, transports_of
from flashferry.store.leases import Lease, leases
from flashferry.tcp.syn import SynOptions
from flashferry.transports.transport import Transport
from flashferry.transports.witness import ServerView
from inventory.access import state_directory
from inventory.view import HostView, view
from tasks.check import CheckReport, Wanted
from tasks.connectivity import ConnectivityReport, check_connectivity
from tasks.source_address import own_addresses
from tasks.tcp_config import plan_tune

REACH_BYTES = 16_384
"""Enough to need a data connection that takes more than one packet; a second at most on the slowest device."""

_LIFETIME_S = 120.0


def reach_fleet(
    nornir: Nornir,
    wanted: Wanted | None,
    options: RunOptions,
    *,
    state: Path | None = None,
    emit: Emit = silent,
    interrupted: Callable[[], bool] = lambda: False,
) -> tuple[CheckRecord, ...]:
    """Return a CheckRecord per device, in the order of the inventory; fit ones with what `Connectivity` tells.

    Args:
        nornir: The devices, with credentials.
        wanted: The image that they are to have, or None for a look without one.
        options: Where our server is reached.
        state: Folder where it stands which devices runs have in hand, read only; None: the usual one.
        emit: Takes events; called from several threads.
        interrupted: Whether the operator wants to stop.

    Raises:
        ConfigInvalid: The inventory is wrong, or our server cannot start; no device was touched.
    """
    folder = state_directory(state)
    # A tiny copy goes to `null:`, as a speed test does.
    tried = replace(options, device=replace(options.device, to_null=True))
    choices = transports_of([view(host) for host in nornir.inventory.hosts.values()], tried)
    served = served_for(choices)
    with (
        random_image(REACH_BYTES, folder, "reach.bin") as image,
        serving((image,), options, state=folder, transports=served) as server,
    ):
        for notice in port_notices(server, options, served):
            never_failing(emit)(Event(host=None, step="server", status="note", text=f"note: {notice}", at_s=0.0))
        visit = _Visit(server, image, wanted, options, never_failing(emit), interrupted, leases(folder), choices)
        results = nornir.run(task=visit, name="reach")
        return tuple(results[name][0].result for name in nornir.inventory.hosts)


class _Visit:
    """What is done with each device."""

    __name__ = "reach"

    def __init__(
        self,
        server: FileServer,
        image: Path,
        wanted: Wanted | None,
        options: RunOptions,
        emit: Emit,
        interrupted: Callable[[], bool],
        held: tuple[Lease, ...],
        choices: Mapping[str, tuple[Transport, ...]],
    ) -> None:
        self._choices = choices
        self._server = server
        self._held = held
        self._image = image
        self._wanted = wanted
        self._options = options
        self._emit = emit
        self._interrupted = interrupted
        self._started = time.monotonic()

    def __call__(self, task: Task) -> Result:
        self._tell(task, "check", "started", "")
        record = look(task, self._wanted, self._interrupted, held=self._held)
        self._tell_end(task, "check", record.failure)
        if record.check is not None and record.failure is None:
            record = self._reach(task, record, record.check)
            self._tell_end(task, "reach", record.failure)
        with suppress(Exception):  # the session goes with the process at the latest
            task.host.close_connections()
        return Result(host=task.host, result=record)

    def _reach(self, task: Task, record: CheckRecord, report: CheckReport) -> CheckRecord:
        self._tell(task, "reach", "started", f"{REACH_BYTES} bytes to null:")
        try:
            session = session_of(task)
            expected = own_addresses(session)
            transport = self._choices[task.host.name][0]
            with _lookout(self._server, self._image.name, expected) as lookout:
                offer = offer_to(
                    view(task.host),
                    report,
                    self._options.device,
                    ticket=lookout.ticket,
                    port=self._server.port_of(transport.name),
                    transport=transport,
                )
                found = check_connectivity(
                    session,
                    offer=offer,
                    size_bytes=REACH_BYTES,
                    expected=expected,
                    server_view=lookout.server_view,
                    interrupted=self._interrupted,
                )
                if found.copied is not None:
                    # The device may be back at its prompt before the server has its last acknowledgement.
                    self._server.wait_final(lookout.ticket.ticket_id, 2.0)
                not_set = _not_set(view(task.host), report, session.platform, offer.transport)
                mode = _data_mode(lookout, offer.transport)
                return _recorded(record, found, lookout, not_set, mode, recent_of(task).lines())
        except FlashferryError as error:
            failure = failure_of("reach", error, recent_of(task).lines())
            return replace(record, outcome=Outcome.FAILED, failure=failure)

    def _tell_end(self, task: Task, step: str, failure: Failure | None) -> None:
        self._tell(task, step, "failed" if failure else "done", failure.reason if failure else "")

    def _tell(self, task: Task, step: str, status: str, text: str) -> None:
        at_s = time.monotonic() - self._started
        self._emit(Event(host=task.host.name, step=step, status=status, text=text, at_s=at_s))


def _data_mode(lookout: _Lookout, transport: Transport) -> str | None:
    seen = lookout.record
    return transport.data_mode(seen.commands) if seen else None


def _recorded(
    record: CheckRecord,
    found: ConnectivityReport,
    lookout: _Lookout,
    not_set: str,
    mode: str | None,
    transcript: tuple[str, ...],
) -> CheckRecord:
    seen = lookout.record
    reached = Connectivity(
        report=found,
        syn=(seen.data_syn if seen else None) or lookout.control_syn,
        rtt_s=seen.min_rtt_s if seen else None,
        mode=mode,
    )
    if found.hindrance is None:
        return replace(record, reach=reached)
    failure = Failure(
        step="reach",
        reason=found.sentence,
        hint=not_set or found.hint,
        kind=found.hindrance.kind,
        transcript=transcript,
    )
    return replace(record, reach=reached, outcome=Outcome.FAILED, failure=failure)


def _not_set(device: HostView, report: CheckReport, platform: Platform, transport: Transport) -> str:
    """Return what a staging run would set and this look, which changes nothing, did not; empty where nothing."""
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


class _Lookout:
    """Collects what the server sees of one device; called on the server's thread.

    The device's ticket is good from any address, so that where it comes from is found out rather than refused. A
    second ticket, which nobody uses, is bound to the addresses that we expect: to it the server puts down a client that
    connects and never logs in.
    """

    def __init__(self, server: FileServer, ticket: Ticket, marker: Ticket, expected: tuple[str, ...]) -> None:
        self.ticket = ticket
        self.control_syn: SynOptions | None = None
        self._server = server
        self._marker_id = marker.ticket_id
        self._expected = expected
        self._lock = threading.Lock()
        self._seen = ServerView()

    @property
    def record(self) -> TransferRecord | None:
        """Return the server's account of the copy, once it ended."""
        return self._server.progress(self.ticket.ticket_id).record

    def server_view(self) -> ServerView:
        """Return what was seen so far."""
        others = {
            failure.username_masked
            for failure in self._server.unattributed_failures
            if failure.peer_address in self._expected
        }
        with self._lock:
            return replace(self._seen, other_users=tuple(sorted(others)))

    def take(self, event: ServerEvent) -> None:
        """Take note of an event that concerns this device."""
        seen = event.progress
        if seen is None:
            return
        with self._lock:
            if seen.ticket_id == self._marker_id:
                self._seen = replace(self._seen, client_seen=True)
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
def _lookout(server: FileServer, image: str, expected: tuple[str, ...]) -> Iterator[_Lookout]:
    """Issue the tickets and watch them for as long as the block lasts."""
    ticket = server.issue_ticket(TicketRequest(image_name=image, lifetime_s=_LIFETIME_S))
    marker = server.issue_ticket(TicketRequest(image_name=image, lifetime_s=_LIFETIME_S, source_addresses=expected))
    lookout = _Lookout(server, ticket, marker, expected)
    unsubscribe = server.events(lookout.take)
    try:
        yield lookout
    finally:
        unsubscribe()
        for one in (ticket, marker):
            with suppress(FileServerError):
                server.revoke(one.ticket_id)
