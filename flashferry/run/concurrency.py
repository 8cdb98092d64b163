"""Slots that devices of a run wait for: logins, copies (in all and per site), hash runs.

Whoever waits is served in the order of arrival; one whose site is full holds nobody of another site up. Both slots of a
copy, the fleet's and the site's, are taken in one step: nobody holds one while it waits for the other.

A copy's slot is released early, a little before its end, so that its site's link does not stand idle: behind a slot a
device is snapshotted, tuned and told to copy, which takes seconds; one that was logged out while it waited has to be
logged in and checked before that. Copies of a site that share its cap end at about the same time, and without this the
link would wait for all of their followers at once.
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
    from flashferry.depot.server import SlotGate

EARLY_RELEASE_S = 10.0
"""What a follower takes from its slot to its first byte where many do so at once: some ten commands in turn."""

EXPECT_S = 45.0
"""What it takes besides to be logged in and checked where eighty are at once on a small machine, with a margin; less
than the time after which one who waits is logged out."""

_LEAST_SHARE = 0.8
"""Of the image, acknowledged: a small one is not released from its first second ..."""

_LEAST_SHARE_EXPECTED = 0.5
"""... nor are its followers told to make ready."""


def is_nearly_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Tell whether a copy is about to end: its slot is released early.

    Args:
        acked_bytes: What the device has.
        size_bytes: Size of the image.
        rate_bytes_per_s: Rate at present; 0 where it is not known or nothing moves.
    """
    return _ends_within(EARLY_RELEASE_S, _LEAST_SHARE, acked_bytes, size_bytes, rate_bytes_per_s)


def is_soon_over(acked_bytes: int, size_bytes: int, rate_bytes_per_s: float) -> bool:
    """Tell whether a copy ends so soon that who waits for its slot had better make ready; see `is_nearly_over`."""
    return _ends_within(EXPECT_S, _LEAST_SHARE_EXPECTED, acked_bytes, size_bytes, rate_bytes_per_s)


def _ends_within(
    seconds: float, least_share: float, acked_bytes: int, size_bytes: int, rate_bytes_per_s: float
) -> bool:
    if acked_bytes < least_share * size_bytes:
        return False
    left_bytes = size_bytes - acked_bytes
    return left_bytes <= 0 or left_bytes <= seconds * rate_bytes_per_s


LOOK_EVERY_S = 1.0
"""How often one who waits looks whether the run is to stop; a slot that comes free wakes it at once."""


_ASKED_S = 0.2
"""A gate with slots to spare grants one in less: nobody is told of that."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """One who waits for a slot, with a flag that is up as soon as it has one."""

    key: str | None
    is_in: threading.Event = field(default_factory=threading.Event)
    number: int | None = None
    """What the gate knows the slot by, from the moment that it was asked for it."""


class SlotPool:
    """So many at a time, in all and per key. Safe to use from all threads.

    Args:
        name: What a slot is for, in words: `copy`, `login`, `hash run`.
        total: How many at a time, >= 1.
        per_key: Returns how many of one key at a time, >= 1; None: as many as in all. Those without a key are not
            counted together.
        gate: Who has a say besides, for other runs share what is behind a key; None: nobody. Who waits for its yes
            holds nobody up, and no slot of ours.
    """

    def __init__(
        self,
        name: str,
        total: int,
        per_key: Callable[[str], int] | None = None,
        gate: SlotGate | None = None,
    ) -> None:
        self._gate = gate
        # What the gate knows those by who are inside; of one key they are alike.
        self._numbers: dict[str | None, list[int]] = {}
        self.name = name
        self._total = total
        self._per_key = per_key
        self._lock = threading.Lock()
        self._inside: Counter[str | None] = Counter()
        self._count = 0
        # In the order of arrival.
        self._waiting: dict[_Waiting, None] = {}
        # Of each key, how many who hold a slot said that they will leave soon.
        self._leaving: Counter[str | None] = Counter()

    @property
    def inside(self) -> int:
        """Return how many hold a slot."""
        with self._lock:
            return self._count

    @property
    def waiting(self) -> int:
        """Return how many wait for one."""
        with self._lock:
            return len(self._waiting)

    def enter(
        self,
        key: str | None = None,
        *,
        interrupted: Callable[[], bool] = lambda: False,
        on_wait: Callable[[str], None] = lambda text: None,  # noqa: ARG005 -- the signature
        patience_s: float | None = None,
        on_patience: Callable[[], None] = _nothing,
        on_soon: Callable[[], None] = _nothing,
    ) -> None:
        """Take a slot; wait for it where there is none.

        Args:
            key: The site, or None.
            interrupted: Whether to stop waiting.
            on_wait: Told once, in words, what is waited for.
            patience_s: After so long `on_patience` is called, once; None: never.
            on_patience: See `patience_s`.
            on_soon: Called once, when one who leaves soon (see `expect`) makes room for this one; patience begins
                anew then. What it raises ends the wait.

        Raises:
            Interrupted: The run is to stop; no slot is held.
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
        since_s, until_s, was_told = time.monotonic(), patience_s, False
        while not me.is_in.wait(LOOK_EVERY_S):
            if interrupted():
                raise Interrupted(f"stopped while it waited for a {self.name} slot", step="queue")
            if not was_told and self._is_soon_in(me):
                was_told = True
                on_soon()
                since_s, until_s = time.monotonic(), patience_s
            elif until_s is not None and time.monotonic() - since_s >= until_s:
                until_s = None
                on_patience()

    def expect(self, key: str | None = None) -> None:
        """Note that one who holds a slot leaves soon: whoever comes next is told. Say so again in `leave`."""
        with self._lock:
            self._leaving[key] += 1

    def leave(self, key: str | None = None, *, was_expected: bool = False) -> None:
        """Give a slot back; whoever waits longest and may have it gets it at once.

        Args:
            key: As in `enter`.
            was_expected: Whether `expect` was called for this slot.
        """
        with self._lock:
            if was_expected:
                self._leaving[key] -= 1
            self._take_out(key)
            self._admit()

    def enter_beside(self, key: str | None = None) -> None:
        """Take a slot at once, also where there is none: nobody else gets in until so many are inside again."""
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
        """Hold a slot for as long as the block lasts; see `enter`."""
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
        # It was let in at the very moment that it gave up.
        self.leave(me.key)

    def _admit(self) -> None:
        """Let in whoever may, in the order of arrival."""
        for one in list(self._waiting):
            if self._count >= self._total:
                return
            if self._has_room(one.key) and self._is_granted(one):
                self._admit_one(one)

    def _admit_one(self, one: _Waiting) -> None:
        del self._waiting[one]
        self._let_in(one.key, one.number)
        one.is_in.set()

    def _is_granted(self, one: _Waiting) -> bool:
        """Tell whether one may come in as far as the gate goes; who is not known there is asked for."""
        if self._gate is None:
            return True
        if one.number is None:
            one.number = self._gate.ask(one.key, self._most_of(one.key), partial(self._take_grant, one))
            return one.number is None
        return False

    def _take_grant(self, one: _Waiting) -> None:
        """Let one in to whom the gate said yes; where there is no room here meanwhile, others are to have it."""
        with self._lock:
            if one not in self._waiting:
                return
            if self._count < self._total and self._has_room(one.key):
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

    def _has_room(self, key: str | None) -> bool:
        return key is None or self._per_key is None or self._inside[key] < self._per_key(key)

    def _reason(self, key: str | None) -> str:
        if key is not None and self._per_key is not None and not self._has_room(key):
            return f"waits for a {self.name} slot at site {key}: {self._per_key(key)} at a time"
        if self._count < self._total:
            where = f" at site {key}" if key is not None else ""
            return f"waits for a {self.name} slot{where}, which all runs of this host share"
        return f"waits for a {self.name} slot: {self._total} at a time"


class SlotPools:
    """The slot pools of a run: for logins, copies and hash runs.

    Args:
        limits: How many hold a slot of each at a time.
        site_copies: Returns how many copies may run at a site; None: as many as the limits say.
        gate: Who grants copies to several runs, or None.
    """

    def __init__(
        self, limits: Limits, site_copies: Callable[[str], int] | None = None, gate: SlotGate | None = None
    ) -> None:
        self.logins = SlotPool("login", limits.logins)
        of_site = site_copies or (lambda site: limits.site_copies)  # noqa: ARG005 -- the signature
        self.copies = SlotPool("copy", limits.copies, of_site, gate)
        self.hashes = SlotPool("hash run", limits.hashes)
