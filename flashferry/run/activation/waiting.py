"""Wait for a device that restarts: readings of its software, and when they are final."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flashferry.devices.errors import DeviceUnreachable
from flashferry.devices.session import DeviceSession
from flashferry.model.activation import Sighting
from tasks.activating.restart import STEP
from tasks.software_state import SoftwareState


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One reading of a device after its restart.

    Attributes:
        session: The open session.
        software: What it runs.
        seen: What that means for its activation.
        has_restarted: Whether it was restarted since; None where that is unknown, or was not read.
    """

    session: DeviceSession
    software: SoftwareState
    seen: Sighting
    has_restarted: bool | None = None


class Wait:
    """The wait for a device that restarts.

    Args:
        host: Its name, for the error.
        limit_s: How long it may take, in seconds.

    Attributes:
        refused: How many logins it refused.
        last: The last reading or error.
    """

    def __init__(self, *, host: str, limit_s: float) -> None:
        self._host, self._limit_s = host, limit_s
        self._began_s = time.monotonic()
        self._away_since_s: float | None = None
        self.refused = 0
        self.last = "nothing"

    @property
    def was_away(self) -> bool:
        """Return whether it did not answer at least once."""
        return self._away_since_s is not None

    @property
    def away_s(self) -> float | None:
        """Return for how many seconds it has not answered, or did not until now; None where it always did."""
        return None if self._away_since_s is None else round(time.monotonic() - self._away_since_s, 1)

    def is_away(self, why: str) -> None:
        """Note that it does not answer."""
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
        self.last = why

    def check(self, last: str) -> None:
        """Raise after the limit.

        Raises:
            DeviceUnreachable: The limit is over.
        """
        if time.monotonic() - self._began_s > self._limit_s:
            raise DeviceUnreachable(
                f"expected it back within {self._limit_s / 60:.0f} min with one image or the other, found: {last}",
                host=self._host,
                step=STEP,
                hint="Look at its console. Nothing restarts it a second time; 'flashferry recover' shows what it "
                "runs once it answers, and completes the activation",
            )


def is_for_good(reading: Reading, *, was_away: bool, is_going: bool) -> bool:
    """Return whether a reading is final: the new image, or the old one without a restart to come."""
    if reading.seen is Sighting.COMMITTED:
        return True
    if reading.seen is Sighting.NEW_RUNS:
        return reading.has_restarted is not False
    if reading.seen is not Sighting.OLD_RUNS:
        return False
    return not is_going or (was_away if reading.has_restarted is None else reading.has_restarted)
