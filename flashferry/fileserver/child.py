"""The parent's handle of one serving process: starting, requests, monitoring, stopping."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from flashferry.fileserver.errors import ServerGone, ServerStartFailed
from flashferry.fileserver.host_capabilities import hard_limit, sessions_allowed
from flashferry.fileserver.rpc_channel import ConnectionBroken, MessageInvalid, RpcChannel
from flashferry.fileserver.settings import LOG
from flashferry.fileserver.socket_tuning import first_candidates
from flashferry.fileserver.sockets import listening_socket
from flashferry.fileserver.wire import Drain, Hello, Ready, Stop, encode

if TYPE_CHECKING:
    from flashferry.fileserver.host_capabilities import HostCapabilities
    from flashferry.fileserver.settings import ListenerSettings, ServerSettings
    from flashferry.fileserver.wire import Message, Request
    from flashferry.fileserver.workers import WorkerEvents

_ENVIRONMENT = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "TZDIR"),
        *("PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME"),
        *("PYTHONIOENCODING", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONUTF8", "PYTHONWARNINGS"),
    }
)
"""Environment variables of the serving process, besides the locale (`LC_*`). Passwords of devices are not among them,
so a compromised process does not have them."""

_START_S = 20.0
_ANSWER_S = 20.0

STOP_S = 5.0
"""Seconds that a process has to end before it is killed."""

SILENT_TURNS = 5
"""Checks, one per second, without a message after which a process counts as hung; it sends two messages a second."""

ENDING_TURNS = 3
"""The same for a process that has been asked to end and has not answered."""

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
    """One serving process.

    Args:
        settings: Its settings.
        events: Gets its messages and its end, on a thread of this process.
        is_one_of_several: Whether other senders share the caps of sites with it.

    Attributes:
        is_draining: Whether it has confirmed that it ends after its last transfer.

    Raises:
        ServerStartFailed: It did not start, or the host allows too few open files for the sessions.
    """

    def __init__(self, settings: "ServerSettings", events: "WorkerEvents", *, is_one_of_several: bool = False) -> None:
        self._events = events
        self._is_up = threading.Event()
        self._ready: Ready | None = None
        self._closing = self._is_closed = self._is_hung = self._is_blocking = False
        self._killed_because = ""
        self.is_draining = False
        self._silent, self._blocked = _Turns(), _Turns()
        sessions = sessions_allowed(settings.limits.sessions, hard_limit())
        settings = replace(settings, limits=replace(settings.limits, sessions=sessions))
        hello = Hello(settings=settings, parent_pid=os.getpid(), is_one_of_several=is_one_of_several)
        with contextlib.ExitStack() as handed_over:
            listening = [handed_over.enter_context(_listening(each, settings)) for each in settings.listeners]
            # Not a `with`: it lives as long as the child, and keeps what a crash wrote.
            self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
            connection, self._process = self._start(hello, listening)
        self._channel = RpcChannel(connection, self._on_message)
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
        """Features that the kernel granted to it."""
        assert self._ready is not None
        return self._ready.capabilities

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def post(self, request: "Request") -> None:
        """Send a request without waiting for an answer.

        Raises:
            ConnectionBroken: It has ended.
        """
        self._channel.post(request)

    def ask(self, request: "Request", kind: Any = None) -> Any:
        """Send a request and return its answer, of a type; None for an answer without a value.

        A process that hangs is not waited for; once it runs again it carries the request out.

        Raises:
            ServerGone: It ended or does not answer.
            RequestRefused: It answered with an error, or with a value of another type.
        """
        try:
            result = self._channel.ask(request, kind, timeout_s=_ANSWER_S)
        except ConnectionBroken as error:
            raise ServerGone(f"the server's process: {error}") from error
        if isinstance(request, Drain):
            self.is_draining = True
        return result

    def take_turn(self) -> int:
        """Check it, once a second; return the number of checks since its last message; `SILENT_TURNS` means hung.

        Checks are counted instead of seconds, so that a time in which this process itself was stopped does not count.
        """
        channel = self._channel
        is_sending_on = self._blocked.take(channel.sending) >= _BLOCKED_TURNS and channel.sending != 0
        silent = 0 if channel.is_delivering else self._silent.take(channel.received)
        is_silent = silent >= SILENT_TURNS
        self._is_blocking = is_silent and is_sending_on
        if is_silent != self._is_hung:
            self._is_hung = is_silent
            channel.set_stuck(is_silent)
        return silent

    @property
    def is_blocking(self) -> bool:
        """Whether it hangs and does not read, so that a thread here is blocked."""
        return self._is_blocking

    def kill(self, why: str) -> None:
        """Kill it, even if it is stopped; its end is reported with the reason."""
        self._killed_because = why
        self._process.kill()

    def ask_to_stop(self) -> None:
        """Ask it to end, without waiting; skipped if it does not read. Idempotent."""
        if not self._closing:
            self._closing = True
            self._channel.post_if_ready(Stop(), _LOCK_S)

    def close(self, deadline_s: float | None = None) -> None:
        """Stop it: asked first, killed at the deadline. Idempotent.

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

    def _start(self, hello: Hello, listening: "list[socket.socket]") -> "tuple[Connection, subprocess.Popen[bytes]]":
        ours, theirs = socket.socketpair()
        with theirs:
            connection = Connection(ours.detach())
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
                    # Ctrl-C on the terminal goes only to the parent, which decides about running transfers.
                    start_new_session=True,
                )
                connection.send_bytes(encode(hello))
            except OSError as error:
                connection.close()
                self._stderr.close()
                raise ServerStartFailed(
                    f"cannot start the server's process: {error.strerror}",
                    hint="Check that this host has processes and memory left",
                ) from error
        return connection, process

    def _await_ready(self) -> None:
        self._is_up.wait(_START_S)
        if self._ready is None:
            reason = self._exit_reason()
            self._process.kill()
            self.close()
            raise ServerStartFailed(
                f"the server's process did not start: {reason}",
                hint="Check that this host has memory and open files left; 'flashferry doctor' checks the rest",
            )

    def _read(self) -> None:
        try:
            self._channel.listen()
        except Exception as error:  # noqa: BLE001
            # End a process whose messages are invalid, and wake the threads that wait for it.
            if isinstance(error, MessageInvalid) or not isinstance(error, ConnectionBroken):
                LOG.exception("the server's process was not understood")
                self._process.kill()
        finally:
            self._report_end()

    def _on_message(self, message: "Message") -> None:
        if isinstance(message, Ready):
            self._ready = message
            self._is_up.set()
        else:
            self._events.on_message(message)

    def _report_end(self) -> None:
        self._is_up.set()
        in_order = self._ended_status() == 0
        if self._ready is None:
            return
        if self._killed_because:
            self._events.on_end(f"the server's process ended: {self._killed_because}", False)
        elif self._closing or in_order:
            self._events.on_end("the server was stopped", in_order)
        else:
            self._events.on_end(f"the server's process ended: {self._exit_reason()}", False)

    def _ended_status(self, deadline_s: float | None = None) -> int:
        """Return the exit status of the process, which was asked to end or has closed the channel."""
        left_s = STOP_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        try:
            return self._process.wait(left_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _exit_reason(self) -> str:
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
    """Count for how many checks in a row a number has stayed the same."""

    def __init__(self) -> None:
        self._last = -1
        self._turns = 0

    def take(self, number: int) -> int:
        """Check a number; return how many checks have passed since it changed."""
        self._turns = self._turns + 1 if number == self._last else 0
        self._last = number
        return self._turns


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
