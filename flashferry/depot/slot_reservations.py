"""The slots that a run has asked the depot for: said again where it comes back, and given up where it does not."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.depot.messages import AskSlot, ClaimSlot, FreeSlot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flashferry.depot.messages import Request


@dataclass(slots=True, kw_only=True)
class _Wanted:
    """A slot that is waited for, or held."""

    site: str | None
    limit: int | None
    granted: Callable[[], None] | None
    """What to call once it is granted; None where it is."""


class SlotBook:
    """A run's slots at the depot, see `flashferry.depot.server.SlotGate`. Methods may be called from any thread.

    Args:
        tell: Sends a request to the depot; where there is no line at present it is dropped, for then all is said again.
    """

    def __init__(self, tell: Callable[[Request], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._wanted: dict[int, _Wanted] = {}
        self._is_given_up = False

    def ask(self, site: str | None, limit: int | None, granted: Callable[[], None]) -> int | None:
        """Wait for a slot."""
        number = self._added(_Wanted(site=site, limit=limit, granted=granted))
        if number is not None:
            self._tell(AskSlot(number=number, site=site, limit=limit))
        return number

    def claim(self, site: str | None, limit: int | None) -> int | None:
        """Take a slot at once."""
        number = self._added(_Wanted(site=site, limit=limit, granted=None))
        if number is not None:
            self._tell(ClaimSlot(number=number, site=site, limit=limit))
        return number

    def free(self, number: int) -> None:
        """Give a slot back, or stop waiting for it."""
        with self._lock:
            known = self._wanted.pop(number, None) is not None
        if known:
            self._tell(FreeSlot(number=number))

    def take(self, numbers: Iterable[int]) -> None:
        """Take in what the depot has granted; what was given back meanwhile it hears of."""
        for number in numbers:
            with self._lock:
                one = self._wanted.get(number)
                granted = one.granted if one is not None else None
                if one is not None:
                    one.granted = None
            if granted is not None:
                granted()

    def again(self) -> tuple[Request, ...]:
        """Return what a depot has to be told that knows nothing of us: what is held first, then what is waited for."""
        with self._lock:
            wanted = sorted(self._wanted.items(), key=lambda item: item[1].granted is not None)
            return tuple(
                AskSlot(number=number, site=one.site, limit=one.limit)
                if one.granted is not None
                else ClaimSlot(number=number, site=one.site, limit=one.limit)
                for number, one in wanted
            )

    def give_up(self) -> None:
        """Let everybody in who waits, for nobody grants slots any more: the run's own limits hold alone."""
        with self._lock:
            self._is_given_up = True
            waiting = [number for number, one in self._wanted.items() if one.granted is not None]
        self.take(waiting)

    def _added(self, wanted: _Wanted) -> int | None:
        with self._lock:
            if self._is_given_up:
                return None
            number = next(self._numbers)
            self._wanted[number] = wanted
            return number
