"""How often somebody tries to sign in: per address, and under names that are nobody's. In memory, and bounded.

Names that are nobody's are locked as accounts are, so that a lock does not tell which names there are.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network

from flashferry.service.people.sessions import digest_of
from flashferry.service.settings import PeopleSettings

MOST_KEPT = 10_000
_HOME_BITS = 64
"""So much of an IPv6 address is one customer's."""


class Tries:
    """Who tried how often lately. Safe to use from all threads.

    Args:
        settings: How often one may.
    """

    def __init__(self, settings: PeopleSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, deque[datetime]] = OrderedDict()
        self._names: OrderedDict[str, tuple[int, datetime | None]] = OrderedDict()

    def take(self, address: str, now: datetime) -> float:
        """Count a try of an address; return how long it has to wait, seconds: 0 where it need not."""
        with self._lock:
            tried = self._addresses.setdefault(home(address), deque(maxlen=self._settings.most_tries))
            self._addresses.move_to_end(home(address))
            while len(self._addresses) > MOST_KEPT:
                self._addresses.popitem(last=False)
            since = now - timedelta(seconds=self._settings.tries_s)
            while tried and not since < tried[0] <= now:
                tried.popleft()
            if len(tried) >= self._settings.most_tries:
                return (tried[0] - since).total_seconds()
            tried.append(now)
            return 0.0

    def unknown_locked_until(self, name: str) -> datetime | None:
        """Return until when a name that is nobody's is locked, or None."""
        with self._lock:
            return self._names.get(digest_of(name), (0, None))[1]

    def count_unknown(self, name: str, now: datetime) -> bool:
        """Count a try under a name that is nobody's; return whether it is locked now."""
        name = digest_of(name)  # it may be a password
        with self._lock:
            count = self._names.get(name, (0, None))[0] + 1
            is_locked = count >= self._settings.most_failures
            until = now + timedelta(seconds=self._settings.lock_s) if is_locked else None
            self._names[name] = (0 if is_locked else count, until)
            self._names.move_to_end(name)
            while len(self._names) > MOST_KEPT:
                self._names.popitem(last=False)
            return is_locked


def home(address: str) -> str:
    """Return what stands for an address where addresses are counted: of IPv6, its network."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed, _HOME_BITS), strict=False))
    return str(parsed)
