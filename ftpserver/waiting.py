"""Threads that wait for news, each of a ticket of its own: hundreds may wait, and one's news wakes nobody else."""

import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class WaitingRoom:
    """Conditions by ticket, each there for as long as somebody waits for it.

    Args:
        lock: Guards what the news are about, and this; all methods are called with it held.
    """

    def __init__(self, lock: "threading.RLock") -> None:
        self._lock = lock
        self._places: dict[str, threading.Condition] = {}
        self._waiters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._places)

    @contextmanager
    def place(self, ticket_id: str) -> "Iterator[threading.Condition]":
        """Lend the condition of a ticket; waiting on it lets the lock go."""
        place = self._places.setdefault(ticket_id, threading.Condition(self._lock))
        self._waiters[ticket_id] += 1
        try:
            yield place
        finally:
            self._waiters[ticket_id] -= 1
            if not self._waiters[ticket_id]:
                del self._places[ticket_id], self._waiters[ticket_id]

    def wake(self, ticket_id: str) -> None:
        """Wake who waits for a ticket."""
        place = self._places.get(ticket_id)
        if place is not None:
            place.notify_all()

    def wake_all(self) -> None:
        """Wake everybody."""
        for place in self._places.values():
            place.notify_all()
