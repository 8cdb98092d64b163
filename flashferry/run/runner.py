"""A Nornir runner with a thread for each device under way, not for each device of the fleet.

A `Source` decides which device starts next, and when. By default, as a plugin of a user's own Nornir, hosts start in
their order, a limited number at a time.
Memory of waiting threads is kept small: glibc's malloc gives each thread that allocates concurrently a region (arena)
of its own, up to eight per core (mallopt(3), M_ARENA_MAX), whose free memory other threads cannot use. Our threads
mostly wait, and hold Python's lock otherwise: two regions are enough.
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

    A run of few devices is left as it is, and so is any C library but glibc.
    """
    if devices < _MANY_DEVICES:
        return False
    with suppress(AttributeError, OSError):
        return bool(ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS))
    return False


WAKE_S = 1.0
"""Seconds after which a source is asked again without a wake-up."""

GC_THRESHOLD = 20_000
"""New objects after which Python looks for reference cycles. Its own 700 costs a twentieth of all processor time, since
it scans all that a run holds again and again (measured with 100 devices)."""

SWITCH_S = 0.02
"""Python's thread switch interval during a run. Its own 5 ms, times hundreds of waiting threads, costs a fifth of all
processor time (measured with 60 devices)."""


class Source(Protocol):
    """The order in which devices start. One thread calls `take`, `is_over` and `wait`, many call `ended`."""

    def take(self) -> str | None:
        """Return the host that starts now, or None."""
        ...

    def ended(self, name: str) -> None:
        """Record that a host's task has ended."""
        ...

    def is_over(self) -> bool:
        """Return whether no host is under way and none will start."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Wait until something changed, at most for the timeout."""
        ...


class InOrder:
    """A source of hosts in their order, a limited number at a time."""

    def __init__(self, names: Sequence[str], at_a_time: int) -> None:
        self._left = list(reversed(names))
        self._limit = at_a_time
        self._running = 0
        self._changed = threading.Condition()

    def take(self) -> str | None:
        """Return the next host if the limit allows."""
        with self._changed:
            if not self._left or self._running >= self._limit:
                return None
            self._running += 1
            return self._left.pop()

    def ended(self, name: str) -> None:  # noqa: ARG002 -- the signature
        """Free a place."""
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def is_over(self) -> bool:
        """Return whether all hosts have ended."""
        with self._changed:
            return not self._left and not self._running

    def wait(self, timeout_s: float) -> None:
        """Wait until a host ends."""
        with self._changed:
            if self._running >= self._limit or not self._left:
                self._changed.wait(timeout_s)


class FleetRunner:
    """Nornir runner plugin `fleet`.

    Args:
        num_workers: Devices at a time without a source, >= 1.
        source: Decides which device starts next; None: the hosts in their order.
        on_abort: Called if the run ends by an exception (for example Ctrl-C in a script). Devices under way are still
            waited for, since only this run restores them.
    """

    def __init__(
        self, num_workers: int = 200, source: Source | None = None, on_abort: Callable[[], None] = lambda: None
    ) -> None:
        self._num_workers = num_workers
        self._source = source
        self._on_abort = on_abort

    def run(self, task: Task, hosts: list[Host]) -> AggregatedResult:
        """Run a task on hosts. If a host runs more than once, its last result counts."""
        by_name = {host.name: host for host in hosts}
        source = self._source or InOrder(tuple(by_name), self._num_workers)
        found: dict[str, MultiResult] = {}
        threads: set[threading.Thread] = set()

        def one(host: Host) -> None:
            try:
                found[host.name] = task.copy().start(host)
            finally:
                # `set.discard` is atomic under the interpreter's lock.
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
    """Start a thread for a host; if the system refuses another one (`ulimit -u`), wait until one has ended."""
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
    """Have threads switch, and cycles of objects be looked for, less often while the block runs."""
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
