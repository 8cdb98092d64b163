"""Where the devices of a run stand, followed by its events: for live views, plain lines and metrics. No I/O."""

from staging.following.device import Device, Phase
from staging.following.fleet import Fleet, Tally
from staging.following.roster import Expected, Roster

__all__ = ["Device", "Expected", "Fleet", "Phase", "Roster", "Tally"]
