"""Tickets: credentials, the attempts they allow, and the accounts of a serving process."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import string
from base64 import b64encode
from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.redaction import keep_secret
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.transfer_records import TicketUse, TransferProgress, TransferState
from flashferry.images.image import ImageFile

if TYPE_CHECKING:
    from collections.abc import Collection

    from flashferry.fileserver.rate_limits import Cap

_ALPHABET = string.ascii_letters + string.digits

_USERNAME_LENGTH = 8

_PASSWORD_LENGTH = 16

_PROFILES = ("modern", "legacy")


class SshOffer(Struct, frozen=True, kw_only=True):
    """SSH algorithms offered to the addresses of a ticket while the ticket is valid.

    An SSH client sends its user name after the algorithms are negotiated, so the address decides what is offered. Among
    the offered algorithms the client's order of preference counts (RFC 4253 7.1).

    Attributes:
        profile: `modern`, or `legacy`, which adds SHA-1, `ssh-rsa` and CBC for old IOS.
        encryption: Ciphers by their names in SSH; if any, these alone are offered.
        mac: Message authentication codes by their names in SSH; if any, these alone are offered.
    """

    profile: str = "modern"
    encryption: tuple[str, ...] = ()
    mac: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.profile not in _PROFILES:
            raise SettingsInvalid(
                f"ssh profile: expected {' or '.join(_PROFILES)}, found {self.profile!r}",
                hint="Take 'legacy' for devices that know SHA-1 and CBC alone, else 'modern'",
            )


class TicketRequest(Struct, frozen=True, kw_only=True):
    """What a ticket allows.

    Attributes:
        image_name: The one image it is valid for.
        source_addresses: Addresses or networks the client must come from; empty allows any.
        lifetime_s: Seconds until it expires; a transfer that runs then may finish.
        tries: How many transfers may start until one is delivered.
        cap_bytes_per_s: Pacing cap for its transfers; None leaves it to profile and site.
        site: Transfers of the same site share the site's cap; empty for none.
        link_bytes_per_s: Payload rate of the client's link, configured or learned; used for verdicts, and limits no
            transfer. None if unknown; then a cap counts as a lower bound of it.
        transports: Names of the transports it is valid for; empty for any.
        ssh: SSH algorithms offered to its addresses; None for the default.
        sample_interval_s: Interval of TCP_INFO readings of its transfers, 0.05 to 60; None takes the server's.
    """

    image_name: str
    source_addresses: tuple[str, ...] = ()
    lifetime_s: float = 3600.0
    tries: int = 3
    cap_bytes_per_s: int | None = None
    site: str = ""
    link_bytes_per_s: int | None = None
    transports: tuple[str, ...] = ()
    ssh: SshOffer | None = None
    sample_interval_s: float | None = None

    def __post_init__(self) -> None:
        if self.lifetime_s <= 0 or self.tries < 1:
            raise SettingsInvalid(
                f"ticket: expected a lifetime above 0 s and at least 1 try, found {self.lifetime_s} and {self.tries}",
                hint="Give a ticket time for its copy, and a try or more",
            )
        if self.cap_bytes_per_s is not None and self.cap_bytes_per_s < 1000:
            raise SettingsInvalid(
                f"ticket: expected a cap of at least 1000 bytes/s, found {self.cap_bytes_per_s}",
                hint="Give a higher cap, or none",
            )
        if self.link_bytes_per_s is not None and self.link_bytes_per_s <= 0:
            raise SettingsInvalid(
                f"ticket: expected a link's rate above 0 bytes/s, found {self.link_bytes_per_s}",
                hint="Give the link's rate, or none where it is not known",
            )
        if self.sample_interval_s is not None and not 0.05 <= self.sample_interval_s <= 60:
            raise SettingsInvalid(
                f"ticket: expected readings every 0.05 to 60 s, found {self.sample_interval_s}",
                hint="Give a time in between, or none",
            )
        checked_sources("ticket", self.source_addresses)
        if self.ssh is not None and not self.source_addresses:
            raise SettingsInvalid(
                "ticket: expected the addresses that are to be offered something by SSH, found none",
                hint="Give the ticket the device's source addresses: no other client is offered the same",
            )

    def is_for(self, transports: tuple[str, ...]) -> bool:
        """Return whether the ticket is valid for at least one of some transports."""
        return not self.transports or not set(self.transports).isdisjoint(transports)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A ticket with its password in clear, as returned to the run that requested it."""

    ticket_id: str
    username: str
    password: str = field(repr=False)
    image_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketGrant:
    """A ticket without its password, as sent to the serving processes."""

    ticket_id: str
    username: str = field(repr=False)
    salt_hex: str = field(repr=False)
    password_hash_hex: str = field(repr=False)
    image: ImageFile
    request: TicketRequest


class Sealed(Protocol):
    """Salt and hash with which a password is compared."""

    @property
    def salt_hex(self) -> str:
        """The salt."""

    @property
    def password_hash_hex(self) -> str:
        """The salted hash."""


class Refusal(StrEnum):
    """Reason of a refused login; never sent to the client, which gets the same reply for all."""

    UNKNOWN_USER = "unknown user"
    WRONG_PASSWORD = "wrong password"  # noqa: S105 - a reason, not a password
    WRONG_SOURCE = "wrong source address"
    WRONG_TRANSPORT = "the ticket is for another transport"
    EXPIRED = "ticket expired"
    USED_UP = "ticket used up"
    REVOKED = "ticket revoked"
    LOCKED_OUT = "too many failed logins"


def issue(request: TicketRequest, image: ImageFile) -> tuple[Ticket, TicketGrant]:
    """Make a ticket, and its form for the serving process, without the password."""
    ticket = Ticket(
        ticket_id=secrets.token_hex(8),
        username=_random_text(_USERNAME_LENGTH),
        password=_random_text(_PASSWORD_LENGTH),
        image_name=image.name,
    )
    # Registered before it is used, so that it is masked in the output of a device that quotes it.
    keep_secret(ticket.username, ticket.password, is_random=True)
    # Also in the base64 form in which a protocol may send both, and which a device's log may show.
    keep_secret(b64encode(f"{ticket.username}:{ticket.password}".encode()).decode(), is_random=True)
    salt_hex, password_hash_hex = seal(ticket.password)
    grant = TicketGrant(
        ticket_id=ticket.ticket_id,
        username=ticket.username,
        salt_hex=salt_hex,
        password_hash_hex=password_hash_hex,
        image=image,
        request=request,
    )
    return ticket, grant


def seal(password: str) -> tuple[str, str]:
    """Return a new salt and the salted hash of a password, both as hex."""
    salt = secrets.token_bytes(16)
    return salt.hex(), _hash(salt, password).hex()


def password_matches(grant: Sealed | None, password: str) -> bool:
    """Compare a password with a grant's in constant time; without a grant do the same work, and return False."""
    salt = bytes.fromhex(grant.salt_hex) if grant is not None else bytes(16)
    expected = bytes.fromhex(grant.password_hash_hex) if grant is not None else bytes(32)
    equal = hmac.compare_digest(_hash(salt, password), expected)
    return equal and grant is not None


def source_allowed(grant: TicketGrant, address: str) -> bool:
    """Return whether a ticket may be used from an address; IPv4 mapped into IPv6 counts as IPv4."""
    sources = grant.request.source_addresses
    return not sources or names_source(sources, address)


def checked_sources(what: str, sources: tuple[str, ...]) -> None:
    """Check that all texts are addresses or networks.

    Raises:
        SettingsInvalid: One is neither; `what` says where.
    """
    for source in sources:
        try:
            ipaddress.ip_network(source, strict=False)
        except ValueError:
            raise SettingsInvalid(
                f"{what}: expected an IP address or network, found {source!r}",
                hint="Write it as 192.0.2.1 or 192.0.2.0/24",
            ) from None


def names_source(sources: tuple[str, ...], address: str) -> bool:
    """Return whether an address is among addresses and networks."""
    client = plain_address(address)
    return any(client in network for network in _networks(sources))


@lru_cache(maxsize=256)
def _networks(sources: tuple[str, ...]) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    # Parsed once: every connection is held against every waiting ticket.
    return tuple(ipaddress.ip_network(source, strict=False) for source in sources)


@lru_cache(maxsize=256)
def plain_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return an address without its zone, and IPv4 mapped into IPv6 as IPv4."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped
    return parsed


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _hash(salt: bytes, password: str) -> bytes:
    return hashlib.sha256(salt + password.encode("utf-8", "surrogateescape")).digest()


class Channel(Protocol):
    """A running transfer as the ticket service uses it, to set its cap or to end it."""

    def apply_cap(self, cap: Cap | None) -> None:
        """Set the pacing cap at once."""

    def cut(self, reason: str) -> None:
        """End the transfer, with a reason for its record."""

    def yield_to_newer(self, reason: str) -> None:
        """End the transfer in favour of a newer one; if its last byte was written, it may complete first."""


class WaitingChannel(Channel, Protocol):
    """A transfer that starts when no other one of its ticket is running."""

    def go_on(self) -> None:
        """Start the transfer."""


class Session(Protocol):
    """A logged-in session as the ticket service uses it, to end its transfer or the session itself."""

    def yield_to_newer(self, reason: str) -> None:
        """End its transfer, whether it runs or waits for its data connection; the session stays."""

    def send_away(self, reason: str) -> None:
        """End its transfer and the session."""


class Account:
    """State of one ticket in the serving process.

    Attributes:
        channel: Its running transfer, or None.
        owes_word: Whether the other processes wait for the report that this one has stopped sending with the ticket.
    """

    def __init__(self, grant: TicketGrant, now_s: float, *, is_shared: bool = False) -> None:
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
        """Return why this ticket is no longer valid; None if it is."""
        if self.revoked:
            return Refusal.REVOKED
        if self.progress.state is TransferState.DELIVERED or self.progress.tries_left < 1:
            return Refusal.USED_UP
        if now_s >= self.expires_s:
            return Refusal.EXPIRED
        return None

    def use(self) -> TicketUse:
        """Count an attempt in this process; the caller reports it."""
        self._tries_here += 1
        return TicketUse(ticket_id=self.grant.ticket_id, here=self._tries_here, elsewhere=self._tries_elsewhere)

    @property
    def may_send(self) -> bool:
        """Whether no transfer of the ticket runs, in this process or another one."""
        return self.channel is None and (not self._is_shared or self._granted_here == self._tries_here)

    @property
    def tries_here(self) -> int:
        """How many tries this process has used."""
        return self._tries_here

    def grant_try(self, here: int) -> None:
        """Allow an attempt of this process, by its number, to send."""
        self._granted_here = here

    @property
    def tries_left(self) -> int:
        """Attempts left of the ticket in all processes together, as far as this one knows."""
        return max(0, self.grant.request.tries - self._tries_here - self._tries_elsewhere)

    def use_elsewhere(self, tries: int) -> None:
        """Record the number of attempts used in the other processes."""
        self._tries_elsewhere = tries
        self.progress = replace(self.progress, tries_left=self.tries_left)

    def deliver_elsewhere(self) -> None:
        """Record that another process has delivered the image, which that one reports."""
        self.progress = replace(self.progress, state=TransferState.DELIVERED)

    def withdrawn(self, now_s: float) -> bool:
        """Return whether a granted transfer may no longer start, because the ticket ended meanwhile."""
        return self.revoked or self.progress.state is TransferState.DELIVERED or now_s >= self.expires_s


MOST_CLOSED = 200
"""Number of closed tickets that are still recognised at login."""

CLOSED_KEPT_S = 3600.0
"""Time for which they are."""


class Roster:
    """Index of accounts by ticket and by user, and of those bound to addresses."""

    def __init__(self) -> None:
        self._open: dict[str, Account] = {}
        self._closed: OrderedDict[str, tuple[Account, float]] = OrderedDict()
        self._by_username: dict[str, Account] = {}
        # Accounts bound to addresses, which are searched for every connection.
        self._bound: dict[str, Account] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._closed)

    @property
    def bound(self) -> Collection[Account]:
        """Open accounts whose tickets name addresses."""
        return self._bound.values()

    def add(self, account: Account) -> None:
        """Add an account; one without a user name, of a fixed login, cannot be used to log in."""
        grant = account.grant
        self._open[grant.ticket_id] = account
        if grant.username:
            self._by_username[grant.username] = account
            if grant.request.source_addresses:
                self._bound[grant.ticket_id] = account

    def find(self, ticket_id: str) -> Account | None:
        """Return the account of a ticket, open or closed; None if it is not known, or no longer."""
        account = self._open.get(ticket_id)
        return account or self._closed.get(ticket_id, (None, 0.0))[0]

    def of_user(self, username: str) -> Account | None:
        """Return the account of a user, open or closed."""
        return self._by_username.get(username)

    def settle(self, account: Account, now_s: float) -> None:
        """Close an account whose ticket is no longer valid, after its end was reported and no session uses it."""
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

    def expired(self, now_s: float) -> list[Account]:
        """Return the open accounts that have expired, and drop those closed long ago."""
        while self._closed and now_s - next(iter(self._closed.values()))[1] >= CLOSED_KEPT_S:
            self.forget(next(iter(self._closed)))
        return [account for account in self._open.values() if now_s >= account.expires_s]
