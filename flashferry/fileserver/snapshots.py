"""What the parent keeps of each ticket: the newest snapshot, and of finished ones less and less.

Facts
-----

- A record with its samples takes up to 30 kB. Whoever waits for a transfer reads it when it ends.
- So the latest finished tickets keep all of their record, older ones keep it without samples and commands, and the
  oldest are forgotten. A ticket that is not finished is never forgotten.
- Hundreds of threads may wait for news, each of a ticket of its own: one's news wakes nobody else.
"""

import threading
from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from flashferry.fileserver.errors import TicketUnknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from flashferry.fileserver.records import TransferProgress


class TicketConditions:
    """Conditions by ticket, each there for as long as somebody waits for it.

    Args:
        lock: Guards what the news are about, and this; all methods are called with it held.
    """

    def __init__(self, lock: "threading.RLock") -> None:
        self._lock = lock
        self._conditions: dict[str, threading.Condition] = {}
        self._waiters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._conditions)

    @contextmanager
    def condition(self, ticket_id: str) -> "Iterator[threading.Condition]":
        """Lend the condition of a ticket; waiting on it lets the lock go."""
        condition = self._conditions.setdefault(ticket_id, threading.Condition(self._lock))
        self._waiters[ticket_id] += 1
        try:
            yield condition
        finally:
            self._waiters[ticket_id] -= 1
            if not self._waiters[ticket_id]:
                del self._conditions[ticket_id], self._waiters[ticket_id]

    def wake(self, ticket_id: str) -> None:
        """Wake who waits for a ticket."""
        condition = self._conditions.get(ticket_id)
        if condition is not None:
            condition.notify_all()

    def wake_all(self) -> None:
        """Wake everybody."""
        for condition in self._conditions.values():
            condition.notify_all()


WHOLE_RECORDS = 256
"""So many finished tickets keep samples and commands ..."""

BRIEF_RECORDS = 2_000
"""... and so many more the rest of their record."""


class Snapshots:
    """The newest snapshot of each ticket."""

    def __init__(self) -> None:
        self._under_way: dict[str, TransferProgress] = {}
        self._whole: OrderedDict[str, TransferProgress] = OrderedDict()
        self._brief: OrderedDict[str, TransferProgress] = OrderedDict()

    def __len__(self) -> int:
        return len(self._under_way) + len(self._whole) + len(self._brief)

    def find(self, ticket_id: str) -> "TransferProgress | None":
        """Return a ticket's newest snapshot; None if it is not known, or no longer."""
        return self._under_way.get(ticket_id) or self._whole.get(ticket_id) or self._brief.get(ticket_id)

    def get(self, ticket_id: str) -> "TransferProgress":
        """Return a ticket's newest snapshot.

        Raises:
            TicketUnknown: It is not known, or finished so long ago that it was forgotten.
        """
        found = self.find(ticket_id)
        if found is None:
            raise TicketUnknown(f"ticket {ticket_id!r}: not issued by this server, or finished long ago")
        return found

    def under_way(self) -> "Iterable[TransferProgress]":
        """Return the snapshots of tickets that have not come to an end."""
        return self._under_way.values()

    def put(self, progress: "TransferProgress", *, new_transfer: bool = False) -> None:
        """Keep a snapshot; the record of the last transfer stays until a new one begins."""
        before = self.find(progress.ticket_id)
        if progress.record is None and before is not None and before.record is not None and not new_transfer:
            progress = replace(progress, record=before.record)
        if not progress.state.is_final and progress.ticket_id in self._under_way:
            # By far the most: progress of a copy that goes on.
            self._under_way[progress.ticket_id] = progress
            return
        for place in (self._under_way, self._whole, self._brief):
            place.pop(progress.ticket_id, None)
        if not progress.state.is_final:
            self._under_way[progress.ticket_id] = progress
            return
        self._whole[progress.ticket_id] = progress
        if len(self._whole) > WHOLE_RECORDS:
            ticket_id, oldest = self._whole.popitem(last=False)
            self._brief[ticket_id] = _brief(oldest)
        if len(self._brief) > BRIEF_RECORDS:
            self._brief.popitem(last=False)


def _brief(progress: "TransferProgress") -> "TransferProgress":
    if progress.record is None:
        return progress
    return replace(progress, record=replace(progress.record, samples=(), commands=()))
