"""What the parent knows of the server: the newest snapshot of each ticket, who waits for news, and who hears all of it.

Facts
-----

- A record with its samples takes up to 30 kB. It is read when a transfer ends.
- So the latest finished tickets keep all of their record, older ones keep it without samples and commands, and the
  oldest are forgotten. A ticket that is not finished is never forgotten.
- Hundreds of threads may wait, each for a change of its own ticket: a change of one ticket wakes no other thread.
- A ticket may be valid in several processes, which do not see each other. Their reports are merged here: a delivery is
  final, and while one process sends, the progress reports of the others are ignored.
"""

import threading
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from flashferry.fileserver.errors import ServerGone, TicketUnknown
from flashferry.fileserver.settings import LOG
from flashferry.fileserver.transfer_records import EventKind, LoginFailure, ServerEvent, TransferProgress, TransferState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from flashferry.fileserver.transfer_records import TicketUse
    from flashferry.fileserver.wire import ProgressUpdate

_SENDING = (TransferState.TRANSFERRING, TransferState.STALLED)
_MOST_FAILURES = 200
_MOST_NOTICES = 200


class TicketConditions:
    """Condition variables by ticket, each of which exists while a thread waits for it.

    Args:
        lock: Lock of the conditions, which guards this object and the snapshots; held in all calls.
    """

    def __init__(self, lock: "threading.RLock") -> None:
        self._lock = lock
        self._conditions: dict[str, threading.Condition] = {}
        self._waiters: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._conditions)

    @contextmanager
    def condition(self, ticket_id: str) -> "Iterator[threading.Condition]":
        """Yield the condition of a ticket; waiting on it releases the lock."""
        condition = self._conditions.setdefault(ticket_id, threading.Condition(self._lock))
        self._waiters[ticket_id] += 1
        try:
            yield condition
        finally:
            self._waiters[ticket_id] -= 1
            if not self._waiters[ticket_id]:
                del self._conditions[ticket_id], self._waiters[ticket_id]

    def wake(self, ticket_id: str) -> None:
        """Wake the threads that wait for a ticket."""
        condition = self._conditions.get(ticket_id)
        if condition is not None:
            condition.notify_all()

    def wake_all(self) -> None:
        """Wake all waiting threads."""
        for condition in self._conditions.values():
            condition.notify_all()


WHOLE_RECORDS = 256
"""Number of the newest finished tickets that keep samples and commands of their record."""

BRIEF_RECORDS = 2_000
"""Number of further finished tickets that keep the rest of their record."""


class Snapshots:
    """The newest snapshot of each ticket."""

    def __init__(self) -> None:
        self._homes: dict[str, tuple[str, ...]] = {}
        self._tries: dict[str, dict[str, int]] = {}
        self._in_progress: dict[str, TransferProgress] = {}
        self._whole: OrderedDict[str, TransferProgress] = OrderedDict()
        self._brief: OrderedDict[str, TransferProgress] = OrderedDict()

    def __len__(self) -> int:
        return len(self._in_progress) + len(self._whole) + len(self._brief)

    def find(self, ticket_id: str) -> TransferProgress | None:
        """Return a ticket's newest snapshot; None if it is not known, or no longer."""
        return self._in_progress.get(ticket_id) or self._whole.get(ticket_id) or self._brief.get(ticket_id)

    def homes(self, ticket_id: str) -> tuple[str, ...]:
        """Return the processes in which a ticket is valid."""
        return self._homes.get(ticket_id, ())

    def put_homes(self, ticket_id: str, processes: tuple[str, ...]) -> None:
        """Store the processes in which a ticket is valid."""
        self._homes[ticket_id] = processes

    def tries(self, ticket_id: str) -> dict[str, int]:
        """Return how many tries of a ticket each process has used."""
        return self._tries.get(ticket_id, {})

    def put_tries(self, ticket_id: str, process: str, tries: int) -> None:
        """Store how many tries of a ticket a process has used."""
        self._tries.setdefault(ticket_id, {})[process] = tries

    def get(self, ticket_id: str) -> TransferProgress:
        """Return a ticket's newest snapshot.

        Raises:
            TicketUnknown: It is not known, or finished so long ago that it was forgotten.
        """
        found = self.find(ticket_id)
        if found is None:
            raise TicketUnknown(f"ticket {ticket_id!r}: not issued by this server, or finished long ago")
        return found

    def in_progress(self) -> "Iterable[TransferProgress]":
        """Return the snapshots of tickets that have not come to an end."""
        return self._in_progress.values()

    def put(self, progress: TransferProgress, *, new_transfer: bool = False) -> None:
        """Store a snapshot; the record of the last transfer is kept until a new one starts."""
        before = self.find(progress.ticket_id)
        if progress.record is None and before is not None and before.record is not None and not new_transfer:
            progress = replace(progress, record=before.record)
        if not progress.state.is_final and progress.ticket_id in self._in_progress:
            # By far the most: progress of a copy that goes on.
            self._in_progress[progress.ticket_id] = progress
            return
        for place in (self._in_progress, self._whole, self._brief):
            place.pop(progress.ticket_id, None)
        if not progress.state.is_final:
            self._in_progress[progress.ticket_id] = progress
            return
        self._whole[progress.ticket_id] = progress
        if len(self._whole) > WHOLE_RECORDS:
            ticket_id, oldest = self._whole.popitem(last=False)
            self._brief[ticket_id] = _brief(oldest)
        if len(self._brief) > BRIEF_RECORDS:
            forgotten = self._brief.popitem(last=False)[0]
            self._homes.pop(forgotten, None)
            self._tries.pop(forgotten, None)


class Telemetry:
    """Merged reports of a server's processes. Thread-safe."""

    def __init__(self, processes: tuple[str, ...] = ("main",)) -> None:
        self._processes = processes
        # Processes that have ended: the reason, and whether they were asked to.
        self._ends: dict[str, tuple[str, bool]] = {}
        # The process that sends, or sent last, by ticket, for tickets valid in several processes.
        self._senders: dict[str, str] = {}
        self._changed = threading.RLock()
        self._waiting = TicketConditions(self._changed)
        self._snapshots = Snapshots()
        self._failures: list[LoginFailure] = []
        self._notices: list[str] = []
        self._callbacks: list[Callable[[ServerEvent], None]] = []
        # Tickets that ended with their process, each with the reason.
        self._invalid: dict[str, str] = {}

    @property
    def gone(self) -> str:
        """Why the server has ended, all of its processes; empty while one runs."""
        with self._changed:
            if len(self._ends) < len(self._processes):
                return ""
            return next((why for why, in_order in self._ends.values() if not in_order), self._first_end())

    @property
    def ended_in_order(self) -> bool:
        """Whether it ended because it was asked to; True while it runs."""
        with self._changed:
            return not self.gone or all(in_order for _, in_order in self._ends.values())

    def gone_of(self, process: str) -> str:
        """Return why one process has ended; empty while it runs."""
        with self._changed:
            return self._ends.get(process, ("", True))[0]

    def _first_end(self) -> str:
        return next(iter(self._ends.values()))[0]

    @property
    def failures(self) -> tuple[LoginFailure, ...]:
        """Failed logins that belong to no ticket; the latest 200."""
        with self._changed:
            return tuple(self._failures)

    @property
    def notices(self) -> tuple[str, ...]:
        """Notices of the server about itself; the latest 200."""
        with self._changed:
            return tuple(self._notices)

    def _keep_notice(self, text: str) -> None:
        self._notices = [*self._notices, text][-_MOST_NOTICES:]

    def add(self, first: TransferProgress, processes: tuple[str, ...]) -> None:
        """Store the processes in which a ticket is valid and, unless one was reported already, its first snapshot."""
        with self._changed:
            self._snapshots.put_homes(first.ticket_id, processes)
            if self._snapshots.find(first.ticket_id) is None:
                self._snapshots.put(first)

    def progress(self, ticket_id: str) -> TransferProgress:
        """Return the newest snapshot of a ticket.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
        """
        with self._changed:
            return self._snapshots.get(ticket_id)

    def wait(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until something about a ticket changes, and return its newest snapshot.

        Returns at once if the ticket has come to an end, and after `timeout_s` in any case.

        Raises:
            TicketUnknown: This server issued no such ticket, or it came to its end long ago.
            ServerGone: The server's process ended while the ticket was under way.
        """
        deadline_s = time.monotonic() + timeout_s
        with self._changed, self._waiting.condition(ticket_id) as news:
            before = self._snapshots.get(ticket_id)
            while True:
                if ticket_id in self._invalid:
                    raise ServerGone(self._invalid[ticket_id])
                now = self._snapshots.get(ticket_id)
                left_s = deadline_s - time.monotonic()
                if now.state.is_final or now.sequence != before.sequence or left_s <= 0:
                    return now
                news.wait(left_s)

    def wait_final(self, ticket_id: str, timeout_s: float) -> TransferProgress:
        """Wait until a ticket has come to an end or `timeout_s` are over; raises what `wait` does."""
        deadline_s = time.monotonic() + timeout_s
        progress = self.progress(ticket_id)
        while not progress.state.is_final and (left_s := deadline_s - time.monotonic()) > 0:
            progress = self.wait(ticket_id, left_s)
        return progress

    def events(self, callback: "Callable[[ServerEvent], None]") -> "Callable[[], None]":
        """Call a function for every event, on a thread of the server's; it must return quickly.

        The last event is of kind GONE; if the server has ended already, it is delivered at once.

        Returns:
            A function that ends the subscription.
        """
        with self._changed:
            self._callbacks.append(callback)
            gone = self.gone
        if gone:
            _call((callback,), _event(EventKind.GONE, gone))

        def unsubscribe() -> None:
            with self._changed:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return unsubscribe

    def take_updates(self, updates: "list[ProgressUpdate]") -> None:
        """Handle the progress of many transfers at once; events are only created for subscribers."""
        news = []
        with self._changed:
            for update in updates:
                before = self._snapshots.find(update.now.ticket_id)
                if before is not None:
                    progress = update.progress(before)
                    if len(self._snapshots.homes(update.now.ticket_id)) > 1:
                        progress = replace(progress, sequence=before.sequence + 1)
                    self._snapshots.put(progress)
                    self._waiting.wake(update.now.ticket_id)
                    news.append((update, progress))
            callbacks = tuple(self._callbacks)
        if callbacks:
            for update, progress in news:
                _call(callbacks, update.event(progress))

    def take_login_failure(self, failure: LoginFailure) -> None:
        """Handle a failed login that belongs to no ticket."""
        with self._changed:
            self._failures = [*self._failures, failure][-_MOST_FAILURES:]
        text = f"login refused for {failure.peer_address}: {failure.reason}, user {failure.username_masked}"
        self.take_event(
            ServerEvent(kind=EventKind.LOGIN_FAILED, at=failure.at, text=text, peer_address=failure.peer_address)
        )

    def take_event(self, event: ServerEvent, process: str = "main") -> None:
        """Handle an event of a process."""
        with self._changed:
            event = self._merged(event, process)
            if event.progress is not None:
                self._snapshots.put(event.progress, new_transfer=event.kind is EventKind.START)
            elif event.kind is EventKind.NOTICE:
                self._keep_notice(event.text)
            callbacks = tuple(self._callbacks)
            if event.progress is not None:
                self._waiting.wake(event.progress.ticket_id)
        _call(callbacks, event)

    def take_end(self, reason: str, in_order: bool, process: str = "main") -> None:
        """Invalidate the tickets of a process that had not ended, and notify subscribers.

        Where others go on it is a notice; the last one's end is the server's.
        """
        with self._changed:
            self._ends[process] = (reason, in_order)
            events = [event for before in tuple(self._snapshots.in_progress()) for event in self._lost(before, process)]
            self._waiting.wake_all()
            callbacks = tuple(self._callbacks)
            if self.gone:
                events.append(_event(EventKind.GONE, self.gone))
            elif not in_order:
                events.append(_event(EventKind.NOTICE, f"{reason} ('{process}'); the others go on"))
                self._keep_notice(events[-1].text)
        for event in events:
            _call(callbacks, event)

    def invalidate(self, ticket_ids: "Iterable[str]", reason: str) -> None:
        """Invalidate tickets that ended with a process of another server; waiting threads get `ServerGone`."""
        with self._changed:
            for ticket_id in ticket_ids:
                self._invalid[ticket_id] = reason
                self._waiting.wake(ticket_id)

    def invalid_reason(self, ticket_id: str) -> str:
        """Return why a ticket died with its process; empty where it did not."""
        with self._changed:
            return self._invalid.get(ticket_id, "")

    def begin_anew(self, process: str = "main") -> str:
        """Record that a new process replaces one that ended; return why that one ended."""
        with self._changed:
            return self._ends.pop(process, ("", True))[0]

    def stay_gone(self, why: str, process: str = "main") -> None:
        """Record that a process could not be replaced."""
        with self._changed:
            self._ends[process] = (why, False)

    def use_try(self, use: "TicketUse", process: str) -> bool:
        """Count a try of a ticket that a process used; its other reports come later.

        Returns:
            Whether the process knew of all attempts that others used: it is the newest then.
        """
        with self._changed:
            before = self._snapshots.find(use.ticket_id)
            tries = self._snapshots.tries(use.ticket_id)
            if before is not None:
                fresh = use.here - tries.get(process, 0)
                self._snapshots.put(replace(before, tries_left=max(0, before.tries_left - fresh)))
                self._snapshots.put_tries(use.ticket_id, process, use.here)
            return use.elsewhere == sum(count for name, count in tries.items() if name != process)

    def tries_elsewhere(self, ticket_id: str, process: str) -> dict[str, int]:
        """Return for each other process in which a ticket is valid how many tries all processes but it have used."""
        with self._changed:
            tries = self._snapshots.tries(ticket_id)
            homes = self._snapshots.homes(ticket_id)
            return {name: sum(tries.values()) - tries.get(name, 0) for name in homes if name != process}

    def is_delivered(self, ticket_id: str) -> bool:
        """Return whether a process has delivered with a ticket."""
        with self._changed:
            progress = self._snapshots.find(ticket_id)
            return progress is not None and progress.state is TransferState.DELIVERED

    def _merged(self, event: ServerEvent, process: str) -> ServerEvent:
        """Merge an event of a ticket that is valid in several processes; return any other event unchanged."""
        after = event.progress
        if after is None:
            return event
        homes = self._snapshots.homes(after.ticket_id)
        if not homes:
            # Opened by the process itself, for a fixed login.
            self._snapshots.put_homes(after.ticket_id, (process,))
        before = self._snapshots.find(after.ticket_id)
        if len(homes) < 2 or before is None:
            return event
        if event.kind is EventKind.START:
            self._senders[after.ticket_id] = process
        is_sender = self._senders.get(after.ticket_id) == process
        if is_sender and after.state.is_final:
            del self._senders[after.ticket_id]
        if _speaks(before, after, is_sender):
            tries_left = min(before.tries_left, after.tries_left)
            return replace(event, progress=replace(after, sequence=before.sequence + 1, tries_left=tries_left))
        return replace(event, kind=EventKind.NOTICE, progress=replace(before, sequence=before.sequence + 1))

    def _lost(self, before: TransferProgress, process: str) -> "Iterator[ServerEvent]":
        """Invalidate a ticket of a process that ended, if it was valid in no other."""
        ticket_id = before.ticket_id
        homes = self._snapshots.homes(ticket_id)
        if process not in homes:
            return
        reason, others = self._ends[process][0], tuple(home for home in homes if home != process)
        self._snapshots.put_homes(ticket_id, others)
        if not others:
            self._invalid[ticket_id] = reason
        elif self._senders.get(ticket_id) != process:
            return
        # A ticket that no client used is not reported.
        if before.state is not TransferState.WAITING:
            lost = replace(before, state=TransferState.FAILED, sequence=before.sequence + 1, last_error=reason)
            self._snapshots.put(lost)
            yield _event(EventKind.FAILED, reason, lost)

    def notice(self, text: str) -> None:
        """Report something about the server as a whole."""
        self.take_event(_event(EventKind.NOTICE, text))


def _brief(progress: TransferProgress) -> TransferProgress:
    if progress.record is None:
        return progress
    return replace(progress, record=replace(progress.record, samples=(), commands=()))


def _speaks(before: TransferProgress, after: TransferProgress, is_sender: bool) -> bool:
    """Return whether a process's report of a shared ticket is the ticket's progress."""
    if before.state is TransferState.DELIVERED:
        return after.state is TransferState.DELIVERED
    if is_sender or after.state is TransferState.DELIVERED:
        return True
    # It expired in each of them: reported once.
    return before.state not in _SENDING and not (before.state.is_final and after.state.is_final)


def _event(kind: EventKind, text: str, progress: TransferProgress | None = None) -> ServerEvent:
    address = progress.peer_address if progress is not None else None
    return ServerEvent(kind=kind, at=time.time(), text=text, peer_address=address, progress=progress)


def _call(callbacks: "tuple[Callable[[ServerEvent], None], ...]", event: ServerEvent) -> None:
    for callback in callbacks:
        try:
            callback(event)
        except Exception:  # noqa: BLE001
            # A callback that fails must not stop the telemetry for the others.
            LOG.exception("a callback for server events failed")
