"""Limit how many devices log in, copy (in all and per site) or hash at the same time.

Devices are served in the order of arrival; a full site does not block other sites. A copy needs a slot of the fleet and
one of its site; both are taken in one step, so no device holds one while it waits for the other.
A copy's slot is released a little before its end, so that the site's link is not idle while the next device is
snapshotted and tuned (and logged in and checked, if it was logged out). Copies that share a site's cap end at about the
same time, and all their followers would otherwise start at once.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from flashferry.devices.errors import Interrupted
from flashferry.model.limits import Limits

if TYPE_CHECKING:
    from flashferry.fileserver import SlotReservations

EARLY_RELEASE_S = 10.0
"""Seconds from a slot to the first byte where many devices start at once: some ten commands in turn."""

EXPECT_S = 45.0
"""Further seconds to log in and check, measured with eighty devices at once on a small machine, plus a margin. Less
than the time after which a waiting device is logged out."""

_LEAST_SHARE = 0.8
"""Share of the image that must be acknowledged before the slot is released early: a small image needs no early
release."""

_LEAST_SHARE_EXPECTED = 0.5
"""The same before the next device is asked to log in again."""


def is_nearly_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Return whether a copy is about to end, so that its slot can be released early.

    The rate is the current one; 0 if unknown or nothing moves.
    """
    return _ends_within(EARLY_RELEASE_S, _LEAST_SHARE, acked_bytes, size_bytes, rate_bytes_per_s)


def is_soon_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Return whether a copy ends so soon that the next device should log in again. Arguments as `is_nearly_over`."""
    return _ends_within(EXPECT_S, _LEAST_SHARE_EXPECTED, acked_bytes, size_bytes, rate_bytes_per_s)


def _ends_within(
    seconds: float, least_share: float, acked_bytes: int, size_bytes: int, rate_bytes_per_s: float
) -> bool:
    if acked_bytes < least_share * size_bytes:
        return False
    left_bytes = size_bytes - acked_bytes
    return left_bytes <= 0 or left_bytes <= seconds * rate_bytes_per_s


POLL_S = 1.0
"""Interval at which a waiting device checks whether the run stops; a free slot wakes it at once."""


_ASKED_S = 0.2
"""A gate with free slots grants one in less time; such a wait is not reported."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A device that waits for a slot, with an event that is set when it has one."""

    key: str | None
    is_in: threading.Event = field(default_factory=threading.Event)
    number: int | None = None
    """The gate's number of the slot, from the request on."""


class SlotPool:
    """A limit of concurrent slots, in all and per key. Thread-safe.

    Args:
        name: What a slot is for: `copy`, `login` or `hash run`.
        total: Slots at a time, >= 1.
        per_key: Returns the slots of one key at a time, >= 1; None: only the total counts. Devices without a key are
            not counted together.
        gate: Grants slots of a key that several runs share, or None. A device that waits for a grant blocks no other
            and holds no slot of this pool.
    """

    def __init__(
        self,
        name: str,
        total: int,
        per_key: Callable[[str], int] | None = None,
        gate: SlotReservations | None = None,
    ) -> None:
        self._gate = gate
        # The gate's numbers of held slots; those of one key are interchangeable.
        self._numbers: dict[str | None, list[int]] = {}
        self.name = name
        self._total = total
        self._per_key = per_key
        self._lock = threading.Lock()
        self._inside: Counter[str | None] = Counter()
        self._count = 0
        # In the order of arrival.
        self._waiting: dict[_Waiting, None] = {}
        # By key: how many slots were announced to be free soon.
        self._leaving: Counter[str | None] = Counter()

    @property
    def inside(self) -> int:
        """Return how many devices hold a slot."""
        with self._lock:
            return self._count

    @property
    def waiting(self) -> int:
        """Return how many devices wait for a slot."""
        with self._lock:
            return len(self._waiting)

    def enter(
        self,
        key: str | None = None,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda text: None,  # noqa: ARG005 -- the signature
        patience_s: float | None = None,
        on_patience: Callable[[], None] = lambda: None,
        on_soon: Callable[[], None] = lambda: None,
    ) -> None:
        """Take a slot; wait until there is one.

        Args:
            key: The site, or None.
            interrupted: Whether to stop waiting.
            on_wait: Called once with the reason for the wait.
            patience_s: Seconds after which `on_patience` is called, once; None: never.
            on_patience: See `patience_s`.
            on_soon: Called once when a slot announced with `expect` will be this device's; the patience starts anew
                then. An exception from it ends the wait.

        Raises:
            Interrupted: The run stops; no slot is held.
        """
        me = _Waiting(key)
        with self._lock:
            self._waiting[me] = None
            self._admit()
            reason = "" if me.is_in.is_set() else self._reason(key)
        try:
            if reason and not (self._gate is not None and me.is_in.wait(_ASKED_S)):
                on_wait(reason)
            self._wait(me, interrupted, patience_s, on_patience, on_soon)
        except BaseException:
            self._give_up(me)
            raise

    def _wait(
        self,
        me: _Waiting,
        interrupted: Callable[[], bool],
        patience_s: float | None,
        on_patience: Callable[[], None],
        on_soon: Callable[[], None],
    ) -> None:
        since_s, until_s, was_called = time.monotonic(), patience_s, False
        while not me.is_in.wait(POLL_S):
            if interrupted():
                raise Interrupted(f"stopped while it waited for a {self.name} slot", step="queue")
            if not was_called and self._is_soon_in(me):
                was_called = True
                on_soon()
                since_s, until_s = time.monotonic(), patience_s
            elif until_s is not None and time.monotonic() - since_s >= until_s:
                until_s = None
                on_patience()

    def expect(self, key: str | None = None) -> None:
        """Announce to the next waiting device that a slot will be free soon. Pass `was_expected` to `leave` then."""
        with self._lock:
            self._leaving[key] += 1

    def leave(self, key: str | None = None, *, was_expected: bool = False) -> None:
        """Release a slot; the next device that may have it gets it at once.

        `was_expected` says whether `expect` was called for this slot.
        """
        with self._lock:
            if was_expected:
                self._leaving[key] -= 1
            self._take_out(key)
            self._admit()

    def enter_beyond_limit(self, key: str | None = None) -> None:
        """Take a slot at once, even beyond the limit. Others wait until the count is below the limit again."""
        with self._lock:
            self._let_in(key, self._gate.claim(key, self._most_of(key)) if self._gate is not None else None)

    @contextmanager
    def slot(
        self,
        key: str | None = None,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda text: None,  # noqa: ARG005 -- the signature
    ) -> Iterator[None]:
        """Hold a slot while the block runs; see `enter`."""
        self.enter(key, interrupted=interrupted, on_wait=on_wait)
        try:
            yield
        finally:
            self.leave(key)

    def _give_up(self, me: _Waiting) -> None:
        with self._lock:
            if me in self._waiting:
                del self._waiting[me]
                self._give_back(me.number)
                return
        # The slot was granted at the moment when the device gave up.
        self.leave(me.key)

    def _admit(self) -> None:
        """Grant slots to all waiting devices that may have one, in the order of arrival."""
        for one in list(self._waiting):
            if self._count >= self._total:
                return
            if self._is_below_limit(one.key) and self._is_granted(one):
                self._admit_one(one)

    def _admit_one(self, one: _Waiting) -> None:
        del self._waiting[one]
        self._let_in(one.key, one.number)
        one.is_in.set()

    def _is_granted(self, one: _Waiting) -> bool:
        """Return whether the gate admits a device; the first call sends the request."""
        if self._gate is None:
            return True
        if one.number is None:
            one.number = self._gate.ask(one.key, self._most_of(one.key), partial(self._take_grant, one))
            return one.number is None
        return False

    def _take_grant(self, one: _Waiting) -> None:
        """Use a slot that the gate granted; return it to the gate if the pool is full by now."""
        with self._lock:
            if one not in self._waiting:
                return
            if self._count < self._total and self._is_below_limit(one.key):
                self._admit_one(one)
            else:
                self._give_back(one.number)
                one.number = None

    def _give_back(self, number: int | None) -> None:
        if number is not None and self._gate is not None:
            self._gate.free(number)

    def _most_of(self, key: str | None) -> int | None:
        return None if key is None or self._per_key is None else self._per_key(key)

    def _let_in(self, key: str | None, number: int | None) -> None:
        self._inside[key] += 1
        self._count += 1
        if number is not None:
            self._numbers.setdefault(key, []).append(number)

    def _take_out(self, key: str | None) -> None:
        assert self._inside[key] > 0, f"{self.name}: a slot of {key!r} was given back twice"
        self._inside[key] -= 1
        self._count -= 1
        if numbers := self._numbers.get(key):
            self._give_back(numbers.pop(0))
        if not self._inside[key]:
            del self._inside[key]

    def _is_soon_in(self, me: _Waiting) -> bool:
        with self._lock:
            soon = self._leaving[me.key]
            before = (one for one in self._waiting if one.key == me.key)
            return me in itertools.islice(before, soon)

    def _is_below_limit(self, key: str | None) -> bool:
        return key is None or self._per_key is None or self._inside[key] < self._per_key(key)

    def _reason(self, key: str | None) -> str:
        if key is not None and self._per_key is not None and not self._is_below_limit(key):
            return f"waits for a {self.name} slot at site {key}: {self._per_key(key)} at a time"
        if self._count < self._total:
            where = f" at site {key}" if key is not None else ""
            return f"waits for a {self.name} slot{where}, which all runs of this host share"
        return f"waits for a {self.name} slot: {self._total} at a time"


class SlotPools:
    """The slot pools of a run: logins, copies (`site_copies` limits a site's, `gate` shares them) and hash runs."""

    def __init__(
        self, limits: Limits, site_copies: Callable[[str], int] | None = None, gate: SlotReservations | None = None
    ) -> None:
        self.logins = SlotPool("login", limits.logins)
        of_site = site_copies or (lambda site: limits.site_copies)  # noqa: ARG005 -- the signature
        self.copies = SlotPool("copy", limits.copies, of_site, gate)
        self.hashes = SlotPool("hash run", limits.hashes)
