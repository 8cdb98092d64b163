"""Figures of a transfer as a whole, against which each of its intervals is classified. No text and no clock."""

from math import fsum, sqrt
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.tcp.sample import Interval, Sample

LINK_IS_FULL = 0.8
"""Part of a link's known rate; below it no transfer is ever attributed to a full link."""

_LINK_IS_USED_UP = 0.9
# Part of an SFTP client's open requests that is delivered per round trip. A client that requests the next piece when it
# has the last one was measured at 0.6 to 0.9, for its own processing time and the link's add to the round trip.
_ASKED_GOES_ROUND = 0.35


class OwnPace(Struct, frozen=True, kw_only=True):
    """Result of a sender's search for the link's rate during the transfer, see `flashferry.tcp.pacing`.

    Attributes:
        found_link_bytes_per_s: Rate found for the link, for all transfers that share it; None while unknown.
    """

    found_link_bytes_per_s: int | None


class KnownLink(Struct, frozen=True, kw_only=True):
    """A link's rate, configured or learned, and what our other transfers used of it.

    Attributes:
        bytes_per_s: Payload rate of the link, > 0.
        beside_bytes_per_s: Payload rate of our other transfers over it at the same time, >= 0.
    """

    bytes_per_s: float
    beside_bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        if not (self.bytes_per_s > 0 and self.beside_bytes_per_s >= 0):
            raise ValueError(
                f"expected a link's rate > 0 and what others had of it >= 0, found {self.bytes_per_s}, "
                f"{self.beside_bytes_per_s}"
            )

    def may_be_full_at(self, bytes_per_s: float) -> bool:
        """Return whether the link may have been full while a transfer ran at this rate."""
        return bytes_per_s + self.beside_bytes_per_s >= LINK_IS_FULL * self.bytes_per_s

    def is_used_up_by(self, bytes_per_s: float) -> bool:
        """Return whether a transfer at this rate used almost all of the link, so that drops are the link's own."""
        return bytes_per_s + self.beside_bytes_per_s >= _LINK_IS_USED_UP * self.bytes_per_s


class Overview(Struct, frozen=True, kw_only=True):
    """Figures of a transfer as a whole, against which an interval is classified.

    Attributes:
        duration_s: Time classified, without the tail.
        rate_bytes_per_s: Bytes acknowledged per second of that time.
        peak_bytes_per_s: Rate of its fastest interval.
        spread: Standard deviation of the interval rates over their mean.
        largest_window_bytes: Largest receive window seen; None if the kernel does not report it.
        median_window_bytes: Its median; None if no sample has a window.
        min_rtt_s: Least round-trip time; None if never measured.
        median_rtt_s: Median of the smoothed round-trip times.
        mss_bytes: Segment size in force at the end.
        retrans_bytes: Bytes retransmitted.
        retrans_share: Those as a part of all bytes sent.
        cap_bytes_per_s: Pacing cap in force at the end; None without.
        usual_cap_bytes_per_s: Median of the cap by time; None without a cap. A share of a cap changes as concurrent
            transfers start and end, so its last value is not typical.
        is_cap_steady: Whether the cap never changed.
        shared_cap_bytes_per_s: The cap that was divided among several transfers; None if it was not shared.
        sack: Whether both sides agreed on SACK; None if not known.
        loss_based: Whether the congestion control slows down on loss.
        slowed_for_loss: Whether the sender lowered its pacing because of losses: its pace is no cap then.
        own_pace: Result of the sender's search for its pace; None if it did not search.
        link: The link's rate; None if neither configured nor learned.
        channel_window_bytes: Largest window that the client opened in its SSH channel; None without one, or unknown.
        channel_waiting_bytes: Most bytes that waited for that window; None without a channel.
        channel_waiting_share: Part of the time, by intervals, at whose end bytes waited, 0 to 1.
        asked_bytes: Most bytes that an SFTP client had requested and not acknowledged; None without read requests.
        cipher: The cipher of an encrypted transfer; empty in clear text.
    """

    duration_s: float
    rate_bytes_per_s: float
    peak_bytes_per_s: float
    spread: float
    largest_window_bytes: int | None
    median_window_bytes: int | None
    min_rtt_s: float | None
    median_rtt_s: float
    mss_bytes: int
    retrans_bytes: int
    retrans_share: float
    cap_bytes_per_s: int | None
    loss_based: bool
    usual_cap_bytes_per_s: int | None = None
    is_cap_steady: bool = True
    shared_cap_bytes_per_s: int | None = None
    sack: bool | None = None
    slowed_for_loss: bool = False
    own_pace: OwnPace | None = None
    link: KnownLink | None = None
    channel_window_bytes: int | None = None
    channel_waiting_bytes: int | None = None
    channel_waiting_share: float = 0.0
    asked_bytes: int | None = None
    cipher: str = ""

    def asked_goes_round_at(self, bytes_per_s: float) -> bool:
        """Return whether an SFTP client's open requests are served about once per round trip at this rate."""
        least_s = self.min_rtt_s if self.min_rtt_s is not None else self.median_rtt_s
        return bool(self.asked_bytes) and bytes_per_s * least_s >= _ASKED_GOES_ROUND * (self.asked_bytes or 0)


def overview(
    samples: "Sequence[Sample]",
    spans: "Sequence[Interval]",
    congestion_control: str | None,
    shared_cap_bytes_per_s: int | None = None,
    *,
    slowed_for_loss: bool = False,
    own_pace: OwnPace | None = None,
    link: KnownLink | None = None,
    channel_window_bytes: int | None = None,
    cipher: str = "",
) -> Overview:
    """Return the figures of a transfer from its samples and the intervals to be classified, at least one of each.

    A congestion control of None is taken as loss-based. The other arguments are attributes of `Overview`.
    """
    windows = [sample.snd_wnd_bytes for sample in samples if sample.snd_wnd_bytes is not None]
    duration_s = sum(span.duration_s for span in spans)
    rate = sum(span.rate_bytes_per_s * span.duration_s for span in spans) / duration_s
    retrans = sum(span.retrans_bytes for span in spans)
    sent = sum(span.sent_bytes for span in spans)
    capped = [(cap, span.duration_s) for span in spans if (cap := span.end.max_pacing_rate_bytes_per_s) is not None]
    rtts = [sample.min_rtt_us for sample in samples if sample.min_rtt_us]
    asked = [sample.asked_bytes for sample in samples if sample.asked_bytes is not None]
    waiting = [(span.end.channel_waiting_bytes, span.duration_s) for span in spans]
    return Overview(
        duration_s=duration_s,
        rate_bytes_per_s=rate,
        peak_bytes_per_s=_peak(spans),
        spread=_deviation([span.rate_bytes_per_s for span in spans]) / rate if rate > 0 else 0.0,
        largest_window_bytes=max(windows, default=None),
        median_window_bytes=int(median(windows)) if windows else None,
        min_rtt_s=min(rtts) / 1e6 if rtts else None,
        median_rtt_s=median(span.end.rtt_us for span in spans) / 1e6,
        mss_bytes=samples[-1].snd_mss_bytes,
        retrans_bytes=retrans,
        retrans_share=retrans / sent if sent else 0.0,
        cap_bytes_per_s=spans[-1].end.max_pacing_rate_bytes_per_s,
        loss_based=not (congestion_control or "").startswith("bbr"),
        usual_cap_bytes_per_s=_median_by_time(capped),
        is_cap_steady=len({cap for cap, _ in capped}) <= 1,
        shared_cap_bytes_per_s=shared_cap_bytes_per_s,
        sack=samples[-1].sack,
        slowed_for_loss=slowed_for_loss,
        own_pace=own_pace,
        link=link,
        channel_window_bytes=channel_window_bytes,
        channel_waiting_bytes=max((size for size, _ in waiting if size is not None), default=None),
        channel_waiting_share=sum(seconds for size, seconds in waiting if size) / duration_s,
        asked_bytes=max(asked, default=None),
        cipher=cipher,
    )


def _deviation(values: "Sequence[float]") -> float:
    """Return the standard deviation; `statistics.pstdev` counts in fractions, which takes ten times as long."""
    mean = fsum(values) / len(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


def _peak(spans: "Sequence[Interval]") -> float:
    """Return the highest rate of the intervals of usual length.

    The last interval often is short, and a burst of acknowledgements in it shows a rate that was never reached.
    """
    usual_s = median(span.duration_s for span in spans)
    return max(span.rate_bytes_per_s for span in spans if span.duration_s >= usual_s / 2)


def _median_by_time(held: "Sequence[tuple[int, float]]") -> int | None:
    """Return the median of values weighted by their time; None without any."""
    left_s = sum(seconds for _, seconds in held) / 2
    for value, seconds in sorted(held):
        left_s -= seconds
        if left_s <= 0:
            return value
    return None
