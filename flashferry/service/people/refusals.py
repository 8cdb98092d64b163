"""Refusals in the audit, limited so that a flood cannot fill the disk: the first is written, repeats are counted.

The same refusal of the same actor is written once in a window, which doubles while it continues; each actor has a
bucket of entries, anonymous callers share one. What finds the bucket empty is counted in the next entry.
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
"""Kinds of refusals counted at once; the oldest is written and dropped for a new one."""
BUCKET = 60
"""Entries that an actor may cause at once, then one each `REFILL_S`."""
REFILL_S = 60.0


@dataclass(slots=True, kw_only=True)
class _Repeated:
    """A written refusal, and how often it was repeated since."""

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
        """Return whether an entry is allowed, and count it."""
        past_s = max((now - self.at).total_seconds(), 0.0)
        self.left, self.at = min(self.left + past_s / REFILL_S, float(BUCKET)), now
        if self.left < 1:
            self.unwritten += 1
            return False
        self.left -= 1
        return True


class DenialLog:
    """Recent refusals. Safe to use from all threads."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], _Repeated] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def note(self, actor: Actor, action: str, object_: str, reason: str) -> bool:
        """Write a refusal, or count a repeated one; return whether it was written.

        `object_` must have few values, such as a route: each is counted by itself.
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
        """Write the counts of windows that are over; all of them at the end of the service."""
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
