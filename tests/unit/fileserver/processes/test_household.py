"""What one process of a server says, and in which order the parent and the other processes hear of it."""

from typing import Any

from flashferry.fileserver import ListenerSettings, ServerSettings
from flashferry.fileserver.processes.household import Household, Voice
from flashferry.fileserver.records import EventKind, ServerEvent, TransferProgress, TransferState
from flashferry.fileserver.telemetry import Telemetry
from flashferry.fileserver.wire import UseElsewhere


class Asking:
    """Another process: whatever it hears, somebody asks the parent for the ticket before anything else happens."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self.heard: list[tuple[Any, TransferProgress]] = []

    def tell(self, request: Any) -> None:
        self.heard.append((request, self._telemetry.progress("t")))


def _event(kind: EventKind, state: TransferState, tries_left: int) -> ServerEvent:
    progress = TransferProgress(ticket_id="t", state=state, sequence=9, size_bytes=9, tries_left=tries_left)
    return ServerEvent(kind=kind, at=1.0, text="", peer_address=None, progress=progress)


def test_a_try_is_counted_here_before_the_others_hear_of_it() -> None:
    """They cut off what they send with the ticket, and whoever sees that finds here how many tries it has left."""
    telemetry = Telemetry(("main", "other"))
    settings = ServerSettings(image_paths=(), listeners=(ListenerSettings(protocol="nobody:LISTENS"),))
    household = Household(settings, telemetry, restarts=0)
    main, other = Asking(telemetry), Asking(telemetry)
    children: Any = {"main": main, "other": other}
    household._children = children
    before = TransferProgress(ticket_id="t", state=TransferState.WAITING, sequence=0, size_bytes=9, tries_left=2)
    telemetry.add(before, ("main", "other"))
    voices = {name: Voice(name, household, telemetry) for name in children}
    for tries_left, (name, hearing) in zip((1, 0), (("main", other), ("other", main)), strict=True):
        voices[name].take_event(_event(EventKind.NOTICE, TransferState.LOGGED_IN, tries_left))
        ((request, seen),) = hearing.heard
        assert request == UseElsewhere(ticket_id="t", tries_left=tries_left, is_delivered=False)
        assert seen.tries_left == tries_left
        voices[name].take_event(_event(EventKind.START, TransferState.TRANSFERRING, tries_left))
    assert (len(main.heard), len(other.heard)) == (1, 1)
    # What the first one still says of its own copy takes nothing back.
    voices["main"].take_event(_event(EventKind.FAILED, TransferState.FAILED, 1))
    seen = telemetry.progress("t")
    assert (seen.state, seen.tries_left) == (TransferState.TRANSFERRING, 0)
