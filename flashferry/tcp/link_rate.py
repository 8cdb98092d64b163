"""The rate of a link for which none is stated, learned from what earlier transfers were delivered at.

Facts
-----

- Only a transfer that the link itself held back shows its rate: the verdicts bandwidth and policer. One limited by its
  window, by loss or by flash shows what got through, which may be any part of it.
- A transfer that found its pace for itself (`flashferry.tcp.pacing`) was held back by the link, and its verdict says
  so.
- A cap that was reached shows that the link carries at least so much. It may raise an estimate but never begin one:
  where the cap is a share of the estimate, an estimate made of its own share would shrink with every transfer.
- Transfers at the same time share the link, so what ran beside a transfer is added to it.
- The start-up of a transfer is no rate of the link: the best five seconds count.
- An estimate ends with its age.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flashferry.core.units import learned_link_rate
from flashferry.tcp.verdict_rules import VerdictKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashferry.tcp.sample import Sample

MTU_BYTES = 1500
HEADERS_BYTES = 40
"""IPv4 and TCP header without options, as in every data segment to a device that does not use timestamps."""

MAX_AGE_S = 7 * 86400.0
"""After a week a rate is learned anew: links are changed."""

_SUSTAINED_S = 5.0
# A transfer beside another one is added only if it lay (nearly) within it: its mean rate is that of sharing then.
_BESIDE = 0.9
_SHOWS_THE_LINK = (VerdictKind.BANDWIDTH, VerdictKind.POLICER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a transfer shows of its link.

    Attributes:
        ended_at: Wall-clock time of its last acknowledgement, seconds since 1970.
        duration_s: First byte to last acknowledgement.
        rate_bytes_per_s: Payload acknowledged per second of that time.
        sustained_bytes_per_s: The most it kept up for five seconds; None if it was shorter.
        kind: What limited it.
        mss_bytes: Segment size, for the share of headers.
        peer_address: Which client it went to.
    """

    ended_at: float
    duration_s: float
    rate_bytes_per_s: float
    sustained_bytes_per_s: float | None
    kind: VerdictKind
    mss_bytes: int
    peer_address: str

    def __post_init__(self) -> None:
        if self.duration_s <= 0 or self.mss_bytes <= 0:
            raise ValueError(f"expected a duration and a segment size > 0, found {self.duration_s}, {self.mss_bytes}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedRate:
    """A link rate and where it comes from.

    Attributes:
        rate_bps: Bits per second on the link, TCP and IP headers included.
        learned_at: Wall-clock time of the transfer that showed it, seconds since 1970.
        peer_address: The client it went to.
        kind: What limited that transfer.
    """

    rate_bps: float
    learned_at: float
    peer_address: str
    kind: VerdictKind

    def describe(self, now_s: float) -> str:
        """Return rate, age and source in words."""
        age = _age(max(0.0, now_s - self.learned_at))
        return f"{learned_link_rate(self.rate_bps)}, learned {age} ago from {self.peer_address} (verdict {self.kind})"


def sustained_bytes_per_s(samples: "Sequence[Sample]", least_s: float = _SUSTAINED_S) -> float | None:
    """Return the highest rate of acknowledged payload that was kept up for at least `least_s`; None if none was."""
    best: float | None = None
    begin = 0
    for end in samples:
        # The shortest stretch up to here that is long enough.
        while begin + 1 < len(samples) and end.at_s - samples[begin + 1].at_s >= least_s:
            begin += 1
        length_s = end.at_s - samples[begin].at_s
        if length_s >= least_s:
            rate = (end.bytes_acked - samples[begin].bytes_acked) / length_s
            best = rate if best is None else max(best, rate)
    return best


def learned_rate(deliveries: "Iterable[Delivery]", now_s: float, *, max_age_s: float = MAX_AGE_S) -> LearnedRate | None:
    """Return what a link was seen to carry; None if no transfer of late was held back by it.

    Args:
        deliveries: Transfers over that link, in any order; also those that were limited otherwise, for they took
            their part of it.
        now_s: Wall-clock time, seconds since 1970.
        max_age_s: Older transfers do not count.
    """
    fresh = [delivery for delivery in deliveries if 0 <= now_s - delivery.ended_at <= max_age_s]
    shown = [delivery for delivery in fresh if _shows(delivery, _SHOWS_THE_LINK)]
    if not shown:
        return None
    at_least = [delivery for delivery in fresh if _shows(delivery, (VerdictKind.CAP,))]
    best = max((*shown, *at_least), key=lambda delivery: (_link_bps(delivery, fresh), delivery.ended_at))
    return LearnedRate(
        rate_bps=_link_bps(best, fresh),
        learned_at=best.ended_at,
        peer_address=best.peer_address,
        kind=best.kind,
    )


def _shows(delivery: Delivery, kinds: tuple[VerdictKind, ...]) -> bool:
    return delivery.kind in kinds and delivery.sustained_bytes_per_s is not None


def _link_bps(delivery: Delivery, others: "Sequence[Delivery]") -> float:
    together = delivery.rate_bytes_per_s + sum(
        other.rate_bytes_per_s * _overlap_s(delivery, other) / delivery.duration_s
        for other in others
        if other is not delivery and _overlap_s(delivery, other) >= _BESIDE * other.duration_s
    )
    payload = max(delivery.sustained_bytes_per_s or 0.0, together)
    return payload * 8 * (delivery.mss_bytes + HEADERS_BYTES) / delivery.mss_bytes


def _overlap_s(one: Delivery, other: Delivery) -> float:
    begin = max(one.ended_at - one.duration_s, other.ended_at - other.duration_s)
    return max(0.0, min(one.ended_at, other.ended_at) - begin)


def _age(seconds: float) -> str:
    for unit_s, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit_s:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds:.0f} s"
