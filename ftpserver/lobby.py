"""Sessions that have not logged in yet: whose place goes to somebody else when all places are taken. No sockets.

Facts
-----

- A session costs its client nothing before it logs in. Four addresses with a thousand silent sessions each take all
  the places there are, for as long as the login deadline allows, and again.
- A router opens one session and logs in within seconds. So who comes when the house is full gets the place of the
  address that has the most silent sessions, of these the oldest; an address that a live ticket names keeps its own
  and gets one from any other.
"""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Guest(Protocol):
    """A session before its login."""

    def displace(self) -> None:
        """Give the place up, now."""


class Lobby:
    """Guests by address, in the order they came."""

    def __init__(self) -> None:
        self._by_address: dict[str, dict[Guest, None]] = {}

    def enter(self, address: str, guest: Guest) -> None:
        """Take a guest in."""
        self._by_address.setdefault(address, {})[guest] = None

    def leave(self, address: str, guest: Guest) -> None:
        """Let a guest go: it has logged in, or is gone."""
        guests = self._by_address.get(address, {})
        guests.pop(guest, None)
        if not guests:
            self._by_address.pop(address, None)

    def count(self, address: str) -> int:
        """Return how many guests an address has."""
        return len(self._by_address.get(address, ()))

    def to_displace(self, newcomer: str, is_named: "Callable[[str], bool]") -> Guest | None:
        """Return whose place an address gets that has just come; None where it has no better right than all others.

        Args:
            newcomer: The address, whose own guest is in already.
            is_named: Tells whether a live ticket names an address.
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

    def _oldest(self, address: str) -> Guest:
        return next(iter(self._by_address[address]))
