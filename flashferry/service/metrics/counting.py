"""Totals of ended copies, which only grow, whatever happens to the journal's rows.

Each transfer is counted once, in order, and the totals are stored with the last number. A run removed from the journal
does not reduce them: Prometheus would take a falling counter for a restart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from flashferry.monitor.metrics.names import COPY_SECONDS_BUCKETS
from flashferry.service.metrics.names import COPY_RATE_BUCKETS
from flashferry.store.tables import EndedCopy
from inventory.transport_policy import NAMES

DELIVERED = "delivered"


@dataclass(slots=True)
class Spread:
    """A histogram; the last count is of values above all buckets."""

    counts: list[int]
    total: float = 0.0

    def add(self, value: float, buckets: tuple[float, ...]) -> None:
        """Add a value; a bucket holds values up to its bound."""
        self.counts[bisect_left(buckets, value)] += 1
        self.total += value


@dataclass(slots=True)
class Copies:
    """Number and acknowledged bytes of copies of a site that ended alike."""

    number: int = 0
    acked_bytes: int = 0


Alike = tuple[str, str, bool, str, str]
"""Site, transport, whether tuned, outcome, verdict."""


@dataclass(slots=True)
class Counted:
    """The totals.

    Attributes:
        rates: Rates of delivered copies, bytes per second, by site and transport.
        durations: Durations of delivered copies, seconds, by site.
    """

    last: int = 0
    copies: dict[Alike, Copies] = field(default_factory=dict)
    rates: dict[tuple[str, str], Spread] = field(default_factory=dict)
    durations: dict[str, Spread] = field(default_factory=dict)

    def take(self, ended: Iterable[EndedCopy]) -> None:
        """Count copies that ended."""
        for one in ended:
            self.last = one.number
            # Names of transports come from the file; a label has only those that there are.
            transport = one.transport if one.transport in NAMES else "other"
            outcome = DELIVERED if one.outcome == DELIVERED else "failed"
            alike = (one.site, transport, bool(one.tuned), outcome, one.verdict)
            sums = self.copies.setdefault(alike, Copies())
            sums.number += 1
            sums.acked_bytes += one.bytes_acked
            if outcome == DELIVERED:
                rates = self.rates.setdefault((one.site, transport), _empty(COPY_RATE_BUCKETS))
                rates.add(one.rate_bytes_per_s, COPY_RATE_BUCKETS)
                durations = self.durations.setdefault(one.site, _empty(COPY_SECONDS_BUCKETS))
                durations.add(one.duration_s, COPY_SECONDS_BUCKETS)

    def begin_anew(self) -> None:
        """Count from the first transfer on: the journal was replaced. Totals stay."""
        self.last = 0

    def as_text(self) -> str:
        """Return it as it is stored."""
        return msgspec.json.encode(
            _Kept(
                last=self.last,
                copies=[(*alike, one.number, one.acked_bytes) for alike, one in self.copies.items()],
                rates=[(*key, one.counts, one.total) for key, one in self.rates.items()],
                durations=[(site, one.counts, one.total) for site, one in self.durations.items()],
            )
        ).decode()


class _Kept(msgspec.Struct):
    """The totals as JSON."""

    last: int
    copies: list[tuple[str, str, bool, str, str, int, int]]
    rates: list[tuple[str, str, list[int], float]]
    durations: list[tuple[str, list[int], float]]


def counted_of(text: str) -> Counted:
    """Return stored totals. Raises `ValueError` if they are damaged, or of another release."""
    try:
        kept = msgspec.json.decode(text, type=_Kept)
    except msgspec.DecodeError as error:
        raise ValueError(f"damaged: {error}") from None
    spreads: list[tuple[list[int], tuple[float, ...]]] = [(counts, COPY_RATE_BUCKETS) for _, _, counts, _ in kept.rates]
    spreads += [(counts, COPY_SECONDS_BUCKETS) for _, counts, _ in kept.durations]
    if any(len(counts) != len(buckets) + 1 for counts, buckets in spreads):
        raise ValueError("expected the buckets of this release, found others")
    return Counted(
        last=kept.last,
        copies={one[:5]: Copies(one[5], one[6]) for one in kept.copies},
        rates={(site, transport): Spread(counts, total) for site, transport, counts, total in kept.rates},
        durations={site: Spread(counts, total) for site, counts, total in kept.durations},
    )


def _empty(buckets: tuple[float, ...]) -> Spread:
    return Spread([0] * (len(buckets) + 1))
