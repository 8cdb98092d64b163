"""The slots that a run holds or waits for at a shared server; repeated when that server comes back."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.fileserver.wire import AskSlot, ClaimSlot, FreeSlot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from flashferry.fileserver.wire import Request


@dataclass(slots=True, kw_only=True)
class _Reservation:
    """A slot that is waited for or held; `on_grant` is None once it is granted."""

    site: str | None
    limit: int | None
    on_grant: Callable[[], None] | None


class SlotReservations:
    """A run's slots at a shared server. Methods may be called from any thread.

    A number stands for one slot from the moment it is asked for until it is released.

    Args:
        send: Sends a request to the server; may drop it while there is no connection, for `again` repeats them all.
    """

    def __init__(self, send: Callable[[Request], None]) -> None:
        self._send = send
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._reservations: dict[int, _Reservation] = {}
        self._is_given_up = False

    def ask(self, site: str | None, limit: int | None, granted: Callable[[], None]) -> int | None:
        """Ask for a slot. Longest wait first; between runs, the one with the fewest slots at the site.

        Args:
            site: The site; None for a copy that counts for no site.
            limit: How many copies this run allows there at a time, >= 1; the lowest limit of all runs applies.
            granted: Called once it is granted, on another thread, never during this call.

        Returns:
            Its number; None once the server is gone for good: then only the run's own limits apply.
        """
        number = self._added(_Reservation(site=site, limit=limit, on_grant=granted))
        if number is not None:
            self._send(AskSlot(number=number, site=site, limit=limit))
        return number

    def claim(self, site: str | None, limit: int | None) -> int | None:
        """Take a slot at once, even above the limit; arguments and result are those of `ask`."""
        number = self._added(_Reservation(site=site, limit=limit, on_grant=None))
        if number is not None:
            self._send(ClaimSlot(number=number, site=site, limit=limit))
        return number

    def free(self, number: int) -> None:
        """Release a slot, or stop waiting for it."""
        with self._lock:
            known = self._reservations.pop(number, None) is not None
        if known:
            self._send(FreeSlot(number=number))

    def take(self, numbers: Iterable[int]) -> None:
        """Note slots that were granted; those released meanwhile are ignored."""
        for number in numbers:
            with self._lock:
                one = self._reservations.get(number)
                granted = one.on_grant if one is not None else None
                if one is not None:
                    one.on_grant = None
            if granted is not None:
                granted()

    def again(self) -> tuple[Request, ...]:
        """Return the requests for a server that knows nothing of this run: held slots first, then awaited ones."""
        with self._lock:
            in_order = sorted(self._reservations.items(), key=lambda item: item[1].on_grant is not None)
            return tuple(
                (ClaimSlot if one.on_grant is None else AskSlot)(number=number, site=one.site, limit=one.limit)
                for number, one in in_order
            )

    def give_up(self) -> None:
        """Grant everything that is waited for: the server is gone, and only the run's own limits apply."""
        with self._lock:
            self._is_given_up = True
            waiting = [number for number, one in self._reservations.items() if one.on_grant is not None]
        self.take(waiting)

    def _added(self, reservation: _Reservation) -> int | None:
        with self._lock:
            if self._is_given_up:
                return None
            number = next(self._numbers)
            self._reservations[number] = reservation
            return number
