"""Who waits for a ticket is woken by its news alone."""

import threading

from flashferry.fileserver.telemetry import TicketConditions
from tests.patience import PATIENCE_S


def _waiter(room: TicketConditions, lock: threading.RLock, ticket_id: str, woken: list[str]) -> threading.Thread:
    waiting = threading.Event()

    def wait() -> None:
        with lock, room.condition(ticket_id) as place:
            waiting.set()
            place.wait(PATIENCE_S)
            woken.append(ticket_id)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait(PATIENCE_S)
    return thread


def test_news_wake_only_who_waits_for_them() -> None:
    """A ticket's news wake its own waiters, all of them, and nobody else's."""
    lock, woken = threading.RLock(), []
    room = TicketConditions(lock)
    ours = [_waiter(room, lock, "a", woken) for _ in range(2)]
    other = _waiter(room, lock, "b", woken)
    with lock:
        room.wake("a")
        room.wake("nobody waits for this one")
    for thread in ours:
        thread.join()
    assert woken == ["a", "a"]
    with lock:
        room.wake_all()
    other.join()
    assert woken == ["a", "a", "b"]
    assert len(room) == 0, "nothing is kept of tickets that nobody waits for"
