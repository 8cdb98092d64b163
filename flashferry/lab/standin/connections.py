"""The device's table of TCP connections, as `show tcp brief` lists them."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from flashferry.lab.standin.handshake import SynOptions
from flashferry.lab.standin.kernel_tcp import read_kernel_tcp

if TYPE_CHECKING:
    from flashferry.lab.standin.kernel_tcp import KernelTcp, Live


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A live connection.

    Attributes:
        tcb: The address by which `show tcp tcb` knows it.
        local: Host and port of the device.
        foreign: Host and port of the other side.
        opened_s: When it opened, a monotonic time.
        window_bytes: Its receive window; fixed when it opens, whatever is configured later.
        options: What the device offered when it opened, or would have in answer to a peer that offers it.
        live: Its socket, to read what the kernel knows of it; None where there is none.
        state: As IOS names it.
    """

    tcb: str
    local: tuple[str, int]
    foreign: tuple[str, int]
    opened_s: float
    window_bytes: int
    options: SynOptions
    live: Live | None = None
    state: str = "ESTAB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What connections carried, in segments and bytes."""

    segments_in: int = 0
    data_segments_in: int = 0
    bytes_in: int = 0
    out_of_order: int = 0
    segments_out: int = 0
    data_segments_out: int = 0
    bytes_out: int = 0
    retransmitted: int = 0

    def plus(self, one: KernelTcp | None) -> Totals:
        """Return the totals with another connection."""
        if one is None:
            return self
        return Totals(**{each.name: getattr(self, each.name) + getattr(one, each.name) for each in fields(self)})


class ConnectionTable:
    """Live connections of one device; used from the event loop and from copy threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Connection] = {}
        self.opened = 0
        self._closed = Totals()

    def add(
        self, local: tuple[str, int], foreign: tuple[str, int], *, window_bytes: int = 4128, live: Live | None = None,
        options: SynOptions | None = None,
    ) -> str:  # fmt: skip
        """Enter a connection and return its TCB address; 4128 bytes are the documented default of IOS."""
        with self._lock:
            tcb = f"7F{random.getrandbits(40):010X}"
            self.opened += 1
            self._rows[tcb] = Connection(
                tcb=tcb, local=local[:2], foreign=foreign[:2], opened_s=time.monotonic(),
                window_bytes=window_bytes, live=live, options=options or SynOptions(),
            )  # fmt: skip
            return tcb

    def change(self, tcb: str, local: tuple[str, int], foreign: tuple[str, int]) -> None:
        """Correct the addresses of a connection: they are known when it is open."""
        with self._lock:
            self._rows[tcb] = replace(self._rows[tcb], local=local[:2], foreign=foreign[:2])

    def remove(self, tcb: str) -> None:
        """Take a connection out, before its socket is closed; what it carried stays in the totals."""
        with self._lock:
            row = self._rows.pop(tcb, None)
            if row is not None:
                self._closed = self._closed.plus(read_kernel_tcp(row.live))

    def rows(self) -> list[Connection]:
        """Return the connections, oldest first."""
        with self._lock:
            return list(self._rows.values())

    def totals(self) -> Totals:
        """Return what all connections carried, those that are closed too."""
        with self._lock:
            totals = self._closed
            for row in self._rows.values():
                totals = totals.plus(read_kernel_tcp(row.live))
            return totals
