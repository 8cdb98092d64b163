"""Who may come in and stay: failed logins, guesses at fixed logins, command rates, and sessions before their login.

Time comes in as a number and sessions as values: neither clock nor sockets in here.

Facts
-----

- A session costs its client nothing before it logs in. Four addresses with a thousand silent sessions each take all
  the places there are, for as long as the login deadline allows, and again.
- A router opens one session and logs in within seconds. So who comes when the house is full gets the place of the
  address that has the most silent sessions, of these the oldest; an address that a live ticket names keeps its own
  and gets one from any other.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Protocol

from flashferry.fileserver.tickets import Refusal, names_source, password_matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.settings import Limits


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
        """Take one command out; return False if there is none left."""
        self._left = min(float(self._burst), self._left + (now_s - self._then_s) * self._per_s)
        self._then_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True


class FixedLogins:
    """The fixed logins of a server, and the guesses at them.

    They are counted apart: an address that a ticket names is never banned, and a ticket's login clears an address,
    which is right for 95 random bits and wrong for a password that a person chose.
    """

    def __init__(self, limits: "Limits") -> None:
        self._guesses = FailureBook(limits.failed_logins, limits.ban_s)
        self._logins: dict[str, FixedGrant] = {}

    def admit(self, fixed: "FixedGrant") -> None:
        """Let a fixed login in from now on; one of the same user is replaced."""
        self._logins[fixed.username] = fixed

    def find(self, username: str) -> "FixedGrant | None":
        """Return the fixed login of a user."""
        return self._logins.get(username)

    def prune(self, now_s: float) -> None:
        """Forget the guesses that no longer count."""
        self._guesses.prune(now_s)

    def refusal(self, fixed: "FixedGrant", password: str, address: str, now_s: float) -> Refusal | None:
        """Return why a login is refused; None lets it in and clears its address."""
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
        """Give the place up, now."""


class PendingLogins:
    """Sessions before their login by address, in the order they came."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[PendingLogin, None]] = {}

    def enter(self, address: str, session: PendingLogin) -> None:
        """Take a session in."""
        self._by_address.setdefault(address, {})[session] = None

    def leave(self, address: str, session: PendingLogin) -> None:
        """Let a session go: it has logged in, or is gone."""
        sessions = self._by_address.get(address, {})
        sessions.pop(session, None)
        if not sessions:
            self._by_address.pop(address, None)

    def count(self, address: str) -> int:
        """Return how many sessions of an address have not logged in."""
        return len(self._by_address.get(address, ()))

    def to_displace(self, newcomer: str, is_named: "Callable[[str], bool]") -> PendingLogin | None:
        """Return whose place an address gets that has just come; None where it has no better right than all others.

        Args:
            newcomer: The address, whose own session is in already.
            is_named: Returns whether a live ticket names an address.
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
        # All of them are named: the one with the most gives way.
        return self._oldest(most) if right and self.count(most) > own else None

    def _oldest(self, address: str) -> PendingLogin:
        return next(iter(self._by_address[address]))
