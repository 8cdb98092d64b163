"""Refusals in the audit, so that a flood of them cannot fill the disk: the first is written, repeats are counted.

Whoever is not signed in can have refusals written as fast as he can ask. So the same refusal of the same actor is
written once in a window, which doubles as long as it goes on, with how often it came meanwhile; and there is a bucket
of entries for each actor, anonymous ones sharing one. What finds the bucket empty is counted, and told by the next.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from flashferry.core.safe_quote import counted
from flashferry.service.auditing import note
from flashferry.service.principal import Actor
from flashferry.service.service import Service

FIRST_WINDOW_S = 60.0
LAST_WINDOW_S = 3600.0
MOST_KEPT = 1024
"""So many kinds of refusals are counted at once; the oldest is written and forgotten for another."""
BUCKET = 60
"""So many entries an actor may cause at once, and then one in each `REFILL_S`."""
REFILL_S = 60.0


@dataclass(slots=True, kw_only=True)
class _Repeated:
    """A refusal that was written, and how often it came since."""

    actor: Actor
    action: str
    object: str
    reason: str
    until: datetime
    window_s: float
    count: int = 0


@dataclass(slots=True)
class _Bucket:
    """Entries that an actor may still cause."""

    left: float
    at: datetime
    unwritten: int = 0

    def takes(self, now: datetime) -> bool:
        """Return whether there is room for an entry, and take it."""
        past_s = max((now - self.at).total_seconds(), 0.0)
        self.left, self.at = min(self.left + past_s / REFILL_S, float(BUCKET)), now
        if self.left < 1:
            self.unwritten += 1
            return False
        self.left -= 1
        return True


class DenialLog:
    """What was refused lately. Safe to use from all threads.

    Args:
        service: The service in whose audit it writes.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Repeated] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def note(self, actor: Actor, action: str, object_: str, reason: str) -> bool:
        """Write a refusal, or count it where it was written just now; return whether it was written.

        Args:
            actor: Who was refused.
            action: What, such as `access.refused`.
            object_: To which object; one of few words, such as a route: each is counted by itself.
            reason: Why.
        """
        now = self._service.now()
        with self._lock:
            key = (actor.name, actor.via.value, actor.address, action, object_, reason)
            known = self._kept.get(key)
            if known is not None and known.until - timedelta(seconds=known.window_s) <= now < known.until:
                known.count += 1
                return False
            if known is None:
                known = _Repeated(
                    actor=actor, action=action, object=object_, reason=reason, until=now, window_s=FIRST_WINDOW_S / 2
                )
                self._kept[key] = known
            known.window_s = min(known.window_s * 2, LAST_WINDOW_S)
            known.until = now + timedelta(seconds=known.window_s)
            self._kept.move_to_end(key)
            is_written = self._write(known, now)
            while len(self._kept) > MOST_KEPT:
                self._end(self._kept.popitem(last=False)[1], now)
            return is_written

    def flush(self, *, is_end: bool = False) -> None:
        """Write what was counted in windows that are over, and forget those that are quiet.

        Args:
            is_end: Whether the service ends: then every window is over.
        """
        now = self._service.now()
        with self._lock:
            over = [key for key, one in self._kept.items() if is_end or one.until <= now]
            for key in over:
                self._end(self._kept.pop(key), now)

    def _end(self, one: _Repeated, now: datetime) -> None:
        if one.count:
            self._write(one, now)

    def _write(self, one: _Repeated, now: datetime) -> bool:
        bucket = self._buckets.setdefault(one.actor.name, _Bucket(float(BUCKET), now))
        self._buckets.move_to_end(one.actor.name)
        while len(self._buckets) > MOST_KEPT:
            self._buckets.popitem(last=False)
        times, one.count = one.count, 0
        if not bucket.takes(now):
            bucket.unwritten += times
            return False
        more = f"; {counted(times, 'time')} more since it was written last" if times else ""
        if bucket.unwritten:
            more += f"; {bucket.unwritten} other refusals of {one.actor.name} were not written"
            bucket.unwritten = 0
        with self._service.database.writing() as database:
            note(
                self._service, database, one.actor, one.action, one.object, outcome="refused", reason=one.reason + more
            )
        return True
