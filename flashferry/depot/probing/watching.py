"""Run commands and measure the processor time of each of their processes.

Facts (proc(5), getrusage(2), Documentation/scheduler/sched-stats.rst)
-----

- wait4(2) reports the processor time of a child and of all children that it has waited for itself, in microseconds.
- /proc/PID/schedstat shows, in nanoseconds, how long a process ran, and how long it waited for a processor. On a
  machine that is shared, one that would fill a core is seen by both together, not by the first alone.
- /proc/PID/task/PID/children names the children of a process; looking there costs less than reading all of /proc.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SAMPLE_EVERY_S = 0.04
_KILL_CHECK_S = 0.05
_MOST_ERROR = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a pipeline went.

    Attributes:
        wall_s: From its start until its last process had ended.
        cpu_s: Processor time of all its processes.
        busy_s: How long its busiest process ran or waited for a processor; None: not seen.
        watched_busy_s: The same of the processes that were watched besides.
        code: Of the first that failed, else 0.
        error: What it printed on standard error.
        output: What the last one printed, where it was kept.
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
    """How long processes below some roots have run or waited, as last seen."""

    roots: tuple[int, ...]
    first: dict[int, float] = field(default_factory=dict)
    last: dict[int, float] = field(default_factory=dict)
    started: bool = False

    def look(self) -> None:
        for pid in _below(self.roots):
            wanted = _waited_s(pid)
            if wanted is None:
                continue
            # What was there before has its past; what comes later is counted from nothing.
            self.first.setdefault(pid, 0.0 if self.started else wanted)
            self.last[pid] = wanted
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
    """Return the processor time of a process and of all children that it has waited for; None: not to be seen."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(int(ticks) for ticks in fields[11:15]) / _TICKS_PER_S
    except (OSError, ValueError, IndexError):
        return None


def has_children(pid: int) -> bool:
    """Return whether a process has children at this moment."""
    return len(_below((pid,))) > 1


class _Watcher:
    """Looks at processes for the length of a with block."""

    def __init__(self, own: Sequence[int], watched: Sequence[int]) -> None:
        self._own, self._watched = _Tree(tuple(own), started=True), _Tree(tuple(watched))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="probe-watcher", daemon=True)

    def __enter__(self) -> _Watcher:
        self._watched.look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_EVERY_S):
            self._own.look()
            self._watched.look()

    def busiest_s(self) -> tuple[float | None, float | None]:
        """Return how long the busiest process of the pipeline, and of those watched besides, was busy."""
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
    """Run commands, each reading what the one before it writes, and say what time they took.

    Args:
        commands: Each with its words; no shell is asked.
        stdin: What the first one reads; empty: nothing.
        environment: Their environment; None: ours.
        watched: Processes whose children are looked at, too, such as a server's.
        limit_s: When all of them are ended.
        keeps_output: Whether what the last one prints is kept; else it is thrown away.
        interrupted: Looked at while they run; true ends them.

    Raises:
        OSError: A program is not there.
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
    """Wait for all of them; return for each its code and processor time."""
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
    """End what was started of a pipeline that never was whole."""
    for one in running:
        if one.stdout is not None:
            one.stdout.close()
        one.kill()
        one.wait()
