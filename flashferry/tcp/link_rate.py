"""Rate of a link whose rate is not configured, learned from earlier transfers over it.

Facts
-----

- Only a transfer that the link itself limited shows the link's rate: the verdicts bandwidth and policer. A transfer
  limited by its window, by loss or by flash may have used any part of the link.
- A transfer that was paced to the link's rate (`flashferry.tcp.pacing`) was limited by the link; its verdict is
  bandwidth.
- A cap that was reached shows that the link carries at least so much. It may raise an estimate but never start one:
  if the cap is a share of the estimate, an estimate made from that share would shrink with every transfer.
- Transfers at the same time share the link, so the rates of concurrent transfers are added.
- The start-up of a transfer does not show the link's rate: the best five seconds count.
- An estimate expires.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.units import learned_link_rate
from flashferry.tcp.verdict_rules import VerdictKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from flashferry.tcp.sample import Sample

MTU_BYTES = 1500
HEADERS_BYTES = 40
"""IPv4 and TCP header without options, as in every data segment to a device that does not use timestamps."""

MAX_AGE_S = 7 * 86400.0
"""A learned rate expires after a week, for links are changed."""

_SUSTAINED_S = 5.0
# A concurrent transfer is added only if 90 % of it overlaps: only then is its mean rate its share of the link.
_BESIDE = 0.9
_SHOWS_THE_LINK = (VerdictKind.BANDWIDTH, VerdictKind.POLICER)


class Delivery(Struct, frozen=True, kw_only=True):
    """What a transfer shows of its link.

    Attributes:
        ended_at: Wall-clock time of its last acknowledgement, seconds since 1970.
        duration_s: First byte to last acknowledgement.
        rate_bytes_per_s: Payload acknowledged per second of that time.
        sustained_bytes_per_s: Highest rate sustained for five seconds; None if the transfer was shorter.
        kind: What limited it.
        mss_bytes: Segment size, to add the headers.
        peer_address: Address of the client.
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


class LearnedRate(Struct, frozen=True, kw_only=True):
    """A link rate and the transfer that it was learned from.

    Attributes:
        rate_bps: Bits per second on the link, TCP and IP headers included.
        learned_at: Wall-clock time of the transfer's end, seconds since 1970.
        peer_address: Address of its client.
        kind: What limited it.
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
    """Return the highest rate of acknowledged payload over at least `least_s` seconds; None if samples span less."""
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


def learned_rate(deliveries: "Iterable[Delivery]", now_s: float) -> LearnedRate | None:
    """Return the rate of a link as recent transfers showed it; None if the link limited none of them.

    Args:
        deliveries: Transfers over that link, in any order, also those limited by something else: they used a part of
            the link meanwhile.
        now_s: Wall-clock time, seconds since 1970.
    """
    fresh = [delivery for delivery in deliveries if 0 <= now_s - delivery.ended_at <= MAX_AGE_S]
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
