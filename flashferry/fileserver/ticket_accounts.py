"""The tickets of a server: those that are good, and for a while those that no longer are.

Facts
-----

- A router tries again with a ticket that is used up, and an operator wants to read that, not "unknown user". So a
  closed ticket stays on the books for an hour, but only the latest two hundred do: a server runs for months.
- Time comes in as a number: no clock in here.
"""

from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from flashferry.fileserver.records import TicketUse, TransferProgress, TransferState
from flashferry.fileserver.tickets import Refusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from flashferry.fileserver.rate_limits import Cap
    from flashferry.fileserver.tickets import TicketGrant


class Channel(Protocol):
    """A running transfer, as the ticket service needs to see it."""

    def apply_cap(self, cap: "Cap | None") -> None:
        """Put a pacing cap in force, now."""

    def cut(self, reason: str) -> None:
        """End the transfer, with a reason for its record."""

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer for a newer one; one that has handed its last byte over may come to its own end first."""


class WaitingChannel(Channel, Protocol):
    """A transfer that begins when nothing else is sent with its ticket."""

    def go_on(self) -> None:
        """Begin."""


class Session(Protocol):
    """A control connection that has logged in with the ticket, as the ticket service needs to see it."""

    def yield_to_newer(self, reason: str) -> None:
        """End its transfer, whether it runs or waits for its data connection; the session stays."""

    def send_away(self, reason: str) -> None:
        """End its transfer and the session."""


class Account:
    """One ticket in the serving process and what has become of it.

    Attributes:
        channel: Its transfer that runs.
        owes_word: Whether the others wait to hear that nothing is sent here with it any more.
    """

    def __init__(self, grant: "TicketGrant", now_s: float, *, is_shared: bool = False) -> None:
        self.grant = grant
        self._is_shared = is_shared
        self._granted_here = 0
        self.owes_word = False
        self.expires_s = now_s + grant.request.lifetime_s
        self.cap_bytes_per_s = grant.request.cap_bytes_per_s
        self.revoked = False
        self.channel: Channel | None = None
        self.sessions: set[Session] = set()
        self._tries_here = self._tries_elsewhere = 0
        self.progress = TransferProgress(
            ticket_id=grant.ticket_id,
            image_name=grant.image.name,
            state=TransferState.WAITING,
            sequence=0,
            size_bytes=grant.image.size_bytes,
            tries_left=grant.request.tries,
            site=grant.request.site,
        )

    def refusal(self, now_s: float) -> Refusal | None:
        """Return why this ticket is no longer good; None if it is."""
        if self.revoked:
            return Refusal.REVOKED
        if self.progress.state is TransferState.DELIVERED or self.progress.tries_left < 1:
            return Refusal.USED_UP
        if now_s >= self.expires_s:
            return Refusal.EXPIRED
        return None

    def use(self) -> TicketUse:
        """Use an attempt here; the caller reports what is left."""
        self._tries_here += 1
        return TicketUse(ticket_id=self.grant.ticket_id, here=self._tries_here, elsewhere=self._tries_elsewhere)

    @property
    def may_send(self) -> bool:
        """Whether nothing else is sent with the ticket, here or by another process."""
        return self.channel is None and (not self._is_shared or self._granted_here == self._tries_here)

    @property
    def tries_here(self) -> int:
        """How many tries this process has used."""
        return self._tries_here

    def grant_try(self, here: int) -> None:
        """Note that a try of here, by its number, may send."""
        self._granted_here = here

    @property
    def tries_left(self) -> int:
        """How many tries the processes have left of the ticket together, as far as this one knows."""
        return max(0, self.grant.request.tries - self._tries_here - self._tries_elsewhere)

    def use_elsewhere(self, tries: int) -> None:
        """Note how many tries the other processes have used of the ticket; they report it."""
        self._tries_elsewhere = tries
        self.progress = replace(self.progress, tries_left=self.tries_left)

    def deliver_elsewhere(self) -> None:
        """Note that another process has delivered the image; that one reports it."""
        self.progress = replace(self.progress, state=TransferState.DELIVERED)

    def withdrawn(self, now_s: float) -> bool:
        """Return whether a transfer that was granted may no longer begin: its data connection came too late."""
        return self.revoked or self.progress.state is TransferState.DELIVERED or now_s >= self.expires_s


MOST_CLOSED = 200
"""So many closed tickets are still recognised when a client comes with one ..."""

CLOSED_KEPT_S = 3600.0
"""... for so long."""


class Roster:
    """Accounts by ticket, by user and by whether they are bound to addresses."""

    def __init__(self) -> None:
        self._open: dict[str, Account] = {}
        self._closed: OrderedDict[str, tuple[Account, float]] = OrderedDict()
        self._by_username: dict[str, Account] = {}
        # Those bound to addresses: looked through for every connection, so kept apart from the many that may not be.
        self._bound: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._closed)

    @property
    def bound(self) -> "Collection[Account]":
        """Open accounts whose tickets name addresses."""
        return self._bound.values()

    def add(self, account: "Account") -> None:
        """Take an account in; one without a user, of a fixed login, cannot be logged in with."""
        grant = account.grant
        self._open[grant.ticket_id] = account
        if grant.username:
            self._by_username[grant.username] = account
            if grant.request.source_addresses:
                self._bound[grant.ticket_id] = account

    def find(self, ticket_id: str) -> "Account | None":
        """Return the account of a ticket, open or closed; None if it is not known, or no longer."""
        account = self._open.get(ticket_id)
        return account or self._closed.get(ticket_id, (None, 0.0))[0]

    def of_user(self, username: str) -> "Account | None":
        """Return the account of a user, open or closed."""
        return self._by_username.get(username)

    def settle(self, account: "Account", now_s: float) -> None:
        """Close an account whose end was reported and whose ticket is no longer good, once no session uses it."""
        ticket_id = account.grant.ticket_id
        in_use = bool(account.sessions) or account.channel is not None
        over = account.progress.state.is_final and account.refusal(now_s) is not None
        if in_use or not over or self._open.pop(ticket_id, None) is None:
            return
        self._bound.pop(ticket_id, None)
        self._closed[ticket_id] = (account, now_s)
        if len(self._closed) > MOST_CLOSED:
            self.forget(next(iter(self._closed)))

    def forget(self, ticket_id: str) -> None:
        """Drop an account."""
        account = self.find(ticket_id)
        if account is not None:
            self._open.pop(ticket_id, None)
            self._closed.pop(ticket_id, None)
            self._bound.pop(ticket_id, None)
            self._by_username.pop(account.grant.username, None)

    def expired(self, now_s: float) -> "list[Account]":
        """Return the open accounts whose time is over, and drop those closed long ago."""
        while self._closed and now_s - next(iter(self._closed.values()))[1] >= CLOSED_KEPT_S:
            self.forget(next(iter(self._closed)))
        return [account for account in self._open.values() if now_s >= account.expires_s]
