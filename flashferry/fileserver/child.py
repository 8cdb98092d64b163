"""Starting, asking and ending the server's process, from the parent's side."""

import contextlib
import errno
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flashferry.core.codec import decode
from flashferry.fileserver import sockets
from flashferry.fileserver.errors import RequestRefused, ServerGone, ServerStartFailed
from flashferry.fileserver.host_capabilities import hard_limit, sessions_allowed
from flashferry.fileserver.wire import Hello, Ready, line

if TYPE_CHECKING:
    from collections.abc import Callable

    from flashferry.fileserver.host_capabilities import HostCapabilities
    from flashferry.fileserver.settings import ServerSettings

_ENVIRONMENT = frozenset(
    {
        *("HOME", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "TZDIR"),
        *("PYTHONDEVMODE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME"),
        *("PYTHONIOENCODING", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONUTF8", "PYTHONWARNINGS"),
    }
)
"""What the server's process needs of our environment, besides the locale (`LC_*`). No password of a device is among it:
it would stand in the process's environment for as long as it runs, and a fault there would have it at hand."""

_LOG = logging.getLogger("flashferry.ftpserver")
_START_S = 20.0
_ANSWER_S = 20.0
_STOP_S = 5.0


def bound_listener(address: str, port: int, dscp: int = 0) -> socket.socket:
    """Return a socket bound to the control address, ready to be listened on, that keeps SYNs.

    It is bound here and not in the server's process, so that a port in use is an error of the caller's thread and
    only the parent needs the right to a port below 1024.

    Raises:
        ServerStartFailed: The address is not ours, or the port is taken or needs privileges.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address == "::":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        hint = {
            errno.EADDRINUSE: "Stop its owner or choose another port",
            errno.EACCES: "Ports below 1024 take root or CAP_NET_BIND_SERVICE; use 2121 otherwise",
            errno.EADDRNOTAVAIL: "Give an address of this host, or 0.0.0.0",
        }.get(error.errno or 0, "Check address and port")
        raise ServerStartFailed(f"cannot listen on {address} port {port}: {error.strerror}", hint=hint) from error
    sockets.save_syn(listener)
    if dscp:
        # Inherited by every connection, so that its SYN-ACK is marked too.
        sockets.set_dscp(listener, dscp)
    return listener


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in _ENVIRONMENT or name.startswith("LC_")}


class Child:
    """The server's process.

    Args:
        settings: How it is to run.
        on_message: Called with everything it says by itself, on a thread of ours.
        on_end: Called once when it is gone, with the reason and whether it ended in order: as it was told to.

    Raises:
        ServerStartFailed: It did not come up, or the host allows too few open files for the sessions wanted.
    """

    def __init__(
        self,
        settings: "ServerSettings",
        *,
        on_message: "Callable[[dict[str, Any]], None]",
        on_end: "Callable[[str, bool], None]",
    ) -> None:
        self._on_message = on_message
        self._on_end = on_end
        self._lock = threading.Lock()
        self._answered = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._next_id = 0
        self._ended = False
        self._closing = False
        self._ready: Ready | None = None
        sessions = sessions_allowed(settings.limits.sessions, hard_limit())
        settings = replace(settings, limits=replace(settings.limits, sessions=sessions))
        listener = bound_listener(settings.listen_address, settings.port, settings.profile.dscp)
        # Not a `with`: it lives as long as the child, and holds what a crash wrote.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._socket, self._process = self._start(settings, listener)
        self._reader = threading.Thread(target=self._read, name="ftpserver-reader", daemon=True)
        self._reader.start()
        self._await_ready()

    @property
    def port(self) -> int:
        """The control port in force."""
        assert self._ready is not None
        return self._ready.port

    @property
    def capabilities(self) -> "HostCapabilities":
        """What the kernel granted to it."""
        assert self._ready is not None
        return self._ready.capabilities

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, operation: str, **arguments: Any) -> Any:
        """Send a request and return the answer.

        Raises:
            ServerGone: It ended or does not answer.
            RequestRefused: It answered with an error.
        """
        with self._lock:
            self._next_id += 1
            number = self._next_id
            try:
                self._socket.sendall(line(id=number, op=operation, **arguments))
            except OSError as error:
                raise ServerGone(f"the server's process is gone: {error.strerror}") from error
        with self._answered:
            self._answered.wait_for(lambda: number in self._answers or self._ended, _ANSWER_S)
            answer = self._answers.pop(number, None)
        if answer is None:
            raise ServerGone(f"the server's process gave no answer to {operation!r}")
        if "error" in answer:
            raise RequestRefused(f"{operation}: {answer['error']}")
        return answer.get("ok")

    def close(self) -> None:
        """Stop it, kindly at first; twice is harmless."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(OSError), self._lock:
            self._socket.sendall(line(id=0, op="stop"))
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join(_STOP_S)
        self._socket.close()
        self._stderr.close()

    def _start(
        self, settings: "ServerSettings", listener: socket.socket
    ) -> "tuple[socket.socket, subprocess.Popen[bytes]]":
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
                # -P keeps a stray module in the current folder from shadowing ours.
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "flashferry.fileserver.process",
                    str(theirs.fileno()),
                    str(listener.fileno()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                pass_fds=(theirs.fileno(), listener.fileno()),
                env=_environment(),
                # Ctrl-C on the terminal is for the parent, which then decides what becomes of running transfers.
                start_new_session=True,
            )
            ours.sendall(line(hello=Hello(settings=settings, parent_pid=os.getpid())))
        except OSError as error:
            ours.close()
            self._stderr.close()
            raise ServerStartFailed(
                f"cannot start the server's process: {error.strerror}",
                hint="Look whether this host has processes and memory left",
            ) from error
        finally:
            theirs.close()
            listener.close()
        return ours, process

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
            with self._socket.makefile("rb") as lines, contextlib.suppress(OSError):
                for text in lines:
                    # One that was killed leaves half a line behind.
                    if text.endswith(b"\n"):
                        self._take(json.loads(text))
        except Exception:  # noqa: BLE001
            # Whatever it said, who waits for it must be woken: it is of no use any more.
            _LOG.exception("the server's process was not understood")
            self._process.kill()
        finally:
            self._tell_end()

    def _tell_end(self) -> None:
        with self._answered:
            self._ended = True
            self._answered.notify_all()
        in_order = self._process.wait() == 0
        if self._ready is None:
            return
        if self._closing or in_order:
            self._on_end("the server was stopped", in_order)
        else:
            self._on_end(f"the server's process ended: {self._last_words()}", False)

    def _take(self, message: dict[str, Any]) -> None:
        if "re" in message or "ready" in message:
            with self._answered:
                if "ready" in message:
                    self._ready = decode(Ready, message["ready"])
                elif message["re"]:
                    self._answers[message["re"]] = message
                self._answered.notify_all()
        else:
            self._on_message(message)

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


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
