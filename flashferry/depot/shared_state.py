"""What all runs at a depot share: the file server, who owns which ticket, the slots and caps of sites.

What the server tells comes on the threads that read its processes, and so does the answer of a process that is asked
something. So nobody asks one while he holds what those threads wait for.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from flashferry.depot.messages import DepotView, Granted, RunSeen, SiteSeen
from flashferry.depot.site_slots import SiteCaps, SiteSlots, Slot, StatedCap
from flashferry.fileserver import EventKind, FileServer, FileServerError, ServerEvent, ServerGone, TicketUnknown
from flashferry.fileserver.wire import RefusedLogin

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.depot.client_session import ClientSession
    from flashferry.fileserver import TransferProgress
    from flashferry.fileserver.rate_limits import SiteLoad
    from flashferry.fileserver.tickets import TicketGrant

GRACE_S = 1.5
"""So long after its start a depot grants no slot: runs that had slots of the one before come back within that time, and
claim them, before others get them who only waited."""

_OURS = "depot"
"""Who says what the operator said to the depot itself; no run is called so."""

_ENDING = "the depot is ending: it takes nothing new in"


class SharedState:
    """What runs share. Methods may be called from any thread.

    Args:
        server: What serves all of them.
        digests: File that keeps the digests of images.
        release: Ours, for who looks.
        pid: Our process.
        since: When we began, seconds since the epoch.
        catalogue: The folder of images offered to depots of other sites, absolute; empty where none are.
    """

    def __init__(
        self, server: FileServer, *, digests: Path, release: str, pid: int, since: float, catalogue: str = ""
    ) -> None:
        self.server, self.digests, self._catalogue = server, digests, catalogue
        self._release, self._pid, self._since = release, pid, since
        # Never held while the server is asked something: its answer comes on a thread that may wait for this lock.
        self._lock = threading.Lock()
        # Held meanwhile, so that the cap that was said last is in force.
        self._capping = threading.Lock()
        self._visits: dict[str, ClientSession] = {}
        self._owners: dict[str, ClientSession] = {}
        self._slots, self._caps = SiteSlots(is_held_up=True), SiteCaps()
        self._is_ending = False
        server.events(self._hear)
        timer = threading.Timer(GRACE_S, self._begin)
        timer.daemon = True
        timer.start()

    def enter(self, visit: ClientSession) -> None:
        """Take a run in."""
        with self._lock:
            self._visits[visit.name] = visit

    def leave(self, visit: ClientSession) -> None:
        """Clear up behind a run: its tickets are worthless, its slots and its say in caps end."""
        with self._lock:
            self._visits.pop(visit.name, None)
            tickets = [ticket_id for ticket_id, owner in self._owners.items() if owner is visit]
        self.server.part(visit.name)
        for ticket_id in tickets:
            with suppress(FileServerError):
                if not self.server.progress(ticket_id).state.is_final:
                    self.server.revoke(ticket_id)
        with self._capping:
            with self._lock:
                for ticket_id in tickets:
                    self._owners.pop(ticket_id, None)
                self._tell_granted(self._slots.part(visit.name))
                changed = self._caps.part(visit.name)
            for site, cap in changed.items():
                with suppress(ServerGone):
                    self.server.set_site_cap(site, cap.cap_bytes_per_s, cap.source)

    def _begin(self) -> None:
        with self._lock:
            if not self._is_ending:
                self._tell_granted(self._slots.begin())

    def end(self) -> None:
        """Take nothing new in from now on: no ticket, no slot."""
        with self._lock:
            self._is_ending = True
            self._slots.hold_up()

    def is_owned(self, ticket_id: str) -> bool:
        """Tell whether a ticket is a run's."""
        with self._lock:
            return ticket_id in self._owners

    def visits(self) -> tuple[ClientSession, ...]:
        """Return who is here."""
        with self._lock:
            return tuple(self._visits.values())

    # Tickets

    def take_ticket(self, visit: ClientSession, grant: TicketGrant) -> TransferProgress:
        """Take a run's ticket in; it is the owner's alone.

        Raises:
            ServerGone: The depot is ending, or its server has ended.
            TicketUnknown: There is one of that number already.
        """
        with self._lock:
            if self._is_ending:
                raise ServerGone(_ENDING, hint="The device is tried again once the depot is back")
            if grant.ticket_id in self._owners:
                raise TicketUnknown("ticket: expected a new number, found one that is taken")
            # Before the server has it: what happens to it from then on has somebody to be told.
            self._owners[grant.ticket_id] = visit
        try:
            return self.server.take_ticket(grant)
        except FileServerError:
            with self._lock:
                self._owners.pop(grant.ticket_id, None)
            raise

    def of(self, visit: ClientSession, ticket_id: str) -> FileServer:
        """Return the server, for a ticket that is a run's own.

        Raises:
            TicketUnknown: It is not.
        """
        with self._lock:
            if self._owners.get(ticket_id) is not visit:
                raise TicketUnknown(f"ticket {ticket_id!r}: not issued by this run, or before the depot began")
        return self.server

    # Sites

    def state_cap(self, visit: ClientSession, site: str, cap_bytes_per_s: int | None, source: str) -> None:
        """Take in what a run says that a site's transfers may take; the least that any run says is in force then."""
        self._state_cap(visit.name, site, cap_bytes_per_s, source)

    def state_own_cap(self, site: str, cap_bytes_per_s: int | None, source: str) -> None:
        """Say ourselves what a site's transfers may take, for as long as we are there; see `state_cap`."""
        self._state_cap(_OURS, site, cap_bytes_per_s, source)

    def _state_cap(self, who: str, site: str, cap_bytes_per_s: int | None, source: str) -> None:
        with self._capping:
            with self._lock:
                cap = self._caps.state(who, site, StatedCap(cap_bytes_per_s=cap_bytes_per_s, source=source))
            self.server.set_site_cap(site, cap.cap_bytes_per_s, cap.source)

    def take_load(self, visit: ClientSession, load: SiteLoad) -> None:
        """Take in what a run's own pushes do at a site."""
        visit.join()
        self.server.take_load(visit.name, load)

    def ask_slot(self, visit: ClientSession, number: int, site: str | None, limit: int | None) -> None:
        """Have a run wait for a slot; it is told when it has it."""
        with self._lock:
            self._tell_granted(self._slots.ask(visit.name, number, site, limit))

    def claim_slot(self, visit: ClientSession, number: int, site: str | None, limit: int | None) -> None:
        """Give a run a slot beside whoever has one."""
        with self._lock:
            self._slots.claim(visit.name, number, site, limit)

    def free_slot(self, visit: ClientSession, number: int) -> None:
        """Take a slot back."""
        with self._lock:
            self._tell_granted(self._slots.free(visit.name, number))

    def _tell_granted(self, granted: tuple[Slot, ...]) -> None:
        for name, number in granted:
            if (visit := self._visits.get(name)) is not None:
                visit.outbox.say(Granted(numbers=(number,)))

    # What the server tells

    def _hear(self, event: ServerEvent) -> None:
        progress = event.progress
        if progress is not None:
            with self._lock:
                owner = self._owners.get(progress.ticket_id)
            if owner is not None:
                owner.hear(event)
            return
        if event.kind in {EventKind.GONE, EventKind.NOTICE}:
            self._tell_void(event.text)
        if event.kind is EventKind.LOGIN_FAILED and self.server.unattributed_failures:
            newest = self.server.unattributed_failures[-1]
            for visit in self.visits():
                visit.outbox.say(RefusedLogin(failure=newest))
            return
        for visit in self.visits():
            visit.hear(event)

    def _tell_void(self, reason: str) -> None:
        """Tell runs of tickets that died with the process that served them."""
        with self._lock:
            void = [
                (owner, ticket_id, why)
                for ticket_id, owner in self._owners.items()
                if (why := self.server.invalid_reason(ticket_id))
            ]
            for _, ticket_id, _ in void:
                del self._owners[ticket_id]
        for visit in self.visits():
            tickets = tuple(ticket_id for owner, ticket_id, _ in void if owner is visit)
            if tickets:
                visit.invalidate_tickets(tickets, next((why for owner, _, why in void if owner is visit), reason))

    def view(self) -> DepotView:
        """Return how things stand."""
        with self._lock:
            live = [owner.name for ticket_id, owner in self._owners.items() if self._is_live(ticket_id)]
            visits = [visit for visit in self._visits.values() if visit.has_work]
            runs = tuple(self._run_seen(visit, live.count(visit.name)) for visit in visits)
            return DepotView(
                release=self._release,
                pid=self._pid,
                since=self._since,
                ports={name: self.server.port_of(name) for name in self.server.transports},
                runs=runs,
                sites=self._sites_seen(),
                is_ending=self._is_ending,
                notices=self.server.notices,
                catalogue=self._catalogue,
            )

    def _is_live(self, ticket_id: str) -> bool:
        try:
            return not self.server.progress(ticket_id).state.is_final
        except TicketUnknown:
            return False

    def _run_seen(self, visit: ClientSession, tickets: int) -> RunSeen:
        copies, waiting = self._slots.counts(visit.name)
        return RunSeen(
            pid=visit.pid,
            purpose=visit.purpose,
            since=visit.since,
            tickets=tickets,
            copies=copies,
            waiting=waiting,
        )

    def _sites_seen(self) -> tuple[SiteSeen, ...]:
        found = {one.site: one for one in self._slots.seen()}
        for site in self._caps.sites():
            one = found.get(site) or SiteSeen(site=site, copies=0, waiting=0, limit=None, cap_bytes_per_s=None)
            found[site] = replace(one, cap_bytes_per_s=self._caps.of(site).cap_bytes_per_s)
        return tuple(found[site] for site in sorted(found))
