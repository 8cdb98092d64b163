"""Connect to and listen on the depot's socket: greeting, status, and checks of the other side's user and release.

Facts
-----

- Connecting to a socket file needs write permission (unix(7)); it is created 0600, in a folder of its owner. The kernel
  reports the other side's user at the time of `connect` or `listen` (SO_PEERCRED).
- A socket file outlives its process. A lock file beside it shows whether a depot serves it; the kernel releases the
  lock when the process ends.
- A socket's path has at most 107 bytes (unix(7), `sun_path`).
- Both sides first state their release. Only this message is understood across releases; all others belong to one
  release, so both sides must be of the same. They are in `flashferry.fileserver.wire`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import struct
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from flashferry.core.errors import ConfigInvalid
from flashferry.core.state_folder import lock, make_private_directory, open_private
from flashferry.core.units import counted
from flashferry.depot.paths import DepotNotRunning, DepotNotUsable, is_socket
from flashferry.fileserver.rpc_channel import ConnectionBroken, RpcChannel
from flashferry.fileserver.wire import ReadStatus, Welcome, encode

PRODUCT = "flashferry depot"
STATUS = "look"
"""Purpose of a client that only reads the status."""


def release() -> str:
    """Return the release of this process; `unknown` if it is not installed."""
    try:
        return version("flashferry")
    except PackageNotFoundError:
        return "unknown"


def network() -> str:
    """Return the name of this process's network namespace; empty: unknown.

    Networks can share a socket file: a run in a lab's network would find a depot that its devices cannot reach.
    """
    try:
        return os.readlink("/proc/self/ns/net")  # noqa: PTH115 -- the link leads to no file
    except OSError:
        return ""


class Greeting(msgspec.Struct, frozen=True):
    """The first message of either side."""

    what: str
    release: str
    pid: int
    purpose: str = ""


decode_greeting = msgspec.msgpack.Decoder(Greeting).decode
"""Decode a greeting; raises `msgspec.DecodeError` for anything else."""


def own_greeting(purpose: str = "") -> Greeting:
    """Return this process's greeting."""
    return Greeting(what=PRODUCT, release=release(), pid=os.getpid(), purpose=purpose)


class RunSeen(Struct, frozen=True, kw_only=True):
    """A run that uses the depot.

    Attributes:
        purpose: Its verb.
        since: When it connected, seconds since the epoch.
        tickets: Its unfinished tickets.
        copies: Slots that it holds.
        waiting: Slots that it waits for.
    """

    pid: int
    purpose: str
    since: float
    tickets: int
    copies: int
    waiting: int


class SiteSeen(Struct, frozen=True, kw_only=True):
    """A site with copies, waiting copies or a cap.

    Attributes:
        copies: Slots held there by all runs.
        waiting: Slots waited for.
        limit: The lowest limit of all runs, or None.
        cap_bytes_per_s: The cap of all transfers there together, payload, or None.
    """

    site: str
    copies: int
    waiting: int
    limit: int | None
    cap_bytes_per_s: int | None


class DepotView(Struct, frozen=True, kw_only=True):
    """The depot's status.

    Attributes:
        since: When it started, seconds since the epoch.
        ports: Its ports by transport.
        sites: Sites with copies, waiting copies or a cap.
        is_ending: Whether it accepts nothing new and ends with its last transfer.
        notices: Its latest 200 reports about itself.
        catalogue: The folder of images offered to other sites' depots, absolute; empty: none.
    """

    release: str
    pid: int
    since: float
    ports: dict[str, int]
    runs: tuple[RunSeen, ...] = ()
    sites: tuple[SiteSeen, ...] = ()
    is_ending: bool = False
    notices: tuple[str, ...] = ()
    catalogue: str = ""

    @property
    def in_words(self) -> str:
        """Return the status in one line."""
        ports = ", ".join(f"{name} port {port}" for name, port in self.ports.items())
        copies = counted(sum(run.copies for run in self.runs), "copy", "copies")
        ending = "; it is ending" if self.is_ending else ""
        return f"process {self.pid}, {ports}; {counted(len(self.runs), 'run')} with {copies}{ending}"


MOST_PATH_BYTES = 107
_GREETING_S = 10.0
_MOST_GREETING_BYTES = 4096
_CREDENTIALS = struct.Struct("3i")


def connect(path: Path, purpose: str) -> Connection:
    """Connect to a depot, and check that both sides are of one release.

    Args:
        path: The socket.
        purpose: What the client does, in a word.

    Raises:
        DepotNotRunning: No depot serves it.
        DepotNotUsable: It belongs to another user.
        ConfigInvalid: The depot is of another release, or is none.
    """
    _check_length(path)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.settimeout(_GREETING_S)
        try:
            line.connect(str(path))
            _check_other(line, path)
            line.settimeout(None)
            connection = Connection(line.detach())
        except PermissionError:
            raise DepotNotUsable(f"depot {path}: this user may not use it") from None
        except OSError as error:
            if isinstance(error, DepotNotUsable):
                raise
            raise DepotNotRunning(f"depot {path}: {error.strerror or error}") from None
    finally:
        line.close()
    try:
        _check_release(_greeted(connection, path, purpose), path)
    except BaseException:
        connection.close()
        raise
    return connection


def read_view(path: Path) -> DepotView:
    """Return the status of the depot at a socket; raises what `connect` does.

    Raises:
        ConnectionBroken: It ended before it answered.
    """
    with contextlib.closing(RpcChannel(connect(path, STATUS), lambda _message: None)) as channel:
        if not isinstance(channel.receive(), Welcome):
            raise ConnectionBroken("expected a welcome")
        found: DepotView = channel.ask_alone(ReadStatus(), DepotView)
        return found


def _greeted(connection: Connection, path: Path, purpose: str) -> Greeting:
    try:
        connection.send_bytes(encode(own_greeting(purpose)))
        if not connection.poll(_GREETING_S):
            raise DepotNotRunning(f"depot {path}: no answer in {_GREETING_S:.0f} s")
        return decode_greeting(connection.recv_bytes(_MOST_GREETING_BYTES))
    except msgspec.DecodeError:
        raise _no_depot(path) from None
    except (EOFError, OSError) as error:
        if isinstance(error, DepotNotRunning):
            raise
        raise DepotNotRunning(f"depot {path}: it ended while it was greeted") from None


def _check_release(greeting: Greeting, path: Path) -> None:
    if greeting.what != PRODUCT:
        raise _no_depot(path)
    ours = own_greeting().release
    if greeting.release != ours:
        raise ConfigInvalid(
            f"depot {path}: expected flashferry {ours}, as this command is, found {greeting.release} "
            f"(process {greeting.pid})",
            step="server",
            hint="Restart the depot, which keeps running its old release when flashferry is replaced; or give --depot "
            "never, and this run brings its own file server",
        )


def _no_depot(path: Path) -> ConfigInvalid:
    return ConfigInvalid(
        f"depot {path}: expected a depot of flashferry at this socket, found something else",
        step="server",
        hint="Give the socket that 'flashferry depot' prints, or --depot never",
    )


def _check_other(line: socket.socket, path: Path) -> None:
    """Check that the depot runs as our user or root, because devices are checked against its digests."""
    other = peer(line)[1]
    if other not in (os.geteuid(), 0):
        raise DepotNotUsable(f"depot {path}: it is of user {user_name(other)}, and this is {user_name(os.geteuid())}")


def peer(line: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end of a Unix socket."""
    raw = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _group = _CREDENTIALS.unpack(raw)
    return pid, user


def user_name(number: int) -> str:
    """Return a user's name, or the number if there is none."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def accept_greeting(connection: Connection) -> Greeting | None:
    """Exchange greetings with a client; None if it is of another release, or no client."""
    try:
        if not connection.poll(_GREETING_S):
            return None
        greeting = decode_greeting(connection.recv_bytes(_MOST_GREETING_BYTES))
        ours = own_greeting()
        connection.send_bytes(encode(ours))
    except (msgspec.DecodeError, EOFError, OSError):
        return None
    return greeting if (greeting.what, greeting.release) == (PRODUCT, ours.release) else None


class DepotSocket:
    """A listening socket, of one process at a time; a missing folder is created for its owner only.

    Raises:
        ConfigInvalid: Another depot serves it, another kind of file is there, or it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.is_closed = path, False
        _check_length(path)
        try:
            if not path.parent.is_dir():
                make_private_directory(path.parent)
            with contextlib.ExitStack() as stack:
                self._lock = stack.enter_context(_locked(path))
                self._listening = _listening_on(path)
                stack.pop_all()
        except OSError as error:
            raise ConfigInvalid(
                f"depot {path}: it cannot listen there: {error.strerror}",
                step="server",
                hint="Give a path in a folder of this user's with --socket",
            ) from None

    def accept(self) -> socket.socket | None:
        """Wait for a connection of our user or root; None after closing another user's.

        Raises:
            OSError: The socket was closed.
        """
        line, _ = self._listening.accept()
        if peer(line)[1] in (os.geteuid(), 0):
            return line
        line.close()
        return None

    def close(self) -> None:
        """Stop listening and remove the socket. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        with contextlib.suppress(OSError):
            # Wakes the thread in `accept`; closing alone does not.
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        self._lock.close()


def _locked(path: Path) -> IO[str]:
    held: IO[str] = open_private(path.with_name(f"{path.name}.lock"), "a")
    if lock(held):
        return held
    held.close()
    raise ConfigInvalid(
        f"depot {path}: another depot serves this socket",
        step="server",
        hint="One serves all runs of a host; 'flashferry status' shows which it is. Give another path with --socket "
        "for a second one",
    )


def _listening_on(path: Path) -> socket.socket:
    if path.exists() and not is_socket(path):
        raise ConfigInvalid(
            f"depot {path}: expected a socket or nothing, found something else",
            step="server",
            hint="Find out who put it there, or give another path with --socket",
        )
    # The lock is ours, so the process that made it has ended.
    path.unlink(missing_ok=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError:
        listening.close()
        raise
    finally:
        os.umask(before)
    listening.listen()
    return listening


def _check_length(path: Path) -> None:
    if len(os.fsencode(path)) > MOST_PATH_BYTES:
        raise ConfigInvalid(
            f"depot {path}: expected a path of at most {MOST_PATH_BYTES} bytes, found {len(os.fsencode(path))}: "
            "sockets take no longer one",
            step="server",
            hint="Give a shorter one with --socket to the depot, and with --depot to runs",
        )
