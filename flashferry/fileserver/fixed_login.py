"""Fixed logins, and the limits on failed and pending logins."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from flashferry.core.redaction import keep_secret
from flashferry.fileserver.errors import SettingsInvalid
from flashferry.fileserver.ticket_accounts import (
    Refusal,
    TicketGrant,
    TicketRequest,
    checked_sources,
    names_source,
    password_matches,
    seal,
)
from flashferry.images.image import ImageFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.settings import Limits

_IN_A_URL = re.compile(r"[A-Za-z0-9._~-]+")

_LEAST_PASSWORD = 8

_MOST_LETTERS = 64

_LIFETIME_S = 7 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLogin:
    """Fixed credentials as the operator gives them.

    Attributes:
        username: 1 to 64 letters, digits and `._~-`, which a URL carries unchanged (RFC 3986 2.3).
        password: 8 to 64 of the same.
        source_addresses: Addresses or networks clients must come from; empty allows any.
        site: Transfers of the same site share the site's cap; empty for none.
        link_bytes_per_s: Payload rate of the clients' link, see `TicketRequest`; None: unknown.
    """

    username: str
    password: str = field(repr=False)
    source_addresses: tuple[str, ...] = ()
    site: str = ""
    link_bytes_per_s: int | None = None

    def __post_init__(self) -> None:
        checked_sources("fixed login", self.source_addresses)
        for what, text, least in (("user", self.username, 1), ("password", self.password, _LEAST_PASSWORD)):
            if not (least <= len(text) <= _MOST_LETTERS and _IN_A_URL.fullmatch(text)):
                # The text itself is not shown, because it may be a password in the wrong place.
                raise SettingsInvalid(
                    f"fixed login: expected a {what} of {least} to {_MOST_LETTERS} letters, digits and ._~-, "
                    f"which a URL carries unchanged, found {len(text)} characters",
                    hint="Take another, without blanks, umlauts and characters with a meaning in URLs",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedGrant:
    """Fixed credentials without the password, as sent to the serving processes."""

    username: str = field(repr=False)
    salt_hex: str = field(repr=False)
    password_hash_hex: str = field(repr=False)
    images: tuple[ImageFile, ...]
    source_addresses: tuple[str, ...]
    site: str
    link_bytes_per_s: int | None = None

    def image(self, name: str) -> ImageFile | None:
        """Return an image by its exact name; None if there is no such image."""
        return next((image for image in self.images if image.name == name), None)

    def grant(self, image: ImageFile) -> TicketGrant:
        """Return a ticket for one transfer of an image, which no login uses."""
        return TicketGrant(
            ticket_id=secrets.token_hex(8),
            username="",
            salt_hex="",
            password_hash_hex="",
            image=image,
            request=TicketRequest(
                image_name=image.name,
                source_addresses=self.source_addresses,
                lifetime_s=_LIFETIME_S,
                tries=1,
                site=self.site,
                link_bytes_per_s=self.link_bytes_per_s,
            ),
        )


def admit(login: FixedLogin, images: tuple[ImageFile, ...]) -> FixedGrant:
    """Return fixed credentials in the form for the serving process, without the password."""
    keep_secret(login.password)
    salt_hex, password_hash_hex = seal(login.password)
    return FixedGrant(
        username=login.username,
        salt_hex=salt_hex,
        password_hash_hex=password_hash_hex,
        images=images,
        source_addresses=login.source_addresses,
        site=login.site,
        link_bytes_per_s=login.link_bytes_per_s,
    )


_MOST_ADDRESSES = 10_000


class FailureBook:
    """Counts failed logins of addresses and locks an address out after too many.

    Args:
        failures: So many within `ban_s` lock an address out.
        ban_s: How long, in seconds, counted from the last failure.
    """

    def __init__(self, failures: int, ban_s: float) -> None:
        self._failures = failures
        self._ban_s = ban_s
        # Address to (failures, time of the last one); oldest first, so that a flood of addresses cannot fill memory.
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, address: str, now_s: float) -> bool:
        """Count a failure and return whether the address is locked out now."""
        count, _ = self._recent(address, now_s)
        self._seen[address] = (count + 1, now_s)
        self._seen.move_to_end(address)
        self.prune(now_s)
        while len(self._seen) > _MOST_ADDRESSES:
            self._seen.popitem(last=False)
        return self.locked_out(address, now_s)

    def prune(self, now_s: float) -> None:
        """Forget the failures that no longer count."""
        while self._seen and now_s - next(iter(self._seen.values()))[1] > self._ban_s:
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        return len(self._seen)

    def forgive(self, address: str) -> None:
        """Forget an address, after a login that succeeded."""
        self._seen.pop(address, None)

    def locked_out(self, address: str, now_s: float) -> bool:
        """Return whether an address is locked out."""
        return self._recent(address, now_s)[0] >= self._failures

    def _recent(self, address: str, now_s: float) -> tuple[int, float]:
        count, last_s = self._seen.get(address, (0, now_s))
        return (0, now_s) if now_s - last_s > self._ban_s else (count, last_s)


class CommandBudget:
    """How many commands a session may still send: a bucket that fills at a steady rate.

    Args:
        burst: Commands it holds when full, as it is at the start.
        per_s: Commands it gains per second.
        now_s: The present time in seconds.
    """

    __slots__ = ("_burst", "_left", "_per_s", "_then_s")

    def __init__(self, burst: int, per_s: float, now_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._then_s = now_s

    def take(self, now_s: float) -> bool:
        """Use one command of the budget; return False if it is exhausted."""
        self._left = min(float(self._burst), self._left + (now_s - self._then_s) * self._per_s)
        self._then_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class FixedLogins:
    """The fixed logins of a server, and their failed logins by address.

    These failures are counted separately: an address that a ticket names is never banned by the other count, and a
    ticket's login resets it, which is right for 95 random bits but not for a password that a person chose.
    """

    def __init__(self, limits: Limits) -> None:
        self._guesses = FailureBook(limits.failed_logins, limits.ban_s)
        self._logins: dict[str, FixedGrant] = {}

    def admit(self, fixed: FixedGrant) -> None:
        """Add a fixed login, or replace the one of the same user."""
        self._logins[fixed.username] = fixed

    def find(self, username: str) -> FixedGrant | None:
        """Return the fixed login of a user."""
        return self._logins.get(username)

    def prune(self, now_s: float) -> None:
        """Forget the guesses that no longer count."""
        self._guesses.prune(now_s)

    def refusal(self, fixed: FixedGrant, password: str, address: str, now_s: float) -> Refusal | None:
        """Return why a login is refused; None if it is accepted, which also resets its address."""
        matches = password_matches(fixed, password)
        if self._guesses.locked_out(address, now_s):
            return Refusal.LOCKED_OUT
        if matches and (not fixed.source_addresses or names_source(fixed.source_addresses, address)):
            self._guesses.forgive(address)
            return None
        self._guesses.note(address, now_s)
        return Refusal.WRONG_SOURCE if matches else Refusal.WRONG_PASSWORD


class PendingLogin(Protocol):
    """A session before its login."""

    def evict(self) -> None:
        """Close the session at once, in favour of another one."""


class PendingLogins:
    """Sessions before their login by address, in the order they came."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[PendingLogin, None]] = {}

    def enter(self, address: str, session: PendingLogin) -> None:
        """Add a session."""
        self._by_address.setdefault(address, {})[session] = None

    def leave(self, address: str, session: PendingLogin) -> None:
        """Remove a session that has logged in or ended."""
        sessions = self._by_address.get(address, {})
        sessions.pop(session, None)
        if not sessions:
            self._by_address.pop(address, None)

    def count(self, address: str) -> int:
        """Return how many sessions of an address have not logged in."""
        return len(self._by_address.get(address, ()))

    def to_displace(self, newcomer: str, is_named: Callable[[str], bool]) -> PendingLogin | None:
        """Return the session to close in favour of a new one; None if the new one has no priority over any.

        Args:
            newcomer: Address of the new session, which is counted already.
            is_named: Returns whether a valid ticket names an address.
        """
        own, right = self.count(newcomer), is_named(newcomer)
        most = max(self._by_address, key=self.count)
        if not right and self.count(most) <= own:
            return None
        for address in sorted(self._by_address, key=self.count, reverse=True):
            if not (right or self.count(address) > own):
                break
            if address != newcomer and not is_named(address):
                return self._oldest(address)
        # If tickets name all addresses, the one with the most sessions loses one.
        return self._oldest(most) if right and self.count(most) > own else None

    def _oldest(self, address: str) -> PendingLogin:
        return next(iter(self._by_address[address]))
