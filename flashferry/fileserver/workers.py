"""The serving processes of a server: start, replace and watch them, and coordinate what they share.

Facts
-----

- A protocol that needs another event loop, or a library of its own, has a process of its own. The end of one leaves the
  others as they are.
- Each process's messages are handled on the thread that reads them. What other processes must learn from a message is
  therefore sent without waiting for an answer: two such threads would wait for each other.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from flashferry.core.jobs import is_stopped
from flashferry.fileserver.child import ENDING_TURNS, SILENT_TURNS, STOP_S, Child
from flashferry.fileserver.errors import FileServerError, ServerGone, SettingsInvalid
from flashferry.fileserver.rate_limits import SiteLoad, elsewhere
from flashferry.fileserver.transfer_records import EventKind, TransferProgress
from flashferry.fileserver.wire import (
    AddTicket,
    AttemptsElsewhere,
    AttemptUsed,
    DecideAttempt,
    Drain,
    EventMessage,
    Open,
    ProgressUpdates,
    RefusedLogin,
    SetLoadElsewhere,
    SiteLoadUpdate,
    Yielded,
)

if TYPE_CHECKING:
    from flashferry.fileserver.settings import ServerSettings
    from flashferry.fileserver.telemetry import Telemetry
    from flashferry.fileserver.ticket_accounts import TicketGrant
    from flashferry.fileserver.transfer_records import ServerEvent, TicketUse
    from flashferry.fileserver.wire import ForSender, Lasting, Message, Request

_WATCH_S = 1.0


def _hang_notice(name: str, pid: int) -> str:
    stopped = is_stopped(pid)
    state = f"was stopped by a signal; 'kill -CONT {pid}' has it go on" if stopped else "hangs"
    return (
        f"the server's process '{name}' (process {pid}) has not answered for {SILENT_TURNS * _WATCH_S:.0f} s: "
        f"it {state}. Its copies stand still; 'kill -KILL {pid}' ends it and them"
    )


class LocalSender(Protocol):
    """A sender outside the serving processes that shares sites with them: pushes here, or a run of a shared server."""

    def take(self, request: ForSender, /) -> None:
        """Apply a site's cap, link or load elsewhere; must return at once. Fixed logins do not concern it."""


class WorkerEvents:
    """The messages of one process or local sender, passed on to those they concern.

    Args:
        name: The process or sender.
        workers: Coordinates what several processes share.
        telemetry: Keeps and reports what everybody may know.
    """

    def __init__(self, name: str, workers: WorkerPool, telemetry: Telemetry) -> None:
        self._name, self._workers, self._telemetry = name, workers, telemetry

    def on_message(self, message: Message) -> None:
        """Handle a message; answers are not among them, and a mere `Beat` needs nothing."""
        match message:
            case ProgressUpdates(updates):
                self._telemetry.take_updates(updates)
            case EventMessage(event):
                self._workers.pass_on(event, self._name)
                self._telemetry.take_event(event, self._name)
            case SiteLoadUpdate(load):
                self._workers.take_load(load, self._name)
            case RefusedLogin(failure):
                self._telemetry.take_login_failure(failure)
            case AttemptUsed(use):
                self._workers.take_use(use, self._name)
            case Yielded(ticket_id):
                self._workers.take_yielded(ticket_id, self._name)

    def on_end(self, reason: str, in_order: bool) -> None:
        """Handle the process's end."""
        self._workers.forget_loads(self._name)
        self._telemetry.take_end(reason, in_order, self._name)
        self._workers.forget_attempts(self._name)


@dataclass(slots=True, kw_only=True)
class _PendingAttempt:
    """An attempt that waits until no other process sends with its ticket.

    Attributes:
        process: The process that used it.
        here: Its number there.
        awaited: The processes that have not confirmed yet that they send nothing.
    """

    process: str
    here: int
    awaited: set[str]


class WorkerPool:
    """The serving processes of one server. Methods may be called from any thread.

    Args:
        settings: How the server runs.
        telemetry: Gets their messages and their ends.
        restarts: How many processes that died may be replaced, in all.
        has_senders: Whether local senders may join, see `join`.
    """

    def __init__(
        self, settings: ServerSettings, telemetry: Telemetry, restarts: int, *, has_senders: bool = False
    ) -> None:
        self._settings = settings
        self._has_senders = has_senders
        self._senders: dict[str, LocalSender] = {}
        self._telemetry = telemetry
        self._restarts_left = restarts
        self._is_open = False
        # The processes that hang, and whether all are to end: one that hangs then is not waited for.
        self._hung: frozenset[str] = frozenset()
        self._is_ending = False
        self._is_over = threading.Event()
        self._watching = threading.Thread(target=self._watch, name="fileserver-watch", daemon=True)
        self._starting = threading.Lock()
        self._children: dict[str, Child] = {}
        # What a new process has to receive: the latest cap and link of each site, and each fixed login.
        self._lasting: dict[tuple[type, str], Lasting] = {}
        self._attempt_lock = threading.Lock()
        # The newest attempt of each ticket that waits for its turn.
        self._pending: dict[str, _PendingAttempt] = {}
        self._load_lock = threading.Lock()
        self._loads: dict[str, dict[str, SiteLoad]] = {}

    def start(self) -> None:
        """Start all processes, which accept no session yet; if one does not start, the others are stopped.

        Raises:
            ServerStartFailed: One did not start.
        """
        try:
            for name in self._settings.processes:
                self._children[name] = self._started(name, self._settings.of_process(name))
        except FileServerError:
            self.close()
            raise
        self._watching.start()

    def open(self) -> None:
        """Let all processes accept sessions. Idempotent.

        Raises:
            ServerGone: None runs.
        """
        # First: one that is replaced meanwhile is opened when it takes its place.
        self._is_open = True
        self.ask_all(Open())

    def close(self) -> None:
        """Stop all processes, and kill those that have not ended after `child.STOP_S`; none is replaced any more."""
        self._restarts_left = 0
        self._is_ending = True
        children = tuple(self._children.values())
        for child in children:
            child.ask_to_stop()
        # One deadline for all: they end side by side.
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
        """The process ids by name, the latest of each."""
        return {name: child.pid for name, child in self._latest().items()}

    @property
    def first(self) -> Child:
        """The process of the first listener."""
        return next(iter(self._latest().values()))

    def add_ticket(self, grant: TicketGrant) -> None:
        """Add a ticket to the processes that serve one of its transports.

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
                first = self._running(name).ask(AddTicket(grant=grant, is_shared=is_shared), TransferProgress)
            except ServerGone as error:
                # One that hangs adds it once it runs again; meanwhile the others serve it.
                if name not in self._hung:
                    raise
                gone = error
        if first is None:
            raise gone
        self._telemetry.add(first, tuple(living))

    def ask_lasting(self, request: Lasting) -> None:
        """Send a request to all processes and local senders, and later to each new one; raises what `ask_all` does."""
        self.ask_all(request)
        self._lasting[type(request), request.subject] = request
        for sender in tuple(self._senders.values()):
            sender.take(request)

    def ask_all(self, request: Request | None, kind: Any = None) -> list[Any]:
        """Send a request to all processes that run, starting one where none does and that is allowed.

        Args:
            request: The request; None: only replace processes that died.
            kind: The answers' type.

        Raises:
            ServerGone: None runs.
        """
        names = tuple(self._latest())
        living = [name for name in names if self._is_alive(name)] or names[:1]
        answers, errors = [], []
        for name in living:
            try:
                child = self._running(name)
                answers.append(None if request is None else child.ask(request, kind))
            except ServerGone as error:
                errors.append(error)
        if not answers:
            raise errors[0]
        return answers

    def join(self, name: str, sender: LocalSender) -> None:
        """Let a local sender share sites with the processes: it gets their caps, links and loads."""
        for request in tuple(self._lasting.values()):
            sender.take(request)
        with self._load_lock:
            self._senders[name] = sender
            for site, loads in self._loads.items():
                sender.take(SetLoadElsewhere(load=elsewhere(loads, site, name)))

    def leave(self, name: str) -> None:
        """Remove a local sender; its load ends."""
        with self._load_lock:
            self._senders.pop(name, None)
        self.forget_loads(name)

    def check(self) -> None:
        """Check that a process runs or may be replaced; none is started here.

        Raises:
            ServerGone: All have ended for good.
        """
        names = tuple(self._latest())
        if not any(self._is_alive(name) for name in names):
            raise ServerGone(self._telemetry.gone_of(names[0]))

    def drain(self) -> int:
        """Let all processes end after their last transfer, and return the number of running transfers.

        Raises:
            ServerGone: None runs.
        """
        self._restarts_left = 0
        self._is_ending = True
        return sum(self.ask_all(Drain(), int))

    # Whether they answer.

    def _watch(self) -> None:
        """Check each process every second: report one that hangs, and when it answers again."""
        while not self._is_over.wait(_WATCH_S):
            for name, child in tuple(self._children.items()):
                if not self._telemetry.gone_of(name):
                    self._check(name, child, child.take_turn())

    def _check(self, name: str, child: Child, silent: int) -> None:
        is_hung = silent >= SILENT_TURNS
        if is_hung and name not in self._hung:
            self._hung |= {name}
            self._telemetry.notice(_hang_notice(name, child.pid))
            # Its copies are stalled. If it runs again, it first reads that a newer attempt replaced them.
            self.forget_attempts(name)
        elif not is_hung and name in self._hung:
            self._hung -= {name}
            self._telemetry.notice(f"the server's process '{name}' answers again")
        is_awaited = self._is_ending and silent >= (SILENT_TURNS if child.is_draining else ENDING_TURNS)
        if is_awaited or child.is_blocking:
            child.kill(f"'{name}' did not answer, and was killed")

    # What one process reports and others have to know.

    def pass_on(self, event: ServerEvent, process: str) -> None:
        """Report a delivery to the other processes that serve the ticket."""
        if event.progress is None or event.kind is not EventKind.DONE or len(self._children) < 2:
            return
        ticket_id = event.progress.ticket_id
        with self._attempt_lock:
            for name, tries in self._telemetry.tries_elsewhere(ticket_id, process).items():
                self._send(name, AttemptsElsewhere(ticket_id=ticket_id, tries=tries, is_delivered=True))

    def take_use(self, use: TicketUse, process: str) -> None:
        """Count an attempt that a process used, and report it to the other processes that serve the ticket.

        Their transfers of it yield, unless the process did not know of their attempts: of two concurrent attempts the
        first one reported here continues, and the other process was ordered to yield already. The attempt is counted
        before it is reported, because a client whose copy is ended then asks here next.
        """
        # Sent while the lock is held, so that the last message sent is the state that applies.
        with self._attempt_lock:
            is_newest = self._telemetry.use_try(use, process)
            others = self._telemetry.tries_elsewhere(use.ticket_id, process).items()
            reached = {
                name
                for name, tries in others
                if self._send(name, AttemptsElsewhere(ticket_id=use.ticket_id, tries=tries, yields=is_newest))
            }
            if is_newest:
                # A hung process reports nothing, and yields as soon as it reads again.
                awaited = reached - self._hung
                self._pending[use.ticket_id] = _PendingAttempt(process=process, here=use.here, awaited=awaited)
                self._decide(use.ticket_id)
            else:
                self._send(process, DecideAttempt(ticket_id=use.ticket_id, here=use.here, goes_on=False))

    def take_yielded(self, ticket_id: str, process: str) -> None:
        """Handle a process's report that it no longer sends with a ticket; sent after the end of its transfer."""
        with self._attempt_lock:
            pending = self._pending.get(ticket_id)
            if pending is not None:
                pending.awaited.discard(process)
                self._decide(ticket_id)

    def forget_attempts(self, process: str) -> None:
        """Drop the waiting attempts of a process that ended or hangs, and stop waiting for its reports."""
        with self._attempt_lock:
            for ticket_id, pending in tuple(self._pending.items()):
                pending.awaited.discard(process)
                if pending.process == process:
                    del self._pending[ticket_id]
                else:
                    self._decide(ticket_id)

    def _decide(self, ticket_id: str) -> None:
        """Decide the waiting attempt of a ticket once no other process sends: it may send unless one has delivered."""
        pending = self._pending[ticket_id]
        if pending.awaited:
            return
        del self._pending[ticket_id]
        is_delivered = self._telemetry.is_delivered(ticket_id)
        self._send(pending.process, DecideAttempt(ticket_id=ticket_id, here=pending.here, goes_on=not is_delivered))

    def take_load(self, load: SiteLoad, process: str) -> None:
        """Store the load of a process or sender at a site, and report it to all others, which share the cap."""
        # Sent while the lock is held, so that the last message sent is the state that applies.
        with self._load_lock:
            self._note_load(load, process)

    def forget_loads(self, process: str) -> None:
        """Set the loads of a process or sender to zero, because it ended."""
        with self._load_lock:
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
                self._send(name, SetLoadElsewhere(load=elsewhere(loads, load.site, name)))
        for name, sender in self._senders.items():
            if name != process:
                sender.take(SetLoadElsewhere(load=elsewhere(loads, load.site, name)))
        if not loads:
            del self._loads[load.site]

    def _send(self, name: str, request: SetLoadElsewhere | AttemptsElsewhere | DecideAttempt) -> bool:
        """Send a request to a process, and return whether it runs; one that has just ended does not need it."""
        try:
            self._children[name].post(request)
        except OSError:
            return False
        return True

    # Which are asked, and what if they are gone.

    def _serving(self, grant: TicketGrant) -> tuple[str, ...]:
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

    def _latest(self) -> dict[str, Child]:
        if not self._children:
            raise ServerGone("the server is not started; use it as a context manager", hint="Call it in a 'with' block")
        return self._children

    def _is_alive(self, name: str) -> bool:
        return not self._telemetry.gone_of(name) or self._restarts_left > 0

    def _running(self, name: str) -> Child:
        with self._starting:
            child = self._latest()[name]
            gone = self._telemetry.gone_of(name)
            if gone and not self._restarts_left:
                raise ServerGone(gone)
            if gone:
                self._replace(name, child)
            return self._children[name]

    def _started(self, name: str, settings: ServerSettings) -> Child:
        events = WorkerEvents(name, self, self._telemetry)
        is_one_of_several = self._has_senders or len(self._settings.processes) > 1
        return Child(settings, events, is_one_of_several=is_one_of_several)

    def _replace(self, name: str, dead: Child) -> None:
        """Start a new process in the place of one that died. Raises `ServerGone`: it does not start."""
        self._hung -= {name}
        why = self._telemetry.begin_anew(name)
        self._restarts_left -= 1
        try:
            dead.close()
            settings = self._settings.of_process(name).at_ports(dead.ports)
            self._children[name] = child = self._started(name, settings)
            for request in tuple(self._lasting.values()):
                child.ask(request)
            self._send_loads(name)
            # Opened last: a client that connects before its login is known would be refused, and later banned.
            if self._is_open:
                child.ask(Open())
        except FileServerError as error:
            gone = f"{why}; a new one did not start: {error.message}"
            self._telemetry.stay_gone(gone, name)
            raise ServerGone(gone, hint=error.hint) from error
        self._telemetry.notice(f"{why}; a new one has taken its place, tickets of the former are void")

    def _send_loads(self, name: str) -> None:
        """Report the others' loads to a new process."""
        with self._load_lock:
            for site, loads in self._loads.items():
                self._send(name, SetLoadElsewhere(load=elsewhere(loads, site, name)))
