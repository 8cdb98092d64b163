"""What one process of a server says, and in which order the parent and the other processes hear of it."""

from dataclasses import dataclass
from typing import Any

import pytest

from flashferry.fileserver import ListenerSettings, ServerSettings
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.transfer_records import EventKind, ServerEvent, TicketUse, TransferProgress, TransferState
from flashferry.fileserver.wire import (
    AttemptsElsewhere,
    AttemptUsed,
    DecideAttempt,
    EventMessage,
    Open,
    SetSiteCap,
    Yielded,
)
from flashferry.fileserver.workers import WorkerEvents, WorkerPool


class Asking:
    """Another process: whatever it hears, somebody asks the parent for the ticket before anything else happens."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.heard: list[tuple[Any, TransferProgress]] = []

    def post(self, request: Any) -> None:
        self.heard.append((request, self._telemetry.progress("t")))


@dataclass
class Shared:
    """Processes of a server that share a ticket."""

    telemetry: Telemetry
    events: dict[str, WorkerEvents]
    children: dict[str, Asking]

    def heard(self, name: str) -> list[Any]:
        """Return what a process was sent."""
        return [request for request, _ in self.children[name].heard]


def _event(kind: EventKind, state: TransferState, tries_left: int) -> ServerEvent:
    progress = TransferProgress(ticket_id="t", state=state, sequence=9, size_bytes=9, tries_left=tries_left)
    return ServerEvent(kind=kind, at=1.0, text="", peer_address=None, progress=progress)


@pytest.fixture
def shared() -> Shared:
    """Two processes, and a ticket with two tries that is good in both."""
    telemetry = Telemetry(("main", "other"))
    settings = ServerSettings(image_paths=(), listeners=(ListenerSettings(protocol="nobody:LISTENS"),))
    workers = WorkerPool(settings, telemetry, restarts=0)
    children: Any = {"main": Asking(telemetry), "other": Asking(telemetry)}
    workers._children = children
    before = TransferProgress(ticket_id="t", state=TransferState.WAITING, sequence=0, size_bytes=9, tries_left=2)
    telemetry.add(before, ("main", "other"))
    return Shared(telemetry, {name: WorkerEvents(name, workers, telemetry) for name in children}, children)


def test_a_try_is_counted_here_before_the_others_hear_of_it(shared: Shared) -> None:
    """They cut off what they send with the ticket, and whoever sees that finds here how many tries it has left."""
    telemetry, events = shared.telemetry, shared.events
    main, other = shared.children["main"], shared.children["other"]
    for tries_left, (name, reader) in zip((1, 0), (("main", other), ("other", main)), strict=True):
        events[name].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=1 - tries_left)))
        ((request, seen),) = reader.heard
        assert request == AttemptsElsewhere(ticket_id="t", tries=1)
        assert seen.tries_left == tries_left
        events[name].on_message(EventMessage(event=_event(EventKind.NOTICE, TransferState.LOGGED_IN, tries_left)))
        events[name].on_message(EventMessage(event=_event(EventKind.START, TransferState.TRANSFERRING, tries_left)))
    assert (len(main.heard), len(other.heard)) == (1, 1)
    # What the first one still says of its own copy takes nothing back.
    events["main"].on_message(EventMessage(event=_event(EventKind.FAILED, TransferState.FAILED, 1)))
    seen = telemetry.progress("t")
    assert (seen.state, seen.tries_left) == (TransferState.TRANSFERRING, 0)


def test_tries_used_at_the_same_moment_count_each(shared: Shared) -> None:
    """Neither process had heard of the other's: two are used, and the copy that was heard of first goes on alone."""
    for name in ("main", "other"):
        shared.events[name].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
        shared.events[name].on_message(EventMessage(event=_event(EventKind.NOTICE, TransferState.LOGGED_IN, 1)))
    assert shared.telemetry.progress("t").tries_left == 0
    assert shared.heard("other") == [
        AttemptsElsewhere(ticket_id="t", tries=1, yields=True),
        DecideAttempt(ticket_id="t", here=1, goes_on=False),
    ]
    assert shared.heard("main") == [AttemptsElsewhere(ticket_id="t", tries=1, yields=False)]
    # Having heard of it, the other tries again, and now it is the newest.
    shared.children["other"].heard.clear()
    shared.events["other"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=2, elsewhere=1)))
    assert shared.heard("main")[-1] == AttemptsElsewhere(ticket_id="t", tries=2, yields=True)
    assert shared.telemetry.progress("t").tries_left == 0


_GOES_ON = DecideAttempt(ticket_id="t", here=1, goes_on=True)
_GIVES_WAY = DecideAttempt(ticket_id="t", here=1, goes_on=False)


def test_a_try_goes_on_when_the_other_process_sends_nothing(shared: Shared) -> None:
    """Not before that one says so; and once, whatever else it says."""
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
    assert shared.heard("main") == []
    shared.events["other"].on_message(Yielded(ticket_id="t"))
    shared.events["other"].on_message(Yielded(ticket_id="t"))
    assert shared.heard("main") == [_GOES_ON]


def test_a_try_gives_way_to_a_delivery_that_was_under_way(shared: Shared) -> None:
    """The other process had handed its last byte over: it says first that it delivered, then that it sends nothing."""
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
    shared.events["other"].on_message(EventMessage(event=_event(EventKind.DONE, TransferState.DELIVERED, 1)))
    shared.events["other"].on_message(Yielded(ticket_id="t"))
    assert shared.heard("main")[-1] == _GIVES_WAY


def test_a_try_does_not_wait_for_a_process_that_ended(shared: Shared) -> None:
    """Nothing of it sends any more, whether it ends meanwhile or was gone before; nor is its own try waited with."""
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
    shared.events["other"].on_end("killed", False)
    assert shared.heard("main") == [_GOES_ON]


def test_the_newest_try_alone_waits(shared: Shared) -> None:
    """One that used a newer try of its own, or of another process, before the first was decided on."""
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=2, elsewhere=0)))
    shared.events["other"].on_message(Yielded(ticket_id="t"))
    assert shared.heard("main") == [DecideAttempt(ticket_id="t", here=2, goes_on=True)]


def test_a_delivery_is_told_with_the_tries(shared: Shared) -> None:
    """The other process lets nobody in with the ticket from then on."""
    shared.events["main"].on_message(AttemptUsed(use=TicketUse(ticket_id="t", here=1, elsewhere=0)))
    shared.events["main"].on_message(EventMessage(event=_event(EventKind.DONE, TransferState.DELIVERED, 1)))
    assert shared.children["other"].heard[-1][0] == AttemptsElsewhere(ticket_id="t", tries=1, is_delivered=True)


class Started:
    """A process that keeps what it is asked."""

    ports = (2121,)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def ask_to_stop(self) -> None:
        self.asked.append("stop")

    def close(self, *_: Any) -> None:
        self.asked.append("close")

    is_draining = is_blocking = False

    def take_turn(self) -> int:
        return 0

    def ask(self, request: Any, _kind: Any = None) -> None:
        self.asked.append({Open: "open", SetSiteCap: "cap"}[type(request)])


def test_a_process_in_the_place_of_another_opens_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that came to it before its login is known there would be refused."""
    telemetry = Telemetry()
    settings = ServerSettings(image_paths=(), listeners=(ListenerSettings(protocol="nobody:LISTENS"),))
    workers = WorkerPool(settings, telemetry, restarts=1)
    first, second = made = (Started(), Started())
    starting: Any = iter(made)
    monkeypatch.setattr(workers, "_started", lambda *_: next(starting))
    workers.start()
    workers.ask_lasting(SetSiteCap(site="AMS", cap_bytes_per_s=1, source=""))
    assert first.asked == ["cap"]
    workers.open()
    telemetry.take_end("killed", False)
    workers.ask_all(None)
    assert (first.asked, second.asked) == (["cap", "open", "close"], ["cap", "open"])
    workers.close()
    assert second.asked[2:] == ["stop", "close"]
