"""Hold what all runs at a depot share: the server, tickets, slots and caps of sites."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.depot.handshake import DepotView, RunSeen, SiteSeen
from flashferry.fileserver import EventKind, FileServer, FileServerError, ServerEvent, ServerGone, TicketUnknown
from flashferry.fileserver.wire import RefusedLogin, SetSiteCap, SlotsGranted, TicketsInvalidated

if TYPE_CHECKING:
    from pathlib import Path

    from flashferry.depot.client_session import ClientSession
    from flashferry.fileserver import TransferProgress
    from flashferry.fileserver.ticket_accounts import TicketGrant

Slot = tuple[str, int]
"""A run and its number of the slot."""


@dataclass(slots=True, eq=False)
class _Place:
    """A slot that a run holds or waits for."""

    run: str
    number: int
    site: str | None
    limit: int | None
    is_held: bool


class SiteSlots:
    """The slots of all sites.

    Args:
        is_held_up: Whether nothing is granted until `start`, so that runs which held slots before can claim them.
    """

    def __init__(self, *, is_held_up: bool = False) -> None:
        # In the order of the requests.
        self._places: dict[Slot, _Place] = {}
        self._is_held_up = is_held_up

    def ask(self, run: str, number: int, site: str | None, limit: int | None) -> tuple[Slot, ...]:
        """Let a run wait for a slot; asking twice counts once.

        Returns:
            The granted slots, to be reported to their runs; likewise below.
        """
        self._places.setdefault((run, number), _Place(run, number, site, limit, is_held=False))
        return self._granted(site)

    def claim(self, run: str, number: int, site: str | None, limit: int | None) -> None:
        """Give a run a slot at once, even above the limit."""
        self._places[run, number] = _Place(run, number, site, limit, is_held=True)

    def free(self, run: str, number: int) -> tuple[Slot, ...]:
        """Take a slot back; an unknown one is ignored."""
        place = self._places.pop((run, number), None)
        return () if place is None else self._granted(place.site)

    def leave(self, run: str) -> tuple[Slot, ...]:
        """Take all slots of a run back."""
        gone = [place for place in self._places.values() if place.run == run]
        for place in gone:
            del self._places[run, place.number]
        sites = dict.fromkeys(place.site for place in gone)
        return tuple(slot for site in sites for slot in self._granted(site))

    def hold_up(self) -> None:
        """Grant nothing more."""
        self._is_held_up = True

    def start(self) -> tuple[Slot, ...]:
        """Grant slots from now on."""
        self._is_held_up = False
        sites = dict.fromkeys(place.site for place in self._places.values())
        return tuple(slot for site in sites for slot in self._granted(site))

    def counts(self, run: str) -> tuple[int, int]:
        """Return how many slots a run holds, and for how many it waits."""
        own = [place.is_held for place in self._places.values() if place.run == run]
        return own.count(True), own.count(False)

    def seen(self) -> Iterator[SiteSeen]:
        """Yield the status of each named site, without its cap."""
        for site in sorted({place.site for place in self._places.values() if place.site is not None}):
            here = self._at(site)
            held = sum(place.is_held for place in here)
            yield SiteSeen(
                site=site,
                copies=held,
                waiting=len(here) - held,
                limit=_least(here),
                cap_bytes_per_s=None,
            )

    def _granted(self, site: str | None) -> tuple[Slot, ...]:
        granted: list[Slot] = []
        while (place := self._next(site)) is not None:
            place.is_held = True
            granted.append((place.run, place.number))
        return tuple(granted)

    def _next(self, site: str | None) -> _Place | None:
        """Return the next slot to grant: of the waiting run with the fewest there, its oldest."""
        here = self._at(site)
        held = [place.run for place in here if place.is_held]
        limit = None if site is None else _least(here)
        if self._is_held_up or (limit is not None and len(held) >= limit):
            return None
        waiting = (place for place in here if not place.is_held)
        return min(waiting, key=lambda place: held.count(place.run), default=None)

    def _at(self, site: str | None) -> list[_Place]:
        return [place for place in self._places.values() if place.site == site]


def _least(places: list[_Place]) -> int | None:
    return min((place.limit for place in places if place.limit is not None), default=None)


class SiteCaps:
    """The caps that runs set for sites: the lowest applies to all, while its owner is connected."""

    def __init__(self) -> None:
        self._stated: dict[str, dict[str, SetSiteCap]] = {}

    def state(self, owner: str, cap: SetSiteCap) -> SetSiteCap:
        """Replace an owner's cap for a site; return the cap that applies now."""
        stated = self._stated.setdefault(cap.site, {})
        stated.pop(owner, None)
        if cap.cap_bytes_per_s is not None:
            stated[owner] = cap
        if not stated:
            del self._stated[cap.site]
        return self.of(cap.site)

    def leave(self, owner: str) -> tuple[SetSiteCap, ...]:
        """Drop all caps of an owner; return those that apply now where that changed."""
        changed = []
        for site in [site for site, stated in self._stated.items() if owner in stated]:
            before, now = self.of(site), self.state(owner, _no_cap(site))
            if now != before:
                changed.append(now)
        return tuple(changed)

    def of(self, site: str) -> SetSiteCap:
        """Return the cap that applies at a site."""
        stated = self._stated.get(site, {})
        return min(stated.values(), key=lambda one: one.cap_bytes_per_s or 0, default=_no_cap(site))

    def sites(self) -> tuple[str, ...]:
        """Return the sites that have one."""
        return tuple(sorted(self._stated))


def _no_cap(site: str) -> SetSiteCap:
    return SetSiteCap(site=site, cap_bytes_per_s=None, source="")


GRACE_S = 1.5
"""Time after its start in which a depot grants no slot, so that runs which held slots can claim them first."""

OPERATOR = "depot"
"""The owner of the operator's caps; no run has this name."""

_ENDING = "the depot is ending: it accepts nothing new"


class SharedState:
    """The state that runs share. Thread-safe.

    Args:
        server: The server of all runs.
        digests: File that keeps digests of images.
        release: Our release, for the status.
        pid: Our process.
        since: When we started, seconds since the epoch.
        catalogue: The folder of images offered to other sites' depots, absolute; empty: none.
    """

    def __init__(
        self, server: FileServer, *, digests: Path, release: str, pid: int, since: float, catalogue: str = ""
    ) -> None:
        self.server, self.digests, self._catalogue = server, digests, catalogue
        self._release, self._pid, self._since = release, pid, since
        # Never held while a process of the server is asked something.
        self._lock = threading.Lock()
        # Held meanwhile, so that the cap that was stated last is in force.
        self._cap_lock = threading.Lock()
        self._sessions: dict[str, ClientSession] = {}
        self._owners: dict[str, ClientSession] = {}
        self._slots, self._caps = SiteSlots(is_held_up=True), SiteCaps()
        self._is_ending = False
        server.events(self._on_event)
        timer = threading.Timer(GRACE_S, self._start_granting)
        timer.daemon = True
        timer.start()

    def enter(self, session: ClientSession) -> None:
        """Add a run."""
        with self._lock:
            self._sessions[session.name] = session

    def leave(self, session: ClientSession) -> None:
        """Remove a run: revoke its tickets, release its slots and caps."""
        with self._lock:
            self._sessions.pop(session.name, None)
            tickets = [ticket_id for ticket_id, owner in self._owners.items() if owner is session]
        self.server.leave(session.name)
        for ticket_id in tickets:
            with suppress(FileServerError):
                if not self.server.progress(ticket_id).state.is_final:
                    self.server.revoke(ticket_id)
        with self._cap_lock:
            with self._lock:
                for ticket_id in tickets:
                    self._owners.pop(ticket_id, None)
                self._report_granted(self._slots.leave(session.name))
                changed = self._caps.leave(session.name)
            for cap in changed:
                with suppress(ServerGone):
                    self.server.set_site_cap(cap.site, cap.cap_bytes_per_s, cap.source)

    def _start_granting(self) -> None:
        with self._lock:
            if not self._is_ending:
                self._report_granted(self._slots.start())

    def end(self) -> None:
        """Accept nothing new from now on: no ticket, no slot."""
        with self._lock:
            self._is_ending = True
            self._slots.hold_up()

    def is_owned(self, ticket_id: str) -> bool:
        """Return whether a ticket belongs to a run."""
        with self._lock:
            return ticket_id in self._owners

    def sessions(self) -> tuple[ClientSession, ...]:
        """Return the sessions of all runs."""
        with self._lock:
            return tuple(self._sessions.values())

    # Tickets

    def take_ticket(self, session: ClientSession, grant: TicketGrant) -> TransferProgress:
        """Add a run's ticket, which no other run can use.

        Raises:
            ServerGone: The depot is ending, or its server has ended.
            TicketUnknown: The number is taken.
        """
        with self._lock:
            if self._is_ending:
                raise ServerGone(_ENDING, hint="The device is tried again once the depot is back")
            if grant.ticket_id in self._owners:
                raise TicketUnknown("ticket: expected a new number, found one that is taken")
            # Before the server has it: events of it need an owner from the first on.
            self._owners[grant.ticket_id] = session
        try:
            return self.server.take_ticket(grant)
        except FileServerError:
            with self._lock:
                self._owners.pop(grant.ticket_id, None)
            raise

    def server_for(self, session: ClientSession, ticket_id: str) -> FileServer:
        """Return the server, for a ticket of the run itself.

        Raises:
            TicketUnknown: It is another's.
        """
        with self._lock:
            if self._owners.get(ticket_id) is not session:
                raise TicketUnknown(f"ticket {ticket_id!r}: not issued by this run, or before the depot started")
        return self.server

    # Sites

    def state_cap(self, owner: str, cap: SetSiteCap) -> None:
        """Set the cap of a run, or of the `OPERATOR`, for a site; the lowest applies."""
        with self._cap_lock:
            with self._lock:
                cap = self._caps.state(owner, cap)
            self.server.set_site_cap(cap.site, cap.cap_bytes_per_s, cap.source)

    def ask_slot(self, session: ClientSession, number: int, site: str | None, limit: int | None) -> None:
        """Let a run wait for a slot; it is notified."""
        with self._lock:
            self._report_granted(self._slots.ask(session.name, number, site, limit))

    def claim_slot(self, session: ClientSession, number: int, site: str | None, limit: int | None) -> None:
        """Give a run a slot, even above the limit."""
        with self._lock:
            self._slots.claim(session.name, number, site, limit)

    def free_slot(self, session: ClientSession, number: int) -> None:
        """Take a slot back."""
        with self._lock:
            self._report_granted(self._slots.free(session.name, number))

    def _report_granted(self, granted: tuple[Slot, ...]) -> None:
        for name, number in granted:
            if (session := self._sessions.get(name)) is not None:
                session.queue.send(SlotsGranted(numbers=(number,)))

    # What the server reports

    def _on_event(self, event: ServerEvent) -> None:
        progress = event.progress
        if progress is not None:
            with self._lock:
                owner = self._owners.get(progress.ticket_id)
            if owner is not None:
                owner.on_event(event)
            return
        if event.kind in {EventKind.GONE, EventKind.NOTICE}:
            self._invalidate(event.text)
        if event.kind is EventKind.LOGIN_FAILED and self.server.unattributed_failures:
            newest = self.server.unattributed_failures[-1]
            for session in self.sessions():
                session.queue.send(RefusedLogin(failure=newest))
            return
        for session in self.sessions():
            session.on_event(event)

    def _invalidate(self, reason: str) -> None:
        """Notify runs of tickets that ended with their serving process."""
        with self._lock:
            invalid = [
                (owner, ticket_id, why)
                for ticket_id, owner in self._owners.items()
                if (why := self.server.invalid_reason(ticket_id))
            ]
            for _, ticket_id, _ in invalid:
                del self._owners[ticket_id]
        for session in self.sessions():
            tickets = tuple(ticket_id for owner, ticket_id, _ in invalid if owner is session)
            if tickets:
                why = next((why for owner, _, why in invalid if owner is session), reason)
                session.queue.send(TicketsInvalidated(ticket_ids=tickets, reason=why))

    def view(self) -> DepotView:
        """Return the depot's status."""
        with self._lock:
            live = [owner.name for ticket_id, owner in self._owners.items() if self._is_live(ticket_id)]
            sessions = [session for session in self._sessions.values() if session.has_work]
            runs = tuple(self._run_seen(session, live.count(session.name)) for session in sessions)
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

    def _run_seen(self, session: ClientSession, tickets: int) -> RunSeen:
        copies, waiting = self._slots.counts(session.name)
        return RunSeen(
            pid=session.pid,
            purpose=session.purpose,
            since=session.since,
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
