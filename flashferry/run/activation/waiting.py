"""Waiting for a device that is on its way down and up again: one look at it, and what looks come to."""

from __future__ import annotations

import time
from dataclasses import dataclass

from flashferry.devices.errors import DeviceUnreachable
from flashferry.devices.session import DeviceSession
from flashferry.model.activation import Sighting
from tasks.activating.restart import STEP
from tasks.software_state import SoftwareState


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at a device behind its restart.

    Attributes:
        session: The open session.
        software: What it runs.
        seen: What that says of its activation.
        has_restarted: Whether it was started again since before; None: nothing tells, or it was not asked.
    """

    session: DeviceSession
    software: SoftwareState
    seen: Sighting
    has_restarted: bool | None = None


class Wait:
    """Waiting for a device that is on its way down and up again.

    Args:
        host: Its name, for the error.
        limit_s: How long it may take, in seconds.

    Attributes:
        refused: How often it let nobody in.
        last: What was seen last.
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
        """Return since when it does not answer, or did not until now, in seconds; None where it always did."""
        return None if self._away_since_s is None else round(time.monotonic() - self._away_since_s, 1)

    def is_away(self, why: str) -> None:
        """Note that it does not answer."""
        if self._away_since_s is None:
            self._away_since_s = time.monotonic()
        self.last = why

    def check(self, last: str) -> None:
        """Raise where it took too long.

        Raises:
            DeviceUnreachable: It did.
        """
        if time.monotonic() - self._began_s > self._limit_s:
            raise DeviceUnreachable(
                f"expected it back within {self._limit_s / 60:.0f} min with one image or the other, found: {last}",
                host=self._host,
                step=STEP,
                hint="Look at its console. Nothing restarts it a second time; 'flashferry recover' tells what it "
                "runs once it answers, and brings it to an end",
            )


def is_for_good(look: Look, *, was_away: bool, is_going: bool) -> bool:
    """Tell whether what a look found stays: the new image, or the old one with no restart to come any more."""
    if look.seen is Sighting.COMMITTED:
        return True
    if look.seen is Sighting.NEW_RUNS:
        return look.has_restarted is not False
    if look.seen is not Sighting.OLD_RUNS:
        return False
    return not is_going or (was_away if look.has_restarted is None else look.has_restarted)
