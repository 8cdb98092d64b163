"""The queue of a wave: which device starts next, and which must wait. No I/O, no clock of its own.

A logged-in device occupies a vty and a session. So only as many devices are checked in advance as the site's copy slots
will soon need: a slot is never empty, and no device waits long.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct

from flashferry.model.limits import Limits

_AHEAD = 3
"""Devices checked in advance of a site's copy slots, plus a quarter of the slots: a check takes seconds, and
with more copies one of them ends sooner."""


def checked_ahead(copies: int) -> int:
    """Return how many devices can be between login and end of copy if `copies` may copy."""
    return copies + _AHEAD + copies // 4


class QueuedDevice(Struct, frozen=True, kw_only=True):
    """A waiting device.

    Attributes:
        site: Its site; None for none.
        again_s: When a device that was tried before is tried again, by the queue's clock; else None.
    """

    host: str
    site: str | None
    again_s: float | None = None


class Hold(Struct, frozen=True, kw_only=True):
    """Why a device, or any device, cannot start.

    Attributes:
        reason: As text.
        for_good: Not in this run; else only at present.
        kind: As an identifier for programs.
    """

    reason: str
    for_good: bool
    kind: str = "NotBegun"


class DeviceQueue:
    """The devices of a wave in starting order. Safe to use from all threads.

    Args:
        devices: The devices, in order.
        limits: Concurrency.
        site_copies: Copies at the same time by site.
        hold: Returns why nothing can start at present, or None; called in each `take`, by one thread.
        fits: Returns why a device cannot start (its window), or None.
        may_leave: Returns whether the queue may end while devices still wait for a retry or their window; they are then
            in `left_over`.
        clock: Monotonic, in seconds.
    """

    def __init__(
        self,
        devices: tuple[QueuedDevice, ...],
        limits: Limits,
        *,
        site_copies: Callable[[str], int],
        hold: Callable[[], Hold | None] = lambda: None,
        fits: Callable[[str], Hold | None] = lambda host: None,  # noqa: ARG005 -- the signature
        may_leave: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._site = {device.host: device.site for device in devices}
        self._left: dict[str | None, deque[str]] = {}
        self._again: dict[str, float] = {}
        for device in devices:
            if device.again_s is not None:
                self._again[device.host] = device.again_s
            else:
                self._left.setdefault(device.site, deque()).append(device.host)
        self._may_leave = may_leave
        self._limits = limits
        self._site_copies = site_copies
        self._hold, self._fits, self._clock = hold, fits, clock
        self._before_copied: set[str] = set()
        self._before_by_site: Counter[str | None] = Counter()
        self._running: set[str] = set()
        self._not_started: dict[str, Hold] = {}
        self._early: set[str] = set()
        # A device that waits to hash stays tuned, so no more are started than will soon hash.
        self._most = checked_ahead(limits.copies) + limits.hashes
        self._changed = threading.Condition()
        self._news = False

    @property
    def not_started(self) -> dict[str, Hold]:
        """Return the devices that never started, with the reason."""
        with self._changed:
            return dict(self._not_started)

    @property
    def left_over(self) -> tuple[QueuedDevice, ...]:
        """Return the devices that still wait for a retry or their window, for the queue of the next wave."""
        with self._changed:
            again = (QueuedDevice(host=host, site=self._site[host], again_s=at) for host, at in self._again.items())
            left = (QueuedDevice(host=host, site=self._site[host]) for queue in self._left.values() for host in queue)
            return (*again, *left)

    def take(self) -> str | None:
        """Return the device that starts now; None for none."""
        hold = self._hold()
        with self._changed:
            if hold is not None:
                if hold.for_good:
                    self._end(hold)
                return None
            if len(self._running) >= self._most or len(self._before_copied) >= checked_ahead(self._limits.copies):
                return None
            host = self._due() or self._next()
            if host is not None:
                self._begin(host)
            return host

    def copied(self, host: str) -> None:
        """Record that a device's copy has ended, or that there is none, so that another can be checked."""
        with self._changed:
            self._pass(host)
            self._wake()

    def again(self, host: str, pause_s: float) -> None:
        """Queue a device again after a pause."""
        with self._changed:
            self._again[host] = self._clock() + pause_s
            self._wake()

    def ended(self, name: str) -> None:
        """Record that a device has ended."""
        with self._changed:
            self._pass(name)
            self._running.discard(name)
            self._wake()

    def is_over(self) -> bool:
        """Return whether no device is in progress and none will start."""
        with self._changed:
            if self._running:
                return False
            left = [host for queue in self._left.values() for host in queue]
            if not self._early.issuperset(left):
                return False
            waits = bool(self._again or left)
        # Called without the lock: it reads the state of other devices.
        return not waits or self._may_leave()

    def wait(self, timeout_s: float) -> None:
        """Wait until something has changed since the last `take`."""
        with self._changed:
            # A device that is due waits for another event, which wakes the queue, or for its window.
            now = self._clock()
            timeout_s = min(timeout_s, *(at - now for at in self._again.values() if at > now), timeout_s)
            if not self._news:
                self._changed.wait(timeout_s)
            self._news = False

    def _wake(self) -> None:
        self._news = True
        self._changed.notify_all()

    def _pass(self, host: str) -> None:
        if host in self._before_copied:
            self._before_copied.discard(host)
            self._before_by_site[self._site[host]] -= 1

    def _begin(self, host: str) -> None:
        self._running.add(host)
        self._before_copied.add(host)
        self._before_by_site[self._site[host]] += 1

    def _due(self) -> str | None:
        """Return a device whose pause is over."""
        now = self._clock()
        for host, at in self._again.items():
            if at <= now and host not in self._running and self._has_space(self._site[host]):
                if not self._may_still(host):
                    return None
                del self._again[host]
                return host
        return None

    def _may_still(self, host: str) -> bool:
        """Return whether a device still fits before its deadline; if not, the record of its last attempt stays."""
        fit = self._fits(host)
        if fit is not None and fit.for_good:
            del self._again[host]
        return fit is None

    def _next(self) -> str | None:
        """Return the first device of the site with the fewest in progress, so that every link is used."""
        for site in sorted((site for site, queue in self._left.items() if queue), key=self._before_by_site.__getitem__):
            found = self._first_of(site) if self._has_space(site) else None
            if found is not None:
                return found
        return None

    def _first_of(self, site: str | None) -> str | None:
        queue = self._left[site]
        for _ in range(len(queue)):
            host = queue.popleft()
            fit = self._fits(host)
            self._early.discard(host)
            if fit is None:
                return host
            if fit.for_good:
                self._not_started[host] = fit
            else:
                self._early.add(host)
                queue.append(host)
        return None

    def _has_space(self, site: str | None) -> bool:
        return site is None or self._before_by_site[site] < checked_ahead(self._site_copies(site))

    def _end(self, hold: Hold) -> None:
        for queue in self._left.values():
            self._not_started.update(dict.fromkeys(queue, hold))
            queue.clear()
        self._again.clear()
