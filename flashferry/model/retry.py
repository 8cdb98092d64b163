"""Which failures are tried again, how often, and after what pause. Pure.

What the network or a busy device did passes; what a device or an operator decided does not: a refusal stays one, a
wrong hash needs a look, and a login that was refused locks an account if it is tried on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.model.setting import setting
from flashferry.model.states import Outcome, Restored

if TYPE_CHECKING:
    from flashferry.model.record import DeviceRecord

PASSING = frozenset(
    {
        Kind.DEVICE_UNREACHABLE,
        Kind.TRANSFER_STALLED,
        Kind.DEVICE_OVERLOADED,
        Kind.DIALOGUE_DISTURBED,
        Kind.FLASH_BUSY,
        Kind.SERVER_GONE,
    }
)
"""Kinds of failure that may be gone the next time."""

_PROVEN = (Restored.UNTOUCHED, Restored.RESTORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a device is tried again in a run.

    Attributes:
        times: Tries after the first one, 0 to 10.
        pause_s: Pause before the first of them, >= 0; it doubles with each.
        jitter: Share of the pause by which it is lengthened at random, 0 to 1: devices that failed together, as a site
            whose link was cut, must not all come back in the same second.
        seed: Of the random numbers, so that a run can be played again; None: any.
    """

    times: int = setting(
        2,
        name="retries",
        metavar="N",
        least=0,
        most=10,
        help="Tries after a failure that may pass, such as a lost session",
    )
    pause_s: float = 15.0
    jitter: float = 0.3
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.times <= 10 or self.pause_s < 0 or not 0 <= self.jitter <= 1:
            raise ConfigInvalid(
                f"retry: expected 0 to 10 tries, a pause >= 0 s and a jitter from 0 to 1, found {self.times}, "
                f"{self.pause_s} s and {self.jitter}",
                hint="Give another number with --retries; 0 tries no device twice",
            )

    def dice(self) -> Callable[[], float]:
        """Return the source of this run's random numbers in [0, 1)."""
        return random.Random(self.seed).random  # noqa: S311 -- spreads load, guards nothing


def pause_before_retry(
    record: DeviceRecord, attempt: int, policy: RetryPolicy, dice: Callable[[], float]
) -> float | None:
    """Return after how many seconds a device is tried again, or None where it is not.

    Args:
        record: What became of its last attempt.
        attempt: Number of that attempt, from 1.
        policy: How often.
        dice: Source of random numbers in [0, 1).
    """
    if attempt > policy.times or not may_pass(record):
        return None
    return float(policy.pause_s * 2 ** (attempt - 1) * (1 + policy.jitter * dice()))


def may_pass(record: DeviceRecord) -> bool:
    """Return whether a failure may be temporary, and the device is restored."""
    if record.outcome is not Outcome.FAILED or record.failure is None or record.restored not in _PROVEN:
        return False
    if record.restore_failure is not None or (record.partial_file is not None and not record.partial_removed):
        # What is left on flash would be refused by the next check, and hide why the first attempt failed.
        return False
    return record.failure.kind in PASSING
