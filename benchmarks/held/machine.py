"""Whether this machine is idle: pressure (Documentation/accounting/psi.rst) and steal (proc(5))."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

PRESSURE_PERCENT = 10.0
"""Of ten seconds, the share in which some process waited for a processor, from which on a machine is busy."""

STEAL_PERCENT = 2.0
"""Of the processors' time, the share that the host of a virtual machine took, from which on a figure means nothing."""

_WAIT_S = 120.0
_POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticks:
    """Processor time since the machine started, in ticks, over all processors.

    Attributes:
        total: All of it, idle time too.
        steal: What the host took.
    """

    total: int
    steal: int

    @classmethod
    def now(cls) -> Self:
        """Read /proc/stat. Guest time is part of user time, so it is not counted again."""
        fields = [int(field) for field in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        return cls(total=sum(fields), steal=fields[7])

    def steal_percent_since(self, before: Self) -> float:
        """Return the share that the host took between two readings."""
        passed = self.total - before.total
        return 100 * (self.steal - before.steal) / passed if passed else 0.0


def pressure_percent() -> float:
    """Return the share of the last ten seconds in which some process waited for a processor; 0 without PSI."""
    try:
        some = Path("/proc/pressure/cpu").read_text(encoding="ascii").splitlines()[0]
    except OSError:
        return 0.0
    return float(some.partition("avg10=")[2].split()[0])


def busy_reason(limit_s: float = _WAIT_S) -> str:
    """Wait until the machine is idle, for what ran just before counts as pressure for a while.

    Returns:
        Empty, or what kept the machine busy for all of the limit.
    """
    deadline_s = time.monotonic() + limit_s
    while (pressure := pressure_percent()) >= PRESSURE_PERCENT:
        if time.monotonic() > deadline_s:
            return f"other processes keep the machine busy (PSI some avg10 {pressure:.0f} % for {limit_s:.0f} s)"
        time.sleep(_POLL_S)
    return ""
