"""A Nornir runner with a thread for each device under way, not for each device of the fleet.

A `Source` decides which device starts next, and when. By default, as a plugin of a user's own Nornir, the hosts start
in their order, so many at a time.

Hundreds of waiting threads are kept small: glibc's malloc gives each thread that allocates while another one does a
region (arena) of its own, up to eight per core (mallopt(3), M_ARENA_MAX), and each of them keeps free memory that the
others cannot use. Our threads wait, and hold Python's lock while they do not: two regions serve them as well.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from nornir.core.inventory import Host
from nornir.core.task import AggregatedResult, MultiResult, Task

_M_ARENA_MAX = -8  # malloc.h
_ARENAS = 2
_MANY_DEVICES = 100


def share_arenas(devices: int) -> bool:
    """Have the threads of a large run share malloc's regions, for the rest of this process; return whether they do.

    Args:
        devices: How many devices the run has; a small one is left as it is. So is any C library but glibc.
    """
    if devices < _MANY_DEVICES:
        return False
    with suppress(AttributeError, OSError):
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS))
    return False


WAKE_S = 1.0
"""A source is asked again after so long without a wake-up."""

GC_THRESHOLD = 20_000
"""New objects after which Python looks for cycles among them. Its own 700 has it look through all that a run holds,
again and again, for a twentieth of all processor time (measured with 100 devices)."""

SWITCH_S = 0.02
"""A thread that waits for the interpreter looks so often whether it is its turn. Python's own 5 ms, times the hundreds
of threads that wait while many devices are checked, is a fifth of all processor time (measured with 60 devices)."""


def _nothing() -> None:
    """Do nothing."""


class Source(Protocol):
    """The order of devices. `take`, `is_over` and `wait` are called by one thread, `ended` by many."""

    def take(self) -> str | None:
        """Return the host that starts now, or None where none may."""
        ...

    def ended(self, name: str) -> None:
        """Note that a host's task has ended."""
        ...

    def is_over(self) -> bool:
        """Return whether none is under way and none will start."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until something changed, or for the timeout."""
        ...


class InOrder:
    """A source of hosts in their order, so many at a time."""

    def __init__(self, names: Sequence[str], at_a_time: int) -> None:
        self._left = list(reversed(names))
        self._limit = at_a_time
        self._running = 0
        self._changed = threading.Condition()

    def take(self) -> str | None:
        """Return the next one, where there is room."""
        with self._changed:
            if not self._left or self._running >= self._limit:
                return None
            self._running += 1
            return self._left.pop()

    def ended(self, name: str) -> None:  # noqa: ARG002 -- the signature
        """Make room."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def is_over(self) -> bool:
        """Return whether all have ended."""
        with self._changed:
            return not self._left and not self._running

    def wait(self, timeout_s: float) -> None:
        """Wait until one ends."""
        with self._changed:
            if self._running >= self._limit or not self._left:
                self._changed.wait(timeout_s)


class FleetRunner:
    """Nornir runner plugin `fleet`.

    Args:
        num_workers: Devices at a time, >= 1, where no source decides.
        source: Who begins next, or None: the hosts in their order.
        on_abort: Called where the run ends by an error (Ctrl-C in a script, say). Devices under way are waited for,
            since only this run restores the devices that it holds.
    """

    def __init__(
        self, num_workers: int = 200, source: Source | None = None, on_abort: Callable[[], None] = _nothing
    ) -> None:
        self._num_workers = num_workers
        self._source = source
        self._on_abort = on_abort

    def run(self, task: Task, hosts: list[Host]) -> AggregatedResult:
        """Run a task over hosts; of a host that is taken more than once the last result stays."""
        by_name = {host.name: host for host in hosts}
        source = self._source or InOrder(tuple(by_name), self._num_workers)
        found: dict[str, MultiResult] = {}
        threads: set[threading.Thread] = set()

        def one(host: Host) -> None:
            try:
                found[host.name] = task.copy().start(host)
            finally:
                # A set's discard is one step under the interpreter's lock.
                threads.discard(threading.current_thread())
                source.ended(host.name)

        with _unhurried():
            try:
                while not source.is_over():
                    name = source.take()
                    if name is None:
                        source.wait(WAKE_S)
                        continue
                    _start(one, by_name[name], threads, source)
            except BaseException:
                self._on_abort()
                raise
            finally:
                for thread in tuple(threads):
                    thread.join()
        result = AggregatedResult(task.name)
        for name in by_name:
            if name in found:
                result[name] = found[name]
        return result


def _start(one: Callable[[Host], None], host: Host, threads: set[threading.Thread], source: Source) -> None:
    """Start a thread for a host; where the system gives no more of them (`ulimit -u`), once another one has ended.

    Raises:
        RuntimeError: There is none to wait for.
    """
    while True:
        thread = threading.Thread(target=one, args=(host,), name=f"flashferry-{host.name}")
        threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            threads.discard(thread)
            if not threads:
                raise
            source.wait(WAKE_S)
        else:
            return


@contextmanager
def _unhurried() -> Iterator[None]:
    """Have threads change places, and cycles of objects be looked for, less often for as long as the block lasts."""
    before_s, (young, *older) = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(max(before_s, SWITCH_S))
    if young:
        gc.set_threshold(max(young, GC_THRESHOLD), *older)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(young, *older)
        sys.setswitchinterval(before_s)
