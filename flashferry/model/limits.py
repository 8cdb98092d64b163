"""Concurrency limits and retry rules of a run."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from functools import partial
from typing import TYPE_CHECKING

from flashferry.core.errors import ConfigInvalid, Kind
from flashferry.core.values import field_names
from flashferry.model.setting import Subject, setting
from flashferry.model.states import Outcome, Restored

if TYPE_CHECKING:
    from flashferry.model.record import DeviceRecord

MOST = 10_000
"""Larger numbers are typing errors; no controller could handle them."""

_limit = partial(setting, subject=Subject.WAVES, metavar="N", least=1, most=MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a run, each from 1 to `MOST`.

    Attributes:
        logins: SSH logins at the same time; a login takes seconds of a router's CPU, and AAA servers (TACACS+, RADIUS)
            have limits.
        copies: Copies at the same time in the run.
        site_copies: Copies at the same time per site, which share the site's cap; the inventory may set a lower limit
            (`max_copies`).
        hashes: Devices that hash at the same time. A device that waits for its turn stays tuned, so the default is not
            lower than `copies`.
    """

    logins: int = _limit(20, option="--max-logins", help="Logins at once", label="logins at once")
    copies: int = _limit(200, option="--max-copies", help="Copies at once in all", label="copies at once")
    site_copies: int = _limit(
        8,
        option="--site-copies",
        help="Copies at once at a site; its max_copies may be lower",
        label="copies at once at a site",
    )
    hashes: int = _limit(200, option="--max-hashes", help="Devices that hash at once", label="hashes at once")

    def __post_init__(self) -> None:
        for name in field_names(type(self)):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
                raise ConfigInvalid(
                    f"limit of {name}: expected a whole number from 1 to {MOST:,}, found {value!r}",
                    hint="Give a smaller number; 1 lets one device at a time go on",
                )

    def of_site(self, site_limit: int | None) -> int:
        """Return the number of copies at a site with its own limit, or None."""
        return min(self.copies, self.site_copies if site_limit is None else min(site_limit, self.site_copies))


def parse_until(text: str, now: datetime, zone: tzinfo | None = None) -> datetime:
    """Parse a time; a time of day means its next occurrence.

    Args:
        text: `HH:MM`, or ISO 8601 with a date.
        now: Current time, with time zone.
        zone: Time zone of a text without one; None for this host's.

    Raises:
        ConfigInvalid: It is invalid, or in the past.
    """
    try:
        if "-" not in text[:8]:
            return _next(time.fromisoformat(text), now, zone)
        dated = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigInvalid(
            f"--until {text!r}: expected a time of day such as 05:00 or a date and time such as 2026-03-01T05:00",
            hint="With its date it holds for one night, without for the next time that the clock shows it",
        ) from None
    found = dated if dated.tzinfo is not None else _here(dated, zone)
    if found <= now:
        present = now.astimezone(zone).isoformat(timespec="minutes")
        raise ConfigInvalid(
            f"--until {text!r}: expected a time in the future; it is {present} now",
            hint="Give a later one, with its date where it is not today's",
        )
    return found


def parse_window(text: str, now: datetime, zone: tzinfo | None = None) -> tuple[datetime, datetime]:
    """Parse a window such as `22:00-05:00`; return start and end of the current one (starting now), else of the next.

    Raises:
        ConfigInvalid: It is invalid.
    """
    try:
        opens, closes = (time.fromisoformat(part.strip()) for part in text.split("-"))
        if opens == closes:
            raise ValueError(text)
        end = _next(closes, now, zone)
    except ValueError:
        raise ConfigInvalid(
            f"--window {text!r}: expected the times of day at which it opens and closes, such as 22:00-05:00",
            hint="It is taken by this host's clock; after midnight it continues on the next day",
        ) from None
    day = end.astimezone(zone).date() - timedelta(days=0 if opens < closes else 1)
    return max(_here(datetime.combine(day, opens), zone), now), end


def _next(clock: time, now: datetime, zone: tzinfo | None) -> datetime:
    if clock.tzinfo is not None:
        raise ValueError(clock)
    today = now.astimezone(zone).date()
    found = _here(datetime.combine(today, clock), zone)
    return found if found > now else _here(datetime.combine(today + timedelta(days=1), clock), zone)


def _here(naive: datetime, zone: tzinfo | None) -> datetime:
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)


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
"""Error types that may be temporary."""

_PROVEN = (Restored.UNTOUCHED, Restored.RESTORED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed device is tried again in a run.

    Attributes:
        times: Additional attempts, 0 to 10.
        pause_s: Pause before the first of them, >= 0; doubled for each further one.
        jitter: Random extension of the pause, 0 to 1, so that devices that failed together, for example by a cut link,
            do not return in the same second.
        seed: Seed of the random numbers, for reproducible runs; None for any.
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
        """Return this run's source of random numbers in [0, 1)."""
        return random.Random(self.seed).random  # noqa: S311 -- spreads load, guards nothing


def pause_before_retry(
    record: DeviceRecord, attempt: int, policy: RetryPolicy, dice: Callable[[], float]
) -> float | None:
    """Return the seconds until a device is tried again; None if it is not.

    Args:
        record: Result of its last attempt.
        attempt: Number of that attempt, from 1.
        policy: How often.
        dice: Source of random numbers in [0, 1).
    """
    if attempt > policy.times or not may_pass(record):
        return None
    return float(policy.pause_s * 2 ** (attempt - 1) * (1 + policy.jitter * dice()))


def may_pass(record: DeviceRecord) -> bool:
    """Return whether a failure may be temporary and the device is restored."""
    if record.outcome is not Outcome.FAILED or record.failure is None or record.restored not in _PROVEN:
        return False
    if record.restore_failure is not None or (record.partial_file is not None and not record.partial_removed):
        # The next check would refuse the partial file, and hide why the first attempt failed.
        return False
    return record.failure.kind in PASSING
