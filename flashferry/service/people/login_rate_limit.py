"""Limits on sign-in attempts, per address and for unknown names. In memory, bounded.

Unknown names are locked like accounts, so that a lock does not reveal which names exist.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from flashferry.service.people.sessions import digest_of
from flashferry.service.settings import PeopleSettings

MOST_TRACKED = 10_000
_HOME_BITS = 64
"""Prefix of IPv6 that belongs to one customer."""


class LoginRateLimit:
    """Recent sign-in attempts. Safe to use from all threads."""

    def __init__(self, settings: PeopleSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, deque[datetime]] = OrderedDict()
        self._names: OrderedDict[str, tuple[int, datetime | None]] = OrderedDict()

    def take(self, address: str, now: datetime) -> float:
        """Count an attempt of an address; return how long it has to wait, seconds, or 0."""
        with self._lock:
            tried = self._addresses.setdefault(network_of(address), deque(maxlen=self._settings.most_tries))
            self._addresses.move_to_end(network_of(address))
            while len(self._addresses) > MOST_TRACKED:
                self._addresses.popitem(last=False)
            since = now - timedelta(seconds=self._settings.tries_s)
            while tried and not since < tried[0] <= now:
                tried.popleft()
            if len(tried) >= self._settings.most_tries:
                return (tried[0] - since).total_seconds()
            tried.append(now)
            return 0.0

    def unknown_locked_until(self, name: str) -> datetime | None:
        """Return until when an unknown name is locked, or None."""
        with self._lock:
            return self._names.get(digest_of(name), (0, None))[1]

    def count_unknown(self, name: str, now: datetime) -> bool:
        """Count an attempt with an unknown name; return whether it is locked now."""
        name = digest_of(name)  # it may be a password
        with self._lock:
            count = self._names.get(name, (0, None))[0] + 1
            is_locked = count >= self._settings.most_failures
            until = now + timedelta(seconds=self._settings.lock_s) if is_locked else None
            self._names[name] = (0 if is_locked else count, until)
            self._names.move_to_end(name)
            while len(self._names) > MOST_TRACKED:
                self._names.popitem(last=False)
            return is_locked


def network_of(address: str) -> str:
    """Return what stands for an address in limits: for IPv6, its network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _HOME_BITS), strict=False))
    return str(parsed)
