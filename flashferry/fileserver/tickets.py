"""One-time credentials: who may fetch which image, from where, until when and how often.

Facts
-----

- An IOS command line ends at 253 characters, and a URL cannot carry every character, so user and password are
  letters and digits, 8 and 16 of them: 47 and 95 bits.
- With 95 random bits a plain salted hash is enough; a slow hash would only let strangers burn our processor.
- The process that serves holds the hash alone. Comparison takes the same time for every wrong password and for an
  unknown user.
"""

import hashlib
import hmac
import ipaddress
import secrets
import string
from base64 import b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Protocol

from flashferry.core.outside import keep_secret
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.images.image import ImageFile

_ALPHABET = string.ascii_letters + string.digits
_USERNAME_LENGTH = 8
_PASSWORD_LENGTH = 16


_PROFILES = ("modern", "legacy")


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOffer:
    """What is offered by SSH to the addresses of a ticket, for as long as the ticket is good.

    An SSH client names no user before the algorithms are agreed on, so it is the address that decides; and it is the
    client's order that counts among what is offered (RFC 4253 7.1).

    Attributes:
        profile: `modern`, or `legacy`: with SHA-1, `ssh-rsa` and CBC besides, which old IOS needs.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketRequest:
    """What a ticket shall allow.

    Attributes:
        image_name: The one image it is good for.
        source_addresses: Addresses or networks the client must come from; empty allows any.
        lifetime_s: Seconds until it expires; a transfer that runs then may finish.
        tries: How many transfers may start until one is delivered.
        cap_bytes_per_s: Pacing cap for its transfers; None leaves it to profile and site.
        site: Transfers of the same site share the site's cap; empty for none.
        link_bytes_per_s: Payload per second that the client's link is known to carry, stated or learned. It holds no
            transfer back: verdicts are held against it. None where not known; then a cap counts as the least of it.
        transports: The transports it is good for, by their names; empty for any.
        ssh: What is offered to its addresses by SSH; None for what everybody is offered.
        sample_interval_s: How often TCP_INFO is read of its transfers, 0.05 to 60; None: as of all others.
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
        """Return whether it is good for one of some transports at least."""
        return not self.transports or not set(self.transports).isdisjoint(transports)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A ticket as given to the one who asked for it; the only place where the password is in clear."""

    ticket_id: str
    username: str
    password: str = field(repr=False)
    image_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketGrant:
    """A ticket as the serving process knows it: without the password."""

    ticket_id: str
    username: str = field(repr=False)
    salt_hex: str = field(repr=False)
    password_hash_hex: str = field(repr=False)
    image: ImageFile
    request: TicketRequest


class Sealed(Protocol):
    """What a password is compared with."""

    @property
    def salt_hex(self) -> str:
        """The salt."""

    @property
    def password_hash_hex(self) -> str:
        """The salted hash."""


class Refusal(StrEnum):
    """Why a login was refused; never sent to the client, which gets the same text for all."""

    UNKNOWN_USER = "unknown user"
    WRONG_PASSWORD = "wrong password"  # noqa: S105 - a reason, not a password
    WRONG_SOURCE = "wrong source address"
    WRONG_TRANSPORT = "the ticket is for another transport"
    EXPIRED = "ticket expired"
    USED_UP = "ticket used up"
    REVOKED = "ticket revoked"
    LOCKED_OUT = "too many failed logins"


def issue(request: TicketRequest, image: ImageFile) -> tuple[Ticket, TicketGrant]:
    """Make a ticket and what the serving process may know of it."""
    ticket = Ticket(
        ticket_id=secrets.token_hex(8),
        username=_random_text(_USERNAME_LENGTH),
        password=_random_text(_PASSWORD_LENGTH),
        image_name=image.name,
    )
    # Before anybody has it: a device that quotes it brings it to no output.
    keep_secret(ticket.username, ticket.password, is_random=True)
    # As a protocol may carry both, in base 64: a device's own log of what it sends has it like that.
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
    """Compare a password with a grant's in constant time; without a grant the same work is done for nothing."""
    salt = bytes.fromhex(grant.salt_hex) if grant is not None else bytes(16)
    expected = bytes.fromhex(grant.password_hash_hex) if grant is not None else bytes(32)
    equal = hmac.compare_digest(_hash(salt, password), expected)
    return equal and grant is not None


def source_allowed(grant: TicketGrant, address: str) -> bool:
    """Return whether a ticket may be used from an address; IPv4 mapped into IPv6 counts as IPv4."""
    sources = grant.request.source_addresses
    return not sources or names_source(sources, address)


def checked_sources(what: str, sources: tuple[str, ...]) -> None:
    """Refuse what is no address and no network.

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
