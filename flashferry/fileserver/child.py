"""Starting, asking and ending the server's process, from the parent's side."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from types import NoneType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from flashferry.fileserver.congestion_control import first_candidates
from flashferry.fileserver.errors import RequestRefused, ServerGone, ServerStartFailed
from flashferry.fileserver.host_capabilities import hard_limit, sessions_allowed
from flashferry.fileserver.records import TransferProgress
from flashferry.fileserver.settings import LOG
from flashferry.fileserver.sockets import listening_socket
from flashferry.fileserver.wire import (
    MOST_BYTES,
    AddTicket,
    AdmitLogin,
    Answer,
    AttemptUsed,
    Beat,
    Call,
    Drain,
    GaveWay,
    Happened,
    Hello,
    Open,
    Pulses,
    Ready,
    RefusedLogin,
    Revoke,
    SetCap,
    SetSiteCap,
    SetSiteLink,
    SiteLoadUpdate,
    Stop,
    encode,
    saying_of,
)

if TYPE_CHECKING:
    from flashferry.fileserver.fixed_login import FixedGrant
    from flashferry.fileserver.host_capabilities import HostCapabilities
    from flashferry.fileserver.processes.workers import WorkerEvents
    from flashferry.fileserver.settings import ListenerSettings, ServerSettings
    from flashferry.fileserver.tickets import TicketGrant
    from flashferry.fileserver.wire import Request, Saying

_ENVIRONMENT = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "TZDIR"),
        *("PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME"),
        *("PYTHONIOENCODING", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONUTF8", "PYTHONWARNINGS"),
    }
)
"""What the server's process needs of our environment, besides the locale (`LC_*`). No password of a device is among it:
it would stand in the process's environment for as long as it runs, and a fault there would have it at hand."""

T = TypeVar("T")

_START_S = 20.0
_ANSWER_S = 20.0

STOP_S = 5.0
"""A process that is to end has so long for it; then it is killed."""

SILENT_TURNS = 5
"""So many turns of its watch, one a second, without a word, where two a second are due: it hangs."""

ENDING_TURNS = 3
"""So many are enough where it is to end, and has not answered that."""

_BLOCKED_TURNS = 2
_LOCK_S = 1.0


def _listening(listener: "ListenerSettings", settings: "ServerSettings") -> socket.socket:
    profile = settings.profile
    first = first_candidates(profile.congestion_control)
    try:
        ports = (listener.port, *listener.other_ports)
        return listening_socket(listener.listen_address, ports, profile.dscp, first)
    except ServerStartFailed as error:
        error.transports = listener.transports
        raise


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _ENVIRONMENT or name.startswith("LC_")}


class Child:
    """The server's process.

    Args:
        settings: How it is to run.
        voice: Is told everything that it says by itself, and its end, on a thread of ours.
        is_one_of_several: Whether the server has other processes, which share with it what sites may take.

    Attributes:
        is_draining: Whether it has answered that it ends with its last transfer.

    Raises:
        ServerStartFailed: It did not come up, or the host allows too few open files for the sessions wanted.
    """

    def __init__(self, settings: "ServerSettings", voice: "WorkerEvents", *, is_one_of_several: bool = False) -> None:
        self._voice = voice
        self._is_one_of_several = is_one_of_several
        self._lock = threading.Lock()
        self._answered = threading.Condition()
        self._answers: dict[int, Answer] = {}
        self._awaited: set[int] = set()
        self._last_number = 0
        self._ended = False
        self._closing = self._is_closed = False
        self._is_hung = self._is_blocking = False
        self._ready: Ready | None = None
        self._killed_because = ""
        self.is_draining = False
        # For its watch: how much it has said, and which request is being sent, 0 for none; each with the turns since.
        self._said = self._sent = self._sending = 0
        self._is_taking = False
        self._silent, self._blocked = _Turns(), _Turns()
        sessions = sessions_allowed(settings.limits.sessions, hard_limit())
        settings = replace(settings, limits=replace(settings.limits, sessions=sessions))
        with contextlib.ExitStack() as handed_over:
            listening = [handed_over.enter_context(_listening(each, settings)) for each in settings.listeners]
            # Not a `with`: it lives as long as the child, and holds what a crash wrote.
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
            self._channel, self._process = self._start(settings, listening)
        self._reader = threading.Thread(target=self._read, name="fileserver-reader", daemon=True)
        self._reader.start()
        self._await_ready()

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports in force, in the order of the listeners."""
        assert self._ready is not None
        return self._ready.ports

    @property
    def capabilities(self) -> "HostCapabilities":
        """What the kernel granted to it."""
        assert self._ready is not None
        return self._ready.capabilities

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def add_ticket(self, grant: "TicketGrant", *, is_shared: bool = False) -> TransferProgress:
        """Have it take a new ticket in, and return the first snapshot; raises what `_ask` does, as do all of these."""
        return self._ask(AddTicket(grant=grant, is_shared=is_shared), TransferProgress)

    def open(self) -> None:
        """Have it take sessions from now on; again is harmless."""
        self._ask(Open(), NoneType)

    def admit(self, grant: "FixedGrant") -> None:
        """Have it let a fixed login in."""
        self._ask(AdmitLogin(grant=grant), NoneType)

    def revoke(self, ticket_id: str) -> None:
        """Have it make a ticket worthless."""
        self._ask(Revoke(ticket_id=ticket_id), NoneType)

    def set_cap(self, ticket_id: str, cap_bytes_per_s: int | None) -> None:
        """Change a ticket's cap; None lifts it."""
        self._ask(SetCap(ticket_id=ticket_id, cap_bytes_per_s=cap_bytes_per_s), NoneType)

    def set_site_cap(self, site: str, cap_bytes_per_s: int | None, source: str) -> None:
        """Change a site's cap; None lifts it."""
        self._ask(SetSiteCap(site=site, cap_bytes_per_s=cap_bytes_per_s, source=source), NoneType)

    def set_site_link(self, site: str, link_bytes_per_s: int | None) -> None:
        """Tell it what a site's link carries; None where that is not known any more."""
        self._ask(SetSiteLink(site=site, link_bytes_per_s=link_bytes_per_s), NoneType)

    def drain(self) -> int:
        """Have it end with its last transfer, and return how many are under way."""
        under_way = self._ask(Drain(), int)
        self.is_draining = True
        return under_way

    def tell(self, request: "Request") -> None:
        """Send a request whose answer nobody waits for.

        Raises:
            OSError: It is gone.
        """
        with self._lock:
            self._send(Call(number=0, request=request))

    def _send(self, call: Call) -> None:
        self._sent += 1
        self._sending = self._sent
        try:
            self._channel.send_bytes(encode(call))
        finally:
            self._sending = 0

    def _ask(self, request: "Request", kind: type[T]) -> T:
        """Send a request and return the answer, which is of a kind.

        A process that hangs is not waited for; should it go on, it does what it was asked.

        Raises:
            ServerGone: It ended or does not answer.
            RequestRefused: It answered with an error, or with something else.
        """
        name = type(request).__name__
        with self._lock:
            self._last_number += 1
            number = self._last_number
            with self._answered:
                self._awaited.add(number)
            try:
                self._send(Call(number=number, request=request))
            except OSError as error:
                self._awaited.discard(number)
                raise ServerGone(f"the server's process is gone: {error.strerror or error}") from error
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers or self._ended or self._is_hung, _ANSWER_S)
            self._awaited.discard(number)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise ServerGone(f"the server's process gave no answer to {name}")
        if answer.error:
            raise RequestRefused(f"{name}: {answer.error}")
        try:
            return msgspec.msgpack.decode(answer.result, type=kind)
        except msgspec.DecodeError as error:
            raise RequestRefused(f"{name}: not understood: {error}") from error

    def take_turn(self) -> int:
        """Take a turn of its watch, one a second; return for how many it has been silent: it hangs at `SILENT_TURNS`.

        Turns are counted and not seconds: where this process stood still itself, nothing is concluded from that.
        """
        is_sending_on = self._blocked.take(self._sending) >= _BLOCKED_TURNS and self._sending != 0
        silent = 0 if self._is_taking else self._silent.take(self._said)
        is_silent = silent >= SILENT_TURNS
        self._is_blocking = is_silent and is_sending_on
        if is_silent != self._is_hung:
            with self._answered:
                self._is_hung = is_silent
                self._answered.notify_all()
        return silent

    @property
    def is_blocking(self) -> bool:
        """Whether it hangs and reads nothing any more, so that a thread of ours waits for it to do so."""
        return self._is_blocking

    def kill(self, why: str) -> None:
        """End it at once, also where it is stopped; what became of it is the reason given."""
        self._killed_because = why
        self._process.kill()

    def ask_to_stop(self) -> None:
        """Ask it to end, and do not wait for that; one that reads nothing is not asked. Twice is harmless."""
        if self._closing:
            return
        self._closing = True
        if self._lock.acquire(timeout=_LOCK_S):
            try:
                with contextlib.suppress(OSError, ValueError):
                    if select.select((), (self._channel,), (), 0)[1]:
                        self._send(Call(number=0, request=Stop()))
            finally:
                self._lock.release()

    def close(self, deadline_s: float | None = None) -> None:
        """Stop it, kindly at first; twice is harmless.

        Args:
            deadline_s: When it is killed, monotonic seconds; None: in `STOP_S`.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self.ask_to_stop()
        self._ended_status(deadline_s)
        if threading.current_thread() is not self._reader:
            self._reader.join(STOP_S)
        self._channel.close()
        self._stderr.close()

    def _start(
        self, settings: "ServerSettings", listening: "list[socket.socket]"
    ) -> "tuple[Connection, subprocess.Popen[bytes]]":
        ours, theirs = socket.socketpair()
        with theirs:
            channel = Connection(ours.detach())
            descriptors = tuple(each.fileno() for each in (theirs, *listening))
            try:
                process = subprocess.Popen(
                    # -P keeps a stray module in the current folder from shadowing ours.
                    [sys.executable, "-P", "-m", "flashferry.fileserver.process", *map(str, descriptors)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=self._stderr,
                    pass_fds=descriptors,
                    env=_environment(),
                    # Ctrl-C on the terminal is for the parent, which then decides what becomes of running transfers.
                    start_new_session=True,
                )
                channel.send_bytes(
                    encode(Hello(settings=settings, parent_pid=os.getpid(), is_one_of_several=self._is_one_of_several))
                )
            except OSError as error:
                channel.close()
                self._stderr.close()
                raise ServerStartFailed(
                    f"cannot start the server's process: {error.strerror}",
                    hint="Look whether this host has processes and memory left",
                ) from error
        return channel, process

    def _await_ready(self) -> None:
        with self._answered:
            self._answered.wait_for(lambda: self._ready is not None or self._ended, _START_S)
        if self._ready is None:
            reason = self._last_words()
            self._process.kill()
            self.close()
            raise ServerStartFailed(
                f"the server's process did not come up: {reason}",
                hint="Look whether this host has memory and open files left; 'flashferry doctor' looks at the rest",
            )

    def _read(self) -> None:
        try:
            # One that was killed leaves half a message behind.
            with contextlib.suppress(EOFError, ConnectionError):
                while True:
                    message = saying_of(self._channel.recv_bytes(MOST_BYTES))
                    self._said += 1
                    self._is_taking = True
                    self._take(message)
                    self._is_taking = False
        except Exception:  # noqa: BLE001
            # Whatever it said, who waits for it must be woken: it is of no use any more.
            LOG.exception("the server's process was not understood")
            self._process.kill()
        finally:
            self._tell_end()

    def _tell_end(self) -> None:
        with self._answered:
            self._ended = True
            self._answered.notify_all()
        in_order = self._ended_status() == 0
        if self._ready is None:
            return
        if self._killed_because:
            self._voice.take_end(f"the server's process ended: {self._killed_because}", False)
        elif self._closing or in_order:
            self._voice.take_end("the server was stopped", in_order)
        else:
            self._voice.take_end(f"the server's process ended: {self._last_words()}", False)

    def _ended_status(self, deadline_s: float | None = None) -> int:
        """Return the exit status of the process, which was asked to end or has left the channel."""
        left_s = STOP_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        try:
            return self._process.wait(left_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _take(self, message: "Saying") -> None:
        match message:
            case Ready():
                with self._answered:
                    self._ready = message
                    self._answered.notify_all()
            case Answer(number):
                with self._answered:
                    if number in self._awaited:
                        self._answers[number] = message
                    self._answered.notify_all()
            case Happened(event):
                self._voice.take_event(event)
            case Pulses(pulses):
                self._voice.take_pulses(pulses)
            case RefusedLogin(failure):
                self._voice.take_login_failure(failure)
            case AttemptUsed(use):
                self._voice.take_use(use)
            case GaveWay(ticket_id):
                self._voice.take_gave_way(ticket_id)
            case SiteLoadUpdate(load):
                self._voice.take_load(load)
            case Beat():
                # That it said something is all.
                pass

    def _last_words(self) -> str:
        """Return the last line it wrote to standard error, which names the exception if there was one."""
        with contextlib.suppress(OSError, ValueError):
            size = os.fstat(self._stderr.fileno()).st_size
            text = os.pread(self._stderr.fileno(), 4000, max(0, size - 4000)).decode("utf-8", "replace")
            if lines := text.strip().splitlines():
                return lines[-1]
        code = self._process.poll()
        if code is None:
            return "no answer in time"
        return f"killed by {_signal_name(-code)}" if code < 0 else f"exit status {code}"


class _Turns:
    """How many turns in a row a number has stayed as it is."""

    def __init__(self) -> None:
        self._last = -1
        self._turns = 0

    def take(self, number: int) -> int:
        """Take a turn; return how many have passed since the number changed."""
        self._turns = self._turns + 1 if number == self._last else 0
        self._last = number
        return self._turns


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
