"""The device's table of TCP connections, as `show tcp brief` lists them."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A live connection; addresses are (host, port), ``opened_s`` is a monotonic time."""

    tcb: str
    local: tuple[str, int]
    foreign: tuple[str, int]
    opened_s: float
    state: str = "ESTAB"


class ConnectionTable:
    """Live connections of one device; used from the event loop and from copy threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, Connection] = {}
        self.opened = 0

    def add(self, local: tuple[str, int], foreign: tuple[str, int]) -> str:
        """Enter a connection and return its TCB address."""
        with self._lock:
            tcb = f"7F{random.getrandbits(40):010X}"
            self.opened += 1
            self._rows[tcb] = Connection(tcb=tcb, local=local[:2], foreign=foreign[:2], opened_s=time.monotonic())
            return tcb

    def remove(self, tcb: str) -> None:
        """Take a connection out."""
        with self._lock:
            self._rows.pop(tcb, None)

    def rows(self) -> list[Connection]:
        """Return the connections, oldest first."""
        with self._lock:
            return list(self._rows.values())
