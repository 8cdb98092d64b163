"""The ticket service of the serving process: logins, the state of each ticket, and sharing of caps."""

import time
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flashferry.fileserver.fixed_login import FailureBook, FixedLogins, PendingLogins
from flashferry.fileserver.link_rate_store import network_of
from flashferry.fileserver.rate_limits import (
    Cap,
    SiteCaps,
    SiteLoad,
    SiteMember,
    SitePaces,
    SiteTraffic,
    given_cap,
    least_cap,
)
from flashferry.fileserver.ticket_accounts import (
    Account,
    Channel,
    Refusal,
    Roster,
    Session,
    WaitingChannel,
    names_source,
    password_matches,
    source_allowed,
)
from flashferry.fileserver.transfer_records import (
    EventKind,
    LoginFailure,
    ServerEvent,
    TicketUse,
    TransferProgress,
    TransferState,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.rate_limits import SitePace
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.ticket_accounts import SshOffer, TicketGrant
    from flashferry.images.image import ImageFile
    from flashferry.tcp.sample import Sample
    from flashferry.tcp.syn import SynOptions


_MOST_NOTICES = 200
_ALL_TRANSPORTS: tuple[str, ...] = ()
_SUPERSEDED = "superseded by a new transfer with the same ticket"


class TicketService:
    """All tickets of a server.

    Args:
        settings: How the server runs.
        emit: Takes events for the parent.
        clock: Monotonic time in seconds.
        wall: Wall-clock time in seconds since 1970.
    """

    def __init__(
        self,
        settings: "ServerSettings",
        emit: "Callable[[ServerEvent], None]",
        clock: "Callable[[], float]" = time.monotonic,
        wall: "Callable[[], float]" = time.time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.wall = wall
        self.sessions = 0
        self.pending_logins = PendingLogins()
        self.failures = FailureBook(settings.limits.failed_logins, settings.limits.ban_s)
        self.on_login_failure: Callable[[LoginFailure], None] = lambda _: None
        self.on_try: Callable[[TicketUse], None] = lambda _: None
        self.on_yielded: Callable[[str], None] = lambda _: None
        self.on_site_load: Callable[[SiteLoad], None] = lambda _: None
        self._emit = emit
        self._roster = Roster()
        self._fixed_logins = FixedLogins(settings.limits)
        self._running: dict[str, Account] = {}
        self._waiting: dict[str, WaitingChannel] = {}
        self._site_caps = SiteCaps()
        self._site_links: dict[str, int] = {}
        self._site_paces = SitePaces()
        self._site_traffic = SiteTraffic()
        self._reported_loads: dict[str, SiteLoad] = {}
        self._notices: set[str] = set()

    @property
    def running(self) -> "list[Account]":
        """Accounts with a running transfer."""
        return list(self._running.values())

    @property
    def in_progress(self) -> int:
        """Number of transfers that run, or wait for an earlier one of their ticket to end."""
        return len(self._running.keys() | self._waiting.keys())

    def take_over(self, account: Account, session: Session) -> None:
        """Make a session's transfer the only one of its ticket, and end earlier ones.

        The newest transfer counts: the router itself reconnected after a crash or a lost path, and its old connection
        may hang for another quarter of an hour.
        """
        for other in tuple(account.sessions):
            if other is not session:
                other.yield_to_newer(_SUPERSEDED)
        if account.channel is not None:
            account.channel.yield_to_newer(_SUPERSEDED)

    def await_turn(self, account: Account, channel: WaitingChannel) -> None:
        """Start a transfer as soon as no other one of its ticket runs, in this process or another."""
        self._waiting[account.grant.ticket_id] = channel
        self._let_go_on(account)

    def ended(self, account: Account) -> None:
        """Handle the reported end of a transfer: another process, or a waiting transfer here, may now send."""
        if account.channel is None and account.owes_word:
            account.owes_word = False
            self.on_yielded(account.grant.ticket_id)
        self._let_go_on(account)

    def _let_go_on(self, account: Account) -> None:
        waiting = self._waiting.get(account.grant.ticket_id)
        if waiting is not None and account.may_send:
            del self._waiting[account.grant.ticket_id]
            if account.withdrawn(self.clock()):
                waiting.cut("ticket withdrawn")
            else:
                waiting.go_on()

    def begin(self, account: Account, channel: Channel) -> None:
        """Register the running transfer of a ticket, and set its cap."""
        account.channel = channel
        self._running[account.grant.ticket_id] = account
        self._report_load(self._site(account))
        channel.apply_cap(self.cap_of(account))
        self._share(self._site(account))

    def end(self, account: Account, channel: Channel) -> None:
        """Remove a transfer, unless a new one has replaced it already; others get its share of the cap."""
        if self._waiting.get(account.grant.ticket_id) is channel:
            del self._waiting[account.grant.ticket_id]
        if account.channel is channel:
            account.channel = None
            self._running.pop(account.grant.ticket_id, None)
            self._report_load(self._site(account))
            self._share(self._site(account))
            self.settle(account)

    def add(self, grant: "TicketGrant", *, is_shared: bool = False) -> TransferProgress:
        """Add a ticket; if other processes serve it, too, each attempt waits for `decide_try`."""
        account = Account(grant, self.clock(), is_shared=is_shared)
        self._roster.add(account)
        return account.progress

    def account(self, ticket_id: str) -> Account | None:
        """Return the account of a ticket, open or closed; None if it is not known, or no longer."""
        return self._roster.find(ticket_id)

    def admit(self, fixed: "FixedGrant") -> None:
        """Add a fixed login, or replace the one of the same user."""
        self._fixed_logins.admit(fixed)

    def open(self, fixed: "FixedGrant", image: "ImageFile", **known: Any) -> Account:
        """Open an account for one transfer under a fixed login.

        Args:
            fixed: The login.
            image: What is to be sent.
            known: Fields of its progress: who the client is.
        """
        account = Account(fixed.grant(image), self.clock())
        self._roster.add(account)
        self.change(
            account,
            EventKind.NOTICE,
            "a ticket for one transfer of the fixed login",
            state=TransferState.LOGGED_IN,
            **known,
        )
        return account

    def sweep(self) -> None:
        """Close expired tickets without a running transfer, and drop old login failures."""
        now_s = self.clock()
        for account in self._roster.expired(now_s):
            if account.channel is None and not account.progress.state.is_final:
                why = account.progress.last_error or "no client came"
                self.change(account, EventKind.FAILED, f"ticket expired: {why}", state=TransferState.FAILED)
            self.settle(account)
        self.failures.prune(now_s)
        self._fixed_logins.prune(now_s)

    def settle(self, account: Account) -> None:
        """Close an account, after the end of a session or transfer, if its ticket is no longer valid."""
        self._roster.settle(account, self.clock())

    def forget(self, ticket_id: str) -> None:
        """Drop the account of one transfer of a fixed login: no login uses its ticket."""
        account = self._roster.find(ticket_id)
        if account is not None and not account.sessions and account.channel is None:
            self._roster.forget(ticket_id)

    def revoke(self, ticket_id: str) -> None:
        """Revoke a ticket, and end its transfer and its sessions; a closed ticket is ignored."""
        account = self._roster.find(ticket_id)
        if account is None:
            return
        account.revoked = True
        if account.channel is not None:
            account.channel.cut("ticket revoked")
        elif not account.progress.state.is_final:
            self.change(account, EventKind.FAILED, "ticket revoked", state=TransferState.FAILED)
        for session in tuple(account.sessions):
            session.send_away("ticket revoked")
        self.settle(account)

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's cap, also during its transfer; a closed ticket is ignored."""
        account = self._roster.find(ticket_id)
        if account is None:
            return
        account.cap_bytes_per_s = cap_bytes_per_s
        if account.channel is not None:
            account.channel.apply_cap(self.cap_of(account))

    def set_site_cap(self, site: str, cap: Cap | None) -> None:
        """Set the cap of all transfers of a site together; None removes it."""
        self._site_caps.put(site, cap)
        self._share(site, changed=True)

    def set_elsewhere(self, load: SiteLoad) -> None:
        """Store the load of the server's other processes at a site, whose transfers share its cap."""
        self._site_caps.put_elsewhere(load.site, load.transfers)
        self._site_traffic.put_elsewhere(load.site, load.moved_bytes)
        self._share(load.site)

    def use(self, account: Account) -> None:
        """Count an attempt of a ticket, and report it to the other processes at once.

        The count of acknowledged bytes starts again at 0.
        """
        self.on_try(account.use())
        tries_left = account.tries_left
        self.change(account, EventKind.NOTICE, "image requested", tries_left=tries_left, bytes_acked=0, record=None)

    def use_elsewhere(self, ticket_id: str, tries: int, *, yields: bool = True, is_delivered: bool = False) -> None:
        """Store what the other processes did with a ticket.

        Args:
            ticket_id: The ticket.
            tries: Attempts that they have used together.
            yields: Whether its transfer here, if any, must end in favour of a newer one.
            is_delivered: Whether one of them has delivered the image.
        """
        account = self._roster.find(ticket_id)
        if account is None:
            return
        # Before the report of the transfer that yields, which would show an attempt too many.
        account.use_elsewhere(tries)
        if yields:
            self._yield_to_newer(account)
            account.owes_word = True
        if is_delivered:
            account.deliver_elsewhere()
        self.ended(account)
        self.settle(account)

    def decide_try(self, ticket_id: str, here: int, *, goes_on: bool) -> None:
        """Start or end the waiting attempt of a ticket; a decision about an older attempt is ignored.

        Args:
            ticket_id: The ticket.
            here: Number of the attempt, as in `TicketUse`.
            goes_on: Whether the attempt may send, because no other process does; else it ends.
        """
        account = self._roster.find(ticket_id)
        if account is None:
            return
        if not goes_on and here == account.tries_here:
            self._yield_to_newer(account)
        elif goes_on:
            account.grant_try(here)
            self._let_go_on(account)

    def _yield_to_newer(self, account: Account) -> None:
        for session in tuple(account.sessions):
            session.yield_to_newer(_SUPERSEDED)
        if account.channel is not None:
            account.channel.yield_to_newer(_SUPERSEDED)

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Set the payload rate of a site's link, in bytes per second; None if it is no longer known."""
        self._site_links.pop(site, None)
        if link_bytes_per_s is not None:
            self._site_links[site] = link_bytes_per_s

    def cap_of(self, account: Account) -> Cap | None:
        """Return the present cap of a ticket's transfer: the lowest of profile, ticket and share of the site's cap."""
        site = self._site(account)
        share = self._site_caps.share(site, len(self._at_site(site))) if site in self._site_caps else None
        return least_cap(*self._own_caps(account), share)

    def link_of(self, account: Account) -> int | None:
        """Return the payload rate of a ticket's link, in bytes per second; None if unknown.

        A cap of a site or a ticket counts as a lower bound of its link; the profile's cap is about no particular link.
        """
        site = self._site(account)
        known = account.grant.request.link_bytes_per_s or self._site_links.get(site)
        if known is not None:
            return known
        caps = (self._site_caps.whole(site), given_cap(account.cap_bytes_per_s, ""))
        cap = least_cap(*caps)
        return cap.bytes_per_s if cap is not None else None

    def site_member_of(self, account: Account) -> SiteMember:
        """Count a ticket's transfer among those of its site, until it leaves."""
        return SiteMember(self._site_traffic, self._site(account))

    def pace_of(self, account: Account) -> "SitePace":
        """Return the pace that a ticket's transfer shares with its site; one without a site has it for itself."""
        return self._site_paces.of(self._site(account) or f"ticket {account.grant.ticket_id}", self.clock())

    def connected(self, address: str, syn: "SynOptions | None", transports: tuple[str, ...] = _ALL_TRANSPORTS) -> None:
        """Report a connection; it is assigned to a ticket if exactly one waits for its address and transport."""
        waiting = [
            account
            for account in self._roster.bound
            if account.progress.state is TransferState.WAITING
            and source_allowed(account.grant, address)
            and _is_for(account.grant, transports)
        ]
        if len(waiting) == 1:
            self.change(
                waiting[0],
                EventKind.CONNECTED,
                "client connected",
                state=TransferState.CONNECTED,
                peer_address=address,
                control_syn=syn,
            )

    def login(
        self, username: str, password: str, address: str, transports: tuple[str, ...] = _ALL_TRANSPORTS
    ) -> "Account | FixedGrant | Refusal":
        """Check a login; return the account or fixed login, or the reason of the refusal, which is not sent.

        Args:
            username: User name that the client sent.
            password: Password that it sent.
            address: Its address.
            transports: Transports of the listener that it used; empty for all.
        """
        fixed = self._fixed_logins.find(username)
        if fixed is not None:
            return self._fixed_login(fixed, password, address)
        account = self._roster.of_user(username)
        matches = password_matches(account.grant if account is not None else None, password)
        refusal = self._refusal(account, matches, address, transports)
        if account is not None and refusal is None:
            self.failures.forgive(address)
            return account
        assert refusal is not None
        self._note_refusal(account, refusal, address, username)
        return refusal

    def _fixed_login(self, fixed: "FixedGrant", password: str, address: str) -> "FixedGrant | Refusal":
        refusal = self._fixed_logins.refusal(fixed, password, address, self.clock())
        if refusal is None:
            self.failures.forgive(address)
            return fixed
        self._note_refusal(None, refusal, address, fixed.username, fixed.site)
        return refusal

    def locked_out(self, address: str) -> bool:
        """Return whether an address failed too often; one that a live ticket names never is.

        Otherwise a stranger behind the same NAT could lock routers out.
        """
        return self.failures.locked_out(address, self.clock()) and not self.is_named(address)

    def is_named(self, address: str) -> bool:
        """Return whether a ticket that is still good names an address."""
        now_s = self.clock()
        return any(
            names_source(account.grant.request.source_addresses, address)
            for account in self._roster.bound
            if account.refusal(now_s) is None
        )

    def ssh_offers(self, address: str) -> "tuple[SshOffer, ...]":
        """Return the SSH offers of the tickets that are valid for an address, the newest last."""
        now_s = self.clock()
        return tuple(
            account.grant.request.ssh
            for account in self._roster.bound
            if account.grant.request.ssh is not None
            and names_source(account.grant.request.source_addresses, address)
            and account.refusal(now_s) is None
        )

    def note_trouble(self, address: str, text: str, transports: tuple[str, ...]) -> None:
        """Report why a client could not log in; it is assigned to a ticket if exactly one is possible."""
        meant = [
            account
            for account in self._roster.bound
            if account.progress.state in (TransferState.WAITING, TransferState.CONNECTED)
            and source_allowed(account.grant, address)
            and _is_for(account.grant, transports)
        ]
        if len(meant) == 1:
            self.change(meant[0], EventKind.NOTICE, text, last_error=text)
        else:
            self.report(EventKind.NOTICE, text, address)

    def change(
        self, account: Account, kind: EventKind, text: str, *, sample: "Sample | None" = None, **changes: Any
    ) -> None:
        """Change the progress of a ticket, and report it; a delivery is final."""
        if account.progress.state is TransferState.DELIVERED and changes.get("state") is TransferState.FAILED:
            kind, changes = EventKind.NOTICE, {}
        if kind in (EventKind.FAILED, EventKind.LOGIN_FAILED):
            changes = {"last_error": text, **changes}
        progress = replace(account.progress, sequence=account.progress.sequence + 1, **changes)
        # The record is the parent's to keep: with its samples it is larger than all the rest of an account.
        account.progress = progress if progress.record is None else replace(progress, record=None)
        self._emit(
            ServerEvent(
                kind=kind,
                at=self.wall(),
                text=text,
                peer_address=progress.peer_address,
                progress=progress,
                sample=sample,
            )
        )

    def report(self, kind: EventKind, text: str, address: str) -> None:
        """Report an event about a client that belongs to no ticket."""
        self._emit(ServerEvent(kind=kind, at=self.wall(), text=text, peer_address=address))

    def notice(self, text: str) -> None:
        """Report something about the server as a whole to the parent, each text once; the last one allowed says so."""
        if text in self._notices or len(self._notices) >= _MOST_NOTICES:
            return
        self._notices.add(text)
        if len(self._notices) == _MOST_NOTICES:
            text = f"{text}; it was the last of {_MOST_NOTICES} different notices, further ones are left out"
        self._emit(ServerEvent(kind=EventKind.NOTICE, at=self.wall(), text=text))

    def _site(self, account: Account) -> str:
        """Return the site a ticket's transfer counts for: the one it names, or else its client's network."""
        address = account.progress.peer_address
        if account.grant.request.site or not self.settings.sites_by_network or address is None:
            return account.grant.request.site
        return network_of(address)

    def report_loads(self) -> None:
        """Report what the transfers of each site have moved since the last report."""
        for site in {self._site(account) for account in self._running.values()}:
            self._report_load(site)

    def _report_load(self, site: str) -> None:
        if not site:
            return
        load = SiteLoad(site=site, transfers=len(self._at_site(site)), moved_bytes=self._site_traffic.moved_bytes(site))
        if load != self._reported_loads.get(site):
            self.on_site_load(load)
        self._reported_loads.pop(site, None)
        if load.transfers:
            self._reported_loads[site] = load

    def _at_site(self, site: str) -> "list[Account]":
        return [account for account in self._running.values() if self._site(account) == site] if site else []

    def _share(self, site: str, *, changed: bool = False) -> None:
        """Divide a site's cap, if any, among its running transfers."""
        if site not in self._site_caps and not changed:
            return
        members = self._at_site(site)
        share = self._site_caps.share(site, len(members))
        for account in members:
            if account.channel is not None:
                account.channel.apply_cap(least_cap(*self._own_caps(account), share))

    def _own_caps(self, account: Account) -> tuple[Cap | None, Cap | None]:
        profile = given_cap(self.settings.profile.cap_bytes_per_s, "the server's profile")
        return profile, given_cap(account.cap_bytes_per_s, "the ticket")

    def _refusal(
        self, account: Account | None, matches: bool, address: str, transports: tuple[str, ...]
    ) -> Refusal | None:
        if account is None:
            return Refusal.UNKNOWN_USER
        if not matches:
            return Refusal.WRONG_PASSWORD
        if not source_allowed(account.grant, address):
            return Refusal.WRONG_SOURCE
        if not _is_for(account.grant, transports):
            return Refusal.WRONG_TRANSPORT
        return account.refusal(self.clock())

    def _note_refusal(
        self, account: Account | None, refusal: Refusal, address: str, username: str, site: str = ""
    ) -> None:
        self.failures.note(address, self.clock())
        if account is None:
            who = {"username_masked": mask(username), "site": site}
            self.on_login_failure(LoginFailure(at=self.wall(), peer_address=address, reason=refusal.value, **who))
            return
        text = f"login refused for {address}: {refusal.value}"
        if refusal is Refusal.WRONG_SOURCE:
            text += f"; the ticket is bound to {', '.join(account.grant.request.source_addresses)}"
        if refusal is Refusal.WRONG_TRANSPORT:
            text += f", {' or '.join(account.grant.request.transports)}"
        self.change(account, EventKind.LOGIN_FAILED, text)


def _is_for(grant: "TicketGrant", transports: tuple[str, ...]) -> bool:
    return not transports or grant.request.is_for(transports)


def mask(text: str) -> str:
    """Return the first letter of a text and stars, so that a mistyped name is recognised and no secret is shown."""
    return f"{text[:1] if text[:1].isprintable() else '?'}***"
