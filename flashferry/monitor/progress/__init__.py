"""The state of a run's devices, followed by its events: for live views, plain lines and metrics. No I/O."""

from flashferry.monitor.progress.device import Device, Expected, Roster
from flashferry.monitor.progress.fleet import Fleet, Tally

__all__ = ["Device", "Expected", "Fleet", "Roster", "Tally"]
