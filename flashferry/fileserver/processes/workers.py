"""The parent's view of its serving processes: started and replaced, asked one by one or all together.

Facts
-----

- A protocol that needs another event loop, or a library of its own, is served by a process of its own. What ends one
  leaves the others as they are.
- A process speaks on a thread of ours that reads it. So what one is told because another said something is sent and
  not waited for: the two threads would wait for each other.
"""

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from flashferry.core.apart.processes import is_stopped
from flashferry.fileserver.child import ENDING_TURNS, SILENT_TURNS, STOP_S, Child
from flashferry.fileserver.errors import FileServerError, ServerGone, SettingsInvalid
from flashferry.fileserver.rate_limits import SiteLoad, elsewhere
from flashferry.fileserver.records import EventKind
from flashferry.fileserver.wire import DecideTry, SetElsewhere, UseElsewhere

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.records import LoginFailure, ServerEvent
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.telemetry import Telemetry
    from flashferry.fileserver.ticket_accounts import TicketUse
    from flashferry.fileserver.tickets import TicketGrant
    from flashferry.fileserver.wire import ProgressUpdate


_WATCH_S = 1.0


def _hangs(name: str, pid: int) -> str:
    stopped = is_stopped(pid)
    state = f"was stopped by a signal; 'kill -CONT {pid}' has it go on" if stopped else "hangs"
    return (
        f"the server's process '{name}' (process {pid}) has not answered for {SILENT_TURNS * _WATCH_S:.0f} s: "
        f"it {state}. Its copies stand still; 'kill -KILL {pid}' ends it and them"
    )


class LocalSender(Protocol):
    """Somebody who sends images in this process, and shares sites with the serving processes."""

    def note(self, load: SiteLoad, /) -> None:
        """Put down what all others do at a site; it must return at once."""

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str, /) -> None:
        """Take in what the transfers of a site may take together."""

    def set_site_link(self, site: str, link_bytes_per_s: int | None, /) -> None:
        """Take in what a site's link carries."""

    def admit(self, grant: "FixedGrant", /) -> None:
        """Take in a fixed login."""


class WorkerEvents:
    """What one process says, on its way to whoever it concerns.

    Args:
        name: The process.
        household: Tells the other processes what they have to know.
        telemetry: Takes what is for everybody.
    """

    def __init__(self, name: str, household: "WorkerPool", telemetry: "Telemetry") -> None:
        self._name, self._household, self._telemetry = name, household, telemetry

    def take_event(self, event: "ServerEvent") -> None:
        """Take something that happened."""
        self._household.pass_on(event, self._name)
        self._telemetry.take_event(event, self._name)

    def take_pulses(self, pulses: "list[ProgressUpdate]") -> None:
        """Take the progress of many transfers at once."""
        self._telemetry.take_pulses(pulses)

    def take_login_failure(self, failure: "LoginFailure") -> None:
        """Take a login that no ticket is concerned with."""
        self._telemetry.take_login_failure(failure)

    def take_use(self, use: "TicketUse") -> None:
        """Take that it used a try of a ticket."""
        self._household.take_use(use, self._name)

    def take_gave_way(self, ticket_id: str) -> None:
        """Take that it sends nothing with a ticket any more."""
        self._household.take_gave_way(ticket_id, self._name)

    def take_load(self, load: SiteLoad) -> None:
        """Take what the process does at a site."""
        self._household.take_load(load, self._name)

    def take_end(self, reason: str, in_order: bool) -> None:
        """Take its end."""
        self._household.forget_loads(self._name)
        self._telemetry.take_end(reason, in_order, self._name)
        self._household.forget_tries(self._name)


@dataclass(slots=True, kw_only=True)
class _Asked:
    """A try that waits until no other process sends with its ticket.

    Attributes:
        process: Whose try it is.
        here: Its number there.
        awaited: The processes that have not said yet that they send nothing.
    """

    process: str
    here: int
    awaited: set[str]


class WorkerPool:
    """The processes of a server. Methods may be called from any thread.

    Args:
        settings: How the server is to run.
        telemetry: What is told by them, and that they have ended.
        restarts: How many times one that died may be replaced, all of them together.
        has_guests: Whether somebody else may send besides, see `join`.
    """

    def __init__(
        self, settings: "ServerSettings", telemetry: "Telemetry", restarts: int, *, has_guests: bool = False
    ) -> None:
        self._settings = settings
        self._has_guests = has_guests
        self._guests: dict[str, LocalSender] = {}
        self._telemetry = telemetry
        self._restarts_left = restarts
        self._is_open = False
        # Those that hang, and whether all are to end: who hangs then is not waited for.
        self._hung: frozenset[str] = frozenset()
        self._is_ending = False
        self._is_over = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="fileserver-watch", daemon=True)
        self._starting = threading.Lock()
        self._children: dict[str, Child] = {}
        # What a new process has to be told: the last word on each site's cap and link, and each fixed login.
        self._standing: dict[tuple[str, str], Callable[[Child], None]] = {}
        self._counting_tries = threading.Lock()
        # The newest try of each ticket that waits for its turn.
        self._asked: dict[str, _Asked] = {}
        self._counting = threading.Lock()
        self._loads: dict[str, dict[str, SiteLoad]] = {}

    def start(self) -> None:
        """Start all of them, which take no session yet; where one does not come up, those that did are stopped.

        Raises:
            ServerStartFailed: One did not come up.
        """
        try:
            for name in self._settings.processes:
                self._children[name] = self._started(name, self._settings.of_process(name))
        except FileServerError:
            self.close()
            raise
        self._watching.start()

    def open(self) -> None:
        """Have all of them take sessions from now on; again is harmless.

        Raises:
            ServerGone: None runs.
        """
        # First: one that is replaced meanwhile is opened as its place is taken.
        self._is_open = True
        self.tell_living(lambda child: child.open())

    def close(self) -> None:
        """Stop all of them at once, and kill what has not ended after `child.STOP_S`; none is replaced any more."""
        self._restarts_left = 0
        self._is_ending = True
        children = tuple(self._children.values())
        for child in children:
            child.ask_to_stop()
        # Together: each has as long as if it were the only one, and all of them no longer than that.
        deadline_s = time.monotonic() + STOP_S
        for child in children:
            child.close(deadline_s)
        self._is_over.set()
        if self._watching.is_alive() and threading.current_thread() is not self._watching:
            self._watching.join()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the server's listeners."""
        ports = {name: iter(child.ports) for name, child in self._latest().items()}
        return tuple(next(ports[listener.process]) for listener in self._settings.listeners)

    @property
    def pids(self) -> dict[str, int]:
        """The process ids by name, the last one of each."""
        return {name: child.pid for name, child in self._latest().items()}

    @property
    def first(self) -> "Child":
        """The process of the first listener."""
        return next(iter(self._latest().values()))

    def add_ticket(self, grant: "TicketGrant") -> None:
        """Have those processes take a ticket in that serve one of its transports.

        Raises:
            SettingsInvalid: None does.
            ServerGone: None of them runs.
        """
        names = self._serving(grant)
        living = [name for name in names if self._is_alive(name)] or names[:1]
        is_shared = len(living) > 1
        first, gone = None, ServerGone("none of its processes runs")
        for name in living:
            try:
                first = self._running(name).add_ticket(grant, is_shared=is_shared)
            except ServerGone as error:
                # One that hangs takes it in should it go on; meanwhile the others serve it.
                if name not in self._hung:
                    raise
                gone = error
        if first is None:
            raise gone
        self._telemetry.add(first, tuple(living))

    def tell_for_good(self, what: str, name: str, tell: "Callable[[Child], None]") -> None:
        """Tell all of them something that one in their place has to be told too; raises what `tell_living` does."""
        self.tell_living(tell)
        self._standing[what, name] = tell
        for guest in tuple(self._guests.values()):
            tell(cast("Child", guest))

    def join(self, name: str, guest: LocalSender) -> None:
        """Have somebody who is no process of ours take part: told what the processes are told, and what they do."""
        for tell in tuple(self._standing.values()):
            tell(cast("Child", guest))
        with self._counting:
            self._guests[name] = guest
            for site, loads in self._loads.items():
                guest.note(elsewhere(loads, site, name))

    def part(self, name: str) -> None:
        """Have somebody who joined take part no more; what he was at is over."""
        with self._counting:
            self._guests.pop(name, None)
        self.forget_loads(name)

    def tell_living(self, tell: "Callable[[Child], None]") -> None:
        """Tell something to all that run; where none does one is started, if that is allowed.

        Raises:
            ServerGone: None runs.
        """
        names = tuple(self._latest())
        living = [name for name in names if self._is_alive(name)] or names[:1]
        told = [self._told(name, tell) for name in living]
        if None not in told:
            raise next(error for error in told if error is not None)

    def check(self) -> None:
        """Look whether any of them runs, or may be replaced; none is started here.

        Raises:
            ServerGone: All have ended for good.
        """
        names = tuple(self._latest())
        if not any(self._is_alive(name) for name in names):
            raise ServerGone(self._telemetry.gone_of(names[0]))

    def drain(self) -> int:
        """Have all of them end with their last transfer, and return how many transfers are under way.

        Raises:
            ServerGone: None runs.
        """
        self._restarts_left = 0
        self._is_ending = True
        under_way: list[int] = []
        self.tell_living(lambda child: under_way.append(child.drain()))
        return sum(under_way)

    # Whether they answer.

    def _watch(self) -> None:
        """Take a turn with each process every second: one that hangs is reported, and when it answers again."""
        while not self._is_over.wait(_WATCH_S):
            for name, child in tuple(self._children.items()):
                if not self._telemetry.gone_of(name):
                    self._check(name, child, child.take_turn())

    def _check(self, name: str, child: "Child", silent: int) -> None:
        is_hung = silent >= SILENT_TURNS
        if is_hung and name not in self._hung:
            self._hung |= {name}
            self._telemetry.notice(_hangs(name, child.pid))
            # Its copies stand still. Should it go on, the first it reads is that a newer try has taken their place.
            self.forget_tries(name)
        elif not is_hung and name in self._hung:
            self._hung -= {name}
            self._telemetry.notice(f"the server's process '{name}' answers again")
        is_awaited = self._is_ending and silent >= (SILENT_TURNS if child.is_draining else ENDING_TURNS)
        if is_awaited or child.is_blocking:
            child.kill(f"'{name}' did not answer, and was killed")

    # What one process says and others have to know.

    def pass_on(self, event: "ServerEvent", process: str) -> None:
        """Tell the others who serve a ticket that it is delivered."""
        if event.progress is None or event.kind is not EventKind.DONE or len(self._children) < 2:
            return
        ticket_id = event.progress.ticket_id
        with self._counting_tries:
            for name, tries in self._telemetry.tries_elsewhere(ticket_id, process).items():
                self._send(name, UseElsewhere(ticket_id=ticket_id, tries=tries, is_delivered=True))

    def take_use(self, use: "TicketUse", process: str) -> None:
        """Count a try that a process used, and tell the others who serve the ticket.

        What they send with it gives way, unless the process had not heard of theirs: of tries used at the same moment
        the one that is heard of first goes on, and whoever used the other is told so already. The try is known here
        before they hear of it: who sees that one of them cuts its copy off asks here next.
        """
        # Sent while the count is held, so that what is told last is what holds.
        with self._counting_tries:
            is_newest = self._telemetry.use_try(use, process)
            others = self._telemetry.tries_elsewhere(use.ticket_id, process).items()
            reached = {
                name
                for name, tries in others
                if self._send(name, UseElsewhere(ticket_id=use.ticket_id, tries=tries, gives_way=is_newest))
            }
            if is_newest:
                # One that hangs says nothing, and gives way as soon as it reads again.
                awaited = reached - self._hung
                self._asked[use.ticket_id] = _Asked(process=process, here=use.here, awaited=awaited)
                self._decide(use.ticket_id)
            else:
                self._send(process, DecideTry(ticket_id=use.ticket_id, here=use.here, goes_on=False))

    def take_gave_way(self, ticket_id: str, process: str) -> None:
        """Note that a process sends nothing with a ticket any more, which it says after the end of what it sent."""
        with self._counting_tries:
            asked = self._asked.get(ticket_id)
            if asked is not None:
                asked.awaited.discard(process)
                self._decide(ticket_id)

    def forget_tries(self, process: str) -> None:
        """Note that a process sends nothing any more, and that no try of its waits; its end is known already."""
        with self._counting_tries:
            for ticket_id, asked in tuple(self._asked.items()):
                asked.awaited.discard(process)
                if asked.process == process:
                    del self._asked[ticket_id]
                else:
                    self._decide(ticket_id)

    def _decide(self, ticket_id: str) -> None:
        """Let the newest try of a ticket go on once no other process sends with it, unless one has delivered."""
        asked = self._asked[ticket_id]
        if asked.awaited:
            return
        del self._asked[ticket_id]
        is_delivered = self._telemetry.is_delivered(ticket_id)
        self._send(asked.process, DecideTry(ticket_id=ticket_id, here=asked.here, goes_on=not is_delivered))

    def take_load(self, load: SiteLoad, process: str) -> None:
        """Note what a process does at a site, and tell the others at once: they share its cap."""
        # Sent while the count is held, so that what is told last is what holds.
        with self._counting:
            self._note_load(load, process)

    def forget_loads(self, process: str) -> None:
        """Note that a process does nothing any more."""
        with self._counting:
            for site in tuple(self._loads):
                if process in self._loads[site]:
                    self._note_load(SiteLoad(site=site, transfers=0, moved_bytes=0), process)

    def _note_load(self, load: SiteLoad, process: str) -> None:
        loads = self._loads.setdefault(load.site, {})
        loads.pop(process, None)
        if load.transfers:
            loads[process] = load
        for name in tuple(self._children):
            if name != process:
                self._send(name, SetElsewhere(load=elsewhere(loads, load.site, name)))
        for name, guest in self._guests.items():
            if name != process:
                guest.note(elsewhere(loads, load.site, name))
        if not loads:
            del self._loads[load.site]

    def _send(self, name: str, request: SetElsewhere | UseElsewhere | DecideTry) -> bool:
        """Tell a process something, and return whether it is there: to one that has just ended there is no need."""
        try:
            self._children[name].tell(request)
        except OSError:
            return False
        return True

    # Which are asked, and what if they are gone.

    def _serving(self, grant: "TicketGrant") -> tuple[str, ...]:
        listeners = self._settings.listeners
        names = tuple(dict.fromkeys(one.process for one in listeners if grant.request.is_for(one.transports)))
        if not names:
            served = ", ".join(name for one in listeners for name in one.transports)
            raise SettingsInvalid(
                f"ticket: expected a transport that this server serves ({served}), "
                f"found {', '.join(grant.request.transports)}",
                hint="Give the server a listener for it",
            )
        return names

    def _latest(self) -> "dict[str, Child]":
        if not self._children:
            raise ServerGone("the server is not started; use it as a context manager", hint="Call it in a 'with' block")
        return self._children

    def _is_alive(self, name: str) -> bool:
        return not self._telemetry.gone_of(name) or self._restarts_left > 0

    def _told(self, name: str, tell: "Callable[[Child], None]") -> ServerGone | None:
        try:
            tell(self._running(name))
        except ServerGone as error:
            return error
        return None

    def _running(self, name: str) -> "Child":
        with self._starting:
            child = self._latest()[name]
            gone = self._telemetry.gone_of(name)
            if gone and not self._restarts_left:
                raise ServerGone(gone)
            if gone:
                self._replace(name, child)
            return self._children[name]

    def _started(self, name: str, settings: "ServerSettings") -> "Child":
        voice = WorkerEvents(name, self, self._telemetry)
        is_one_of_several = self._has_guests or len(self._settings.processes) > 1
        return Child(settings, voice, is_one_of_several=is_one_of_several)

    def _replace(self, name: str, dead: "Child") -> None:
        """Start a new process in the place of one that died.

        Raises:
            ServerGone: It does not come up.
        """
        self._hung -= {name}
        why = self._telemetry.begin_anew(name)
        self._restarts_left -= 1
        try:
            dead.close()
            settings = self._settings.of_process(name).at_ports(dead.ports)
            self._children[name] = child = self._started(name, settings)
            for tell in tuple(self._standing.values()):
                tell(child)
            self._tell_loads(name)
            # Last: a client that comes before its login is known would be refused, and banned after a few tries.
            if self._is_open:
                child.open()
        except FileServerError as error:
            gone = f"{why}; a new one did not come up: {error.message}"
            self._telemetry.stay_gone(gone, name)
            raise ServerGone(gone, hint=error.hint) from error
        self._telemetry.notice(f"{why}; a new one has taken its place, tickets of the former are void")

    def _tell_loads(self, name: str) -> None:
        """Tell a new process what the others are at."""
        with self._counting:
            for site, loads in self._loads.items():
                self._send(name, SetElsewhere(load=elsewhere(loads, site, name)))
