"""TCP options of a SYN: switched for the namespace while a connection opens.

Linux has no per-socket switch for SACK, window scaling and timestamps, only one per network namespace, read when
the SYN is made and when the SYN-ACK comes. So connections that want the same options open together, and others
wait for them. The wait is bounded: an address that never answers must not hold up the other devices.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.lab.namespaces import set_sysctl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LONGEST_HOLD_S = 2.5
"""Covers the first retransmission of a SYN (1 s) on a path of 1.5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynOptions:
    """The options that a SYN offers."""

    window_scaling: bool = True
    sack: bool = True
    timestamps: bool = True


_AT_REST = SynOptions()


def write_options(options: SynOptions) -> None:
    """Set the switches of the calling thread's namespace."""
    set_sysctl("net/ipv4/tcp_window_scaling", int(options.window_scaling))
    set_sysctl("net/ipv4/tcp_sack", int(options.sack))
    set_sysctl("net/ipv4/tcp_timestamps", int(options.timestamps))


class OptionsGate:
    """Lets connections of equal options open at the same time."""

    def __init__(self, write: Callable[[SynOptions], None] = write_options) -> None:
        self._write = write
        self._changed = threading.Condition()
        self._current = _AT_REST
        self._holders = 0

    def leave_alone(self) -> None:
        """From now on set no switch: connections open with the options that the host has."""
        self._write = lambda _options: None

    @contextlib.contextmanager
    def opening(self, options: SynOptions) -> Iterator[None]:
        """Hold the switches at ``options`` for the length of a with block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._holders or self._current == options)
            if self._current != options:
                self._write(options)
                self._current = options
            self._holders += 1
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                if not self._holders:
                    # At rest the namespace behaves like any Linux host: SSH comes in meanwhile.
                    self._write(_AT_REST)
                    self._current = _AT_REST
                self._changed.notify_all()


GATE = OptionsGate()
"""The gate of this process, which lives in one namespace."""
