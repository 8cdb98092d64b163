"""Compute a method's figures from its trials (rate, processor time per GB, bottleneck), and rank methods. Pure.

Facts
-----

- On a busy machine the medians of rates scatter by a factor of two, those of processor seconds per GB by 5 to 15 %
  (measured here). So if rates scatter by more than `WIDE_SPREAD`, processor time decides.
- OpenSSH gives a channel a window of 2 MiB (`CHAN_SES_WINDOW_DEFAULT` in channels.h: 64 packets of 32 KiB) and reopens
  it after three packets, so a channel carries at most one window per round trip.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

WIDE_SPREAD = 1.3
"""Ratio of largest to smallest rate beyond which rates are useless for ranking."""
LINK_SHARE = 0.9
CPU_SHARE = 0.9
CHANNEL_WINDOW_BYTES = 2 << 20
_WINDOW_RATIOS = (0.4, 1.15)
"""Of window per round trip: a channel reopened half empty carries half."""
_LEAST_RTT_S = 0.002
"""Below it the window cannot be distinguished from other limits."""
_LEAST_S = 0.001
SAME_SHARE = 0.05
"""Costs within this share count as equal: the better rate decides."""


class Trial(Struct, frozen=True, kw_only=True):
    """One copy.

    Attributes:
        key: The method's `key`.
        number: The round, from 1.
        wall_s: Duration, including the login.
        here_cpu_s: Processor time of this end; None: unknown.
        far_cpu_s: The same of the far end; None: not measured.
        here_busy_s: Time that this end's busiest process ran or waited for a processor; None: unknown.
        far_busy_s: The same of the far end; None: not measured.
        error: Why it failed; empty: it did not.
    """

    key: str
    number: int
    size_bytes: int
    wall_s: float = 0.0
    here_cpu_s: float | None = None
    far_cpu_s: float | None = None
    here_busy_s: float | None = None
    far_busy_s: float | None = None
    error: str = ""


class Spread(Struct, frozen=True, kw_only=True):
    """Median, smallest and largest of some values."""

    median: float
    least: float
    most: float

    @property
    def ratio(self) -> float:
        """Largest over smallest; infinite if the smallest is 0."""
        return self.most / self.least if self.least > 0 else float("inf")


class Login(Struct, frozen=True, kw_only=True):
    """The cost of copying nothing, which is subtracted from each copy."""

    wall_s: float = 0.0
    here_cpu_s: float = 0.0
    far_cpu_s: float = 0.0
    here_busy_s: float = 0.0
    far_busy_s: float = 0.0


class Ceilings(Struct, frozen=True, kw_only=True):
    """Limits of a path and its ends in bytes per second; None: unknown, and `notes` explain why.

    Attributes:
        link_bytes_per_s: Of a bare TCP stream.
        write_here_bytes_per_s: Of the local disk, written and flushed.
        rtt_s: Round trip, by the least time of TCP connects.
    """

    link_bytes_per_s: float | None = None
    write_here_bytes_per_s: float | None = None
    read_here_bytes_per_s: float | None = None
    write_far_bytes_per_s: float | None = None
    read_far_bytes_per_s: float | None = None
    rtt_s: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The figures of one method, the login subtracted.

    Attributes:
        trials: Number of successful trials.
        rate: Bytes per second; None: none succeeded.
        here_cpu: Processor seconds per 10^9 bytes at this end; None: unknown.
        far_cpu: The same at the far end; None: not measured.
        link_share: Share of the link's ceiling; None: unknown.
        here_busy: Share of the time that this end's busiest process ran or waited for a processor; None: unknown.
        far_busy: The same at the far end; None: not measured.
        bound_by: The bottleneck: `link`, `cpu here`, `cpu far`, `window`, `disk` or `other`.
        error: Why trials failed.
    """

    key: str
    trials: int
    rate: Spread | None = None
    here_cpu: Spread | None = None
    far_cpu: Spread | None = None
    link_share: float | None = None
    here_busy: float | None = None
    far_busy: float | None = None
    bound_by: str = ""
    error: str = ""

    @property
    def cost(self) -> float | None:
        """Processor seconds per GB of the known ends together; None: this end is unknown."""
        if self.here_cpu is None:
            return None
        return self.here_cpu.median + (self.far_cpu.median if self.far_cpu is not None else 0.0)


def spread_of(values: Sequence[float]) -> Spread:
    """Return median, smallest and largest of some values, at least one."""
    return Spread(median=statistics.median(values), least=min(values), most=max(values))


def login_of(trials: Iterable[Trial]) -> Login:
    """Return the cost of copying nothing; zero if no trial succeeded."""
    good = [one for one in trials if not one.error]
    if not good:
        return Login()
    return Login(
        wall_s=statistics.median(one.wall_s for one in good),
        here_cpu_s=statistics.median(one.here_cpu_s or 0.0 for one in good),
        far_cpu_s=statistics.median(one.far_cpu_s or 0.0 for one in good),
        here_busy_s=statistics.median(one.here_busy_s or 0.0 for one in good),
        far_busy_s=statistics.median(one.far_busy_s or 0.0 for one in good),
    )


def row_of(key: str, trials: Sequence[Trial], login: Login, ceilings: Ceilings) -> Row:
    """Return the figures of a method, the login subtracted from rate and cost."""
    good = [one for one in trials if not one.error]
    error = next((one.error for one in trials if one.error), "")
    if not good:
        return Row(key=key, trials=0, error=error)
    rate = spread_of([one.size_bytes / _length_s(one, login) for one in good])
    link = ceilings.link_bytes_per_s
    busy = (
        _share(good, lambda one: one.here_busy_s, login.here_busy_s, login),
        _share(good, lambda one: one.far_busy_s, login.far_busy_s, login),
    )
    return Row(
        key=key,
        trials=len(good),
        rate=rate,
        here_cpu=_cost(good, lambda one: one.here_cpu_s, login.here_cpu_s),
        far_cpu=_cost(good, lambda one: one.far_cpu_s, login.far_cpu_s),
        link_share=rate.median / link if link else None,
        here_busy=busy[0],
        far_busy=busy[1],
        bound_by=bound_by(key, rate.median, busy, ceilings),
        error=error,
    )


def _length_s(trial: Trial, login: Login) -> float:
    """Return a copy's duration without its login, at least a tenth of the whole."""
    return max(trial.wall_s - login.wall_s, trial.wall_s / 10, _LEAST_S)


def _share(good: Sequence[Trial], of: Callable[[Trial], float | None], login_s: float, login: Login) -> float | None:
    seen = [(value, _length_s(one, login)) for one in good if (value := of(one)) is not None]
    if not seen:
        return None
    return statistics.median(min(max(value - login_s, 0.0) / length_s, 1.0) for value, length_s in seen)


def _cost(good: Sequence[Trial], of: Callable[[Trial], float | None], login_s: float) -> Spread | None:
    seen = [(value, one.size_bytes) for one in good if (value := of(one)) is not None and one.size_bytes]
    if not seen:
        return None
    return spread_of([max(value - login_s, 0.0) / (size / 1e9) for value, size in seen])


def bound_by(key: str, rate: float, busy: tuple[float | None, float | None], ceilings: Ceilings) -> str:
    """Return a method's bottleneck, the first that fits: link, processor, channel window, disk; else other.

    Args:
        key: The method.
        rate: Its median, in bytes per second.
        busy: Busy share of the busiest process, here and there.
        ceilings: The limits of path and ends.
    """
    if ceilings.link_bytes_per_s and rate >= LINK_SHARE * ceilings.link_bytes_per_s:
        return "link"
    for end, share in (("here", busy[0]), ("far", busy[1])):
        if share is not None and share >= CPU_SHARE:
            return f"cpu {end}"
    if _is_window(rate, key, ceilings.rtt_s):
        return "window"
    disks = (ceilings.write_here_bytes_per_s, ceilings.read_far_bytes_per_s)
    return "disk" if any(disk and rate >= LINK_SHARE * disk for disk in disks) else "other"


def _is_window(rate: float, key: str, rtt_s: float | None) -> bool:
    if rtt_s is None or rtt_s < _LEAST_RTT_S or key.split(" ", maxsplit=1)[0] in {"http", "nc"}:
        return False
    least, most = (share * CHANNEL_WINDOW_BYTES / rtt_s for share in _WINDOW_RATIOS)
    return least <= rate <= most


def is_by_cost(rows: Iterable[Row]) -> bool:
    """Return whether rows are ranked by processor time: rates scatter too much, and all times are known."""
    timed = [row for row in rows if row.rate is not None]
    is_wide = any(row.rate is not None and row.rate.ratio > WIDE_SPREAD for row in timed)
    return is_wide and all(row.here_cpu is not None for row in timed)


def _costs(rows: Sequence[Row]) -> dict[str, float]:
    """Return the cost of rows by key: of both ends, or of this one if the other is not known for all."""
    sees_far = all(row.far_cpu is not None for row in rows)
    return {
        row.key: row.here_cpu.median + (row.far_cpu.median if sees_far and row.far_cpu is not None else 0.0)
        for row in rows
        if row.here_cpu is not None
    }


def _rate_of(row: Row) -> float:
    return row.rate.median if row.rate is not None else 0.0


def ranked(rows: Iterable[Row]) -> list[Row]:
    """Sort rows, the best first, by rate or by cost; failed ones last."""
    given = list(rows)
    timed = [row for row in given if row.rate is not None]
    costs, by_cost = _costs(timed), is_by_cost(timed)
    timed.sort(key=lambda row: costs[row.key] if by_cost else -_rate_of(row))
    return timed + [row for row in given if row.rate is None]


def best_of(rows: Iterable[Row]) -> Row | None:
    """Return the row to choose.

    By cost, it is the fastest among those of equal cost; by rate, the cheapest among those of equal rate: on a full
    link, encryption only takes processor time.
    """
    timed = ranked(row for row in rows if row.rate is not None)
    if not timed:
        return None
    costs = _costs(timed)
    if is_by_cost(timed):
        least = costs[timed[0].key]
        alike = [row for row in timed if costs[row.key] <= least * (1 + SAME_SHARE / 2)]
        return max(alike, key=_rate_of)
    alike = [row for row in timed if _rate_of(row) >= _rate_of(timed[0]) * (1 - SAME_SHARE)]
    return min(alike, key=lambda row: costs.get(row.key, float("inf")))


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Sort the successful rows: the one to choose, then the one to choose without it, and so on."""
    left, found = [row for row in rows if row.rate is not None], []
    while (best := best_of(left)) is not None:
        found.append(best)
        left.remove(best)
    return found


def ranking_text(rows: Iterable[Row]) -> str:
    """Return in a sentence by what rows are ranked, and why."""
    timed = [row for row in rows if row.rate is not None]
    if not timed:
        return "Nothing was timed."
    widest = max(row.rate.ratio for row in timed if row.rate is not None)
    if is_by_cost(timed):
        sees_far = all(row.far_cpu is not None for row in timed)
        ends = "both ends" if sees_far else "this end, for the other was not seen of all"
        return (
            f"Ranked by processor seconds per GB of {ends}: rates of one method differ by a factor of up to "
            f"{widest:.1f}, more than {WIDE_SPREAD:g}, so something else took processor or link meanwhile."
        )
    if widest > WIDE_SPREAD:
        return (
            f"Ranked by rate, though rates of one method differ by a factor of up to {widest:.1f}: processor time "
            "was not seen of all. Measure again on a quiet path."
        )
    return f"Ranked by rate: those of one method differ by a factor of {widest:.2f} at most."
