"""Run timed copies, and measure the ceilings of disk and link."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec import field as struct_field

from flashferry.depot.probing.figures import Trial
from flashferry.depot.probing.methods import Direction, Ends, Method, SshAccess, commands_of

STREAM = """
import socket,sys,time
role,host,port,size=sys.argv[1],sys.argv[2],int(sys.argv[3]),int(sys.argv[4])
if role[0]=='l':
    l=socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET); l.settimeout(20)
    l.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1); l.bind((host,port)); l.listen(1); s=l.accept()[0]
else:
    for i in range(100):
        try: s=socket.create_connection((host,port),10); break
        except ConnectionRefusedError: time.sleep(0.05)
    else: sys.exit(3)
s.settimeout(60); b=bytearray(1<<20); t=time.monotonic(); n=0
if role[1]=='s':
    while n<size: n+=s.send(memoryview(b)[:size-n])
    s.shutdown(1); s.recv(1)
else:
    while n<size:
        k=s.recv_into(b)
        if not k: break
        n+=k
print(n,time.monotonic()-t)
"""
"""Program of one end of a bare TCP stream. Roles: `ls` listens and sends, `lr` listens and receives, `cs` and `cr`
connect.
"""

_STREAM_S = 90.0
_BLOCK = 1 << 20
_CONNECTS = 3
_DD = re.compile(r"(\d+) bytes .*copied, ([0-9.e+-]+) s")
_LEAST_S = 1e-6


def stream_command(python: str, role: str, host: str, port: int, size_bytes: int) -> list[str]:
    """Return the command of one end of a bare stream."""
    return [python, "-c", STREAM, role, host, str(port), str(size_bytes)]


def bare_tcp(
    prefix: Sequence[str],
    start_far: Callable[[str], None],
    host: str,
    port: int,
    *,
    size_bytes: int,
    direction: Direction,
    far_python: str = "python3",
) -> float | None:
    """Return the rate of a bare TCP stream in bytes per second, by the receiver's clock; None: it failed.

    Args:
        prefix: Words before the local command.
        start_far: Starts a command at the far end.
        host: The far end's address, as seen from here.
        port: A free port there, open to here.
        size_bytes: Bytes to send.
        direction: `pull` or `push`.
        far_python: The far end's Python.
    """
    listens, connects = ("ls", "cr") if direction == "pull" else ("lr", "cs")
    anyone = "::" if ":" in host else "0.0.0.0"  # noqa: S104 -- one connection, zeros only
    start_far(shlex.join(stream_command(far_python, listens, anyone, port, size_bytes)))
    with suppress(subprocess.TimeoutExpired, OSError):
        words = [*prefix, *stream_command(sys.executable, connects, host, port, size_bytes)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_STREAM_S, check=False)
        count, took_s = done.stdout.split() or ("0", "0")
        if int(count) == size_bytes and float(took_s) > 0:
            return size_bytes / float(took_s)
    return None


def disk_here(folder: Path, size_bytes: int) -> tuple[float, float]:
    """Return write rate (flushed) and read rate of the local disk, in bytes per second.

    Raises:
        OSError: The folder cannot be written, or is full.
    """
    path = folder / f".ferry-probe-disk-{os.getpid()}"
    try:
        wrote_s = _wrote_s(path, max(1, size_bytes // _BLOCK))
        read_s, count = _read_s(path)
        return count / max(wrote_s, _LEAST_S), count / max(read_s, _LEAST_S)
    finally:
        path.unlink(missing_ok=True)


def _wrote_s(path: Path, blocks: int) -> float:
    block, started_s = os.urandom(_BLOCK), time.monotonic()
    with path.open("wb") as out:
        for _ in range(blocks):
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    return time.monotonic() - started_s


def _read_s(path: Path) -> tuple[float, int]:
    with path.open("rb", buffering=0) as back:
        # What is clean in the cache is dropped, so that it comes from the disk again.
        os.posix_fadvise(back.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        started_s, buffer, count = time.monotonic(), bytearray(_BLOCK), 0
        while got := back.readinto(buffer):
            count += got
        return time.monotonic() - started_s, count


def rate_by_dd(text: str) -> float | None:
    """Return bytes per second from the last line of GNU `dd`; None: it has none."""
    found = _DD.search(text)
    if found is None or float(found[2]) <= 0:
        return None
    return int(found[1]) / float(found[2])


def connect_s(host: str, port: int, *, limit_s: float = 5.0) -> float | None:
    """Return the least time of some TCP connects, about one round trip; None: the port is not reachable."""
    found = []
    for _ in range(_CONNECTS):
        started_s = time.monotonic()
        try:
            socket.create_connection((host, port), limit_s).close()
        except OSError:
            return None
        found.append(time.monotonic() - started_s)
    return min(found)


_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAMPLE_EVERY_S = 0.04
_KILL_CHECK_S = 0.05
_MOST_ERROR = 4000


class Ran(Struct, frozen=True, kw_only=True):
    """The result of a pipeline.

    Attributes:
        wall_s: From its start to the end of its last process.
        cpu_s: Processor time of all its processes.
        busy_s: Time that its busiest process ran or waited for a processor; None: unknown.
        watched_busy_s: The same for the additionally watched processes; None: no such process.
        code: Exit code of the first that failed, else 0.
        error: Standard error output.
        output: Output of the last process, if it was kept.
    """

    wall_s: float
    cpu_s: float
    busy_s: float | None
    watched_busy_s: float | None
    code: int
    error: str
    output: bytes = b""


@dataclass(slots=True)
class _Tree:
    """How long the processes below some roots have run or waited, as last sampled."""

    roots: tuple[int, ...]
    first: dict[int, float] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)
    started: bool = False

    def sample(self) -> None:
        for pid in _below(self.roots):
            waited_s = _waited_s(pid)
            if waited_s is None:
                continue
            # What was there before has its past; what comes later is counted from nothing.
            self.first.setdefault(pid, 0.0 if self.started else waited_s)
            self.last[pid] = waited_s
        self.started = True

    def busiest_s(self) -> float | None:
        if not self.last:
            return None
        return max(value - self.first[pid] for pid, value in self.last.items())


def _below(roots: Iterable[int]) -> list[int]:
    found, waiting = [], list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        with suppress(OSError, ValueError):
            text = (_PROC / str(pid) / "task" / str(pid) / "children").read_text(encoding="ascii")
            waiting += [int(word) for word in text.split()]
    return found


def _waited_s(pid: int) -> float | None:
    try:
        ran, waited, _ = (_PROC / str(pid) / "schedstat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    return (int(ran) + int(waited)) / 1e9


def reaped_s(pid: int) -> float | None:
    """Return the processor time of a process and its reaped children; None: unknown."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return None


def has_children(pid: int) -> bool:
    """Return whether a process has children now."""
    return len(_below((pid,))) > 1


class _Watcher:
    """Sample processes during a with block."""

    def __init__(self, own: Sequence[int], watched: Sequence[int]) -> None:
        self._own, self._watched = _Tree(tuple(own), started=True), _Tree(tuple(watched))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="probe-watcher", daemon=True)

    def __enter__(self) -> _Watcher:
        self._watched.sample()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_EVERY_S):
            self._own.sample()
            self._watched.sample()

    def busiest_s(self) -> tuple[float | None, float | None]:
        """Return the busy time of the pipeline's busiest process, and of the busiest watched one."""
        return self._own.busiest_s(), self._watched.busiest_s()


def run_pipeline(
    commands: Sequence[Sequence[str]],
    *,
    stdin: str = "",
    environment: Mapping[str, str] | None = None,
    watched: Sequence[int] = (),
    limit_s: float = 600.0,
    keeps_output: bool = False,
    interrupted: Callable[[], bool] = lambda: False,
) -> Ran:
    """Run commands, each reading what the one before it writes, and measure them.

    Args:
        commands: Each with its words; no shell is used.
        stdin: Input of the first one.
        environment: Their environment; None: ours.
        watched: Processes whose children are sampled too, such as a server's.
        limit_s: Time after which all are ended.
        keeps_output: Whether to keep the last one's output.
        interrupted: Called while they run; true ends them.

    Raises:
        OSError: A program is missing.
    """
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        started_s = time.monotonic()
        running = _started(
            commands, given.fileno(), out.fileno() if keeps_output else None, errors.fileno(), environment
        )
        with _Watcher([one.pid for one in running], watched) as watcher:
            ended = _waited(running, started_s + limit_s, interrupted)
            wall_s = time.monotonic() - started_s
        own, theirs = watcher.busiest_s()
        errors.seek(0)
        out.seek(0)
        return Ran(
            wall_s=wall_s,
            cpu_s=sum(cpu for _, cpu in ended),
            busy_s=own,
            watched_busy_s=theirs,
            code=next((code for code, _ in ended if code), 0),
            error=errors.read()[-_MOST_ERROR:].decode(errors="replace"),
            output=out.read(),
        )


def _started(
    commands: Sequence[Sequence[str]],
    stdin: int,
    stdout: int | None,
    stderr: int,
    environment: Mapping[str, str] | None,
) -> list[subprocess.Popen[bytes]]:
    running: list[subprocess.Popen[bytes]] = []
    source: int = stdin
    try:
        for number, words in enumerate(commands):
            is_last = number == len(commands) - 1
            target = (stdout if stdout is not None else subprocess.DEVNULL) if is_last else subprocess.PIPE
            # In a session of its own it can ask for nothing on the terminal.
            one = subprocess.Popen(
                list(words), stdin=source, stdout=target, stderr=stderr, env=environment, start_new_session=True
            )
            if running and running[-1].stdout is not None:
                running[-1].stdout.close()
            running.append(one)
            source = one.stdout.fileno() if one.stdout is not None else stdin
    except OSError:
        _ended(running)
        raise
    return running


def _waited(
    running: Sequence[subprocess.Popen[bytes]], until_s: float, interrupted: Callable[[], bool]
) -> list[tuple[int, float]]:
    """Wait for all; return exit code and processor time of each."""
    done = threading.Event()

    def guard() -> None:
        while not done.wait(_KILL_CHECK_S):
            if time.monotonic() > until_s or interrupted():
                _killed(running)
                return

    guarding = threading.Thread(target=guard, name="probe-guard", daemon=True)
    guarding.start()
    try:
        return [_reaped(one) for one in running]
    finally:
        done.set()
        guarding.join()


def _reaped(one: subprocess.Popen[bytes]) -> tuple[int, float]:
    _, status, usage = os.wait4(one.pid, 0)
    one.returncode = os.waitstatus_to_exitcode(status)
    return one.returncode, usage.ru_utime + usage.ru_stime


def _killed(running: Iterable[subprocess.Popen[bytes]]) -> None:
    for one in running:
        if one.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(one.pid, 9)


def _ended(running: Iterable[subprocess.Popen[bytes]]) -> None:
    """End the processes of a pipeline that could not start completely."""
    for one in running:
        if one.stdout is not None:
            one.stdout.close()
        one.kill()
        one.wait()


LISTENING = (
    'h=$(printf ":%04X 0*:0000 0A" {port}); i=0; '
    'until grep -q "$h" /proc/net/tcp /proc/net/tcp6 2>/dev/null; do '
    "i=$((i+1)); [ $i -gt 200 ] && break; sleep 0.02; done"
)
"""Shell code that waits up to four seconds until a port listens (/proc/net/tcp, state 0A)."""

_MOST_SHOWN = 300


class FarSide(Protocol):
    """The far end, as copies need it.

    Attributes:
        sees_commands: Whether its processor time includes commands started without a login.
    """

    sees_commands: bool

    def start(self, command: str, *, port: int) -> None:
        """Start a command that listens on a port; return when it does."""

    def cpu_s(self) -> float | None:
        """Return the processor time of all that has ended there; None: unknown."""

    def remove(self, path: str) -> None:
        """Remove a file there, if it exists."""

    def size_bytes(self, path: str) -> int | None:
        """Return the size of a file there; None: missing or unknown."""


class Sample(Struct, frozen=True, kw_only=True):
    """A file to copy: its path at the end that has it, and its size."""

    source: str
    size_bytes: int


class Copier(Struct, frozen=True, kw_only=True):
    """Copy by any method except HTTP.

    Attributes:
        samples: What is copied, by `Method.data`; `nothing` among them.
        target: Path of the copy, at the receiving end.
        port: A port at the far end for bare TCP, or None.
        environment: Of local commands; None: ours.
        watched: Local processes whose children are the far end, if it is on this machine.
        limit_s: Time limit of one copy.
        interrupted: Whether to stop.
    """

    access: SshAccess
    far: FarSide
    direction: Direction
    samples: Mapping[str, Sample]
    target: str
    port: int | None = None
    environment: Mapping[str, str] | None = None
    watched: Sequence[int] = ()
    limit_s: float = 300.0
    interrupted: Callable[[], bool] = struct_field(default=lambda: False)

    def copy(self, method: Method, number: int) -> Trial:
        """Copy once; a failure is recorded in the trial, never raised."""
        sample = self.samples[method.data]
        is_pull = self.direction == "pull"
        here, far = (self.target, sample.source) if is_pull else (sample.source, self.target)
        commands = commands_of(method, self.access, Ends(here=here, far=far, direction=self.direction, port=self.port))
        self._clear()
        if commands.first_far and self.port is not None:
            self.far.start(commands.first_far, port=self.port)
        before_s = self.far.cpu_s()
        try:
            ran = run_pipeline(
                commands.pipeline,
                stdin=commands.stdin,
                environment=self.environment,
                watched=self.watched if method.by_ssh else (),
                limit_s=self.limit_s,
                interrupted=self.interrupted,
            )
        except OSError as error:
            text = f"{error.filename or method.name}: {error.strerror}"
            return Trial(key=method.key, number=number, size_bytes=sample.size_bytes, error=text)
        # The look at its size waits for what still writes there, so it comes first.
        fault = self._fault(ran.code, ran.error, sample.size_bytes)
        after_s = self.far.cpu_s()
        return Trial(
            key=method.key,
            number=number,
            size_bytes=sample.size_bytes,
            wall_s=ran.wall_s,
            here_cpu_s=ran.cpu_s,
            far_cpu_s=_less(after_s, before_s) if method.by_ssh or self.far.sees_commands else None,
            here_busy_s=ran.busy_s,
            far_busy_s=ran.watched_busy_s,
            error=fault,
        )

    def _clear(self) -> None:
        if self.direction == "pull":
            with suppress(OSError):
                Path(self.target).unlink()
        else:
            self.far.remove(self.target)

    def _fault(self, code: int, error: str, size_bytes: int) -> str:
        """Return a failure in a sentence; empty: none."""
        if code:
            lines = [line.strip() for line in error.splitlines() if line.strip()]
            return f"ended with {code}: {lines[-1] if lines else 'no word'}"[:_MOST_SHOWN]
        there = self._size()
        if there is not None and there != size_bytes:
            return f"expected {size_bytes} bytes at the other end, found {there}"
        return ""

    def _size(self) -> int | None:
        if self.direction == "push":
            return self.far.size_bytes(self.target)
        try:
            return os.stat(self.target).st_size  # noqa: PTH116 -- a path of ours, as text
        except OSError:
            return 0


def _less(after_s: float | None, before_s: float | None) -> float | None:
    return None if after_s is None or before_s is None else max(after_s - before_s, 0.0)
