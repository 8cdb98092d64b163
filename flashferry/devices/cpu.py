"""How busy a device's processor is, in the device's own figures.

Facts
-----
* `CPU utilization for five seconds: 4%/0%; one minute: 6%; five minutes: 5%` is the head of `show processes cpu` (a
  capture of ntc-templates); behind the slash is the share of interrupts.
* Nothing can be asked in the session of a copy while it runs: the five seconds are those right behind its end, the
  minute has the copy in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from flashferry.core.errors import FlashferryError
from flashferry.devices.errors import DeviceUnreachable
from flashferry.devices.session import DeviceSession

_SHARES = re.compile(r"CPU utilization for five seconds: (\d+)%/(\d+)%; one minute: (\d+)%")


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuUse:
    """How busy a processor was, in percent of all its time.

    Attributes:
        five_seconds: Over the last five seconds.
    """

    five_seconds: int
    one_minute: int

    def __str__(self) -> str:
        """Return both figures for people."""
        return f"{self.five_seconds} % in five seconds, {self.one_minute} % in a minute"


def cpu_use_in(text: str) -> CpuUse | None:
    """Return the figures of a device's answer, or None where it has none."""
    found = _SHARES.search(text)
    return None if found is None else CpuUse(five_seconds=int(found[1]), one_minute=int(found[3]))


def cpu_use(session: DeviceSession) -> CpuUse | None:
    """Return how busy a device is; None where it does not say."""
    try:
        return cpu_use_in(session.ask(session.platform.commands.cpu))
    except DeviceUnreachable:
        raise
    except FlashferryError:
        return None
