"""What limited a transfer, with the numbers that led there.

Facts
-----

- `rwnd_limited / busy_time` is the kernel's measure of the receive window as a limit (Linux commit efd9017416). Under
  BBR it reads about 47 % for a flow that is limited by nothing else, because the pauses between paced segments count
  as busy. So the bytes in flight are compared with the window as well: at one moment (unacknowledged segments) and on
  average (rate x RTT, Little's law).
- A queue shows as a round-trip time above the least one seen. Random loss and a policer do not change it; a policer
  also cuts the rate at the same value every time (Flach et al., SIGCOMM 2016).
- BBR version 1 does not slow down on loss. Loss limits it only by retransmissions: they are a good part of what it
  sends, or take a round trip each because the receiver offers no SACK.
- A receiver that reads late acknowledges late, so round trips grow as with a queue. Its window separates them: it is
  closed for a good part of the time, and yet on average far from full. If the window is full all the time, only a known
  link rate separates the two: an interval below 80 % of that rate is never attributed to the link.
- An SSH channel has a window of its own inside TCP's (RFC 4254 5.2). If it is the limit, the socket runs dry between
  two openings: nothing is unsent, the kernel calls the flow limited by its application, and bytes wait in the channel.
  A peer that reopens at half of its window was measured at 0.5 to 0.9 windows per round trip; one that reads late
  leaves the channel shut with less than that in flight.

Each interval between two samples is classified by itself; the verdict is the kind with the most time.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.tcp.sample import Interval, Sample, intervals
from flashferry.tcp.transfer_summary import KnownLink, Overview, OwnPace, overview
from flashferry.tcp.verdict_rules import VerdictKind, classify_interval
from flashferry.tcp.verdict_text import advice_for, evidence_for, sentence_for

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KnownLink", "OwnPace", "Sample", "Verdict", "VerdictKind", "classify_transfer"]

_LEAST_SECONDS = 1.0
_LEAST_ROUND_TRIPS = 10
# With fewer intervals a single wrong one would decide: at 1 Hz a transfer of two seconds has three.
_LEAST_INTERVALS = 4
# A flow that spent most of its time speeding up was never limited by anything but its own length.
_MOST_TIME = 0.6
_LEAST_SHARE = 0.35
# If a flow sped up for a good part of its time, no cause reaches that share: one that held for most of the rest counts.
_LEAST_PART_OF_REST = 0.5


class Verdict(Struct, frozen=True, kw_only=True):
    """What limited a transfer.

    Attributes:
        kind: The limiting factor.
        share: Part of the classified time for which it limited the transfer, 0 to 1.
        sentence: The verdict in words, with the numbers that matter.
        evidence: The numbers that led to it, one per line.
        advice: What would make the next transfer faster; empty if nothing would.
    """

    kind: VerdictKind
    share: float
    sentence: str
    evidence: tuple[str, ...]
    advice: str = ""


def classify_transfer(
    samples: "Sequence[Sample]",
    *,
    congestion_control: str | None = None,
    shared_cap_bytes_per_s: int | None = None,
    slowed_for_loss: bool = False,
    own_pace: OwnPace | None = None,
    link: KnownLink | None = None,
    channel_window_bytes: int | None = None,
    cipher: str = "",
) -> Verdict:
    """Name what limited a transfer.

    Args:
        samples: Samples in the order they were taken, from the first byte to the last acknowledgement.
        congestion_control: Name of the sender's congestion control; None is taken as loss-based.
        shared_cap_bytes_per_s: The cap, such as a site's, of which the pacing cap is a share; None if it is no share.
        slowed_for_loss: Whether the sender lowered its pacing because of losses, so that its pace is no cap.
        own_pace: The pace that the sender found by search, if any: reaching it means a full link, and no cap.
        link: The link's rate, configured or learned, or None. The link is never called full below 80 % of it, our
            concurrent transfers included.
        channel_window_bytes: Largest window that the client opened in its SSH channel; None without one, or unknown.
        cipher: The cipher of an encrypted transfer; empty in clear text.
    """
    spans = intervals(samples)
    if not spans:
        return _too_short(0.0, f"{len(samples)} samples and no time between them")
    whole = overview(
        samples,
        spans,
        congestion_control,
        shared_cap_bytes_per_s,
        slowed_for_loss=slowed_for_loss,
        own_pace=own_pace,
        link=link,
        channel_window_bytes=channel_window_bytes,
        cipher=cipher,
    )
    least_s = max(_LEAST_SECONDS, _LEAST_ROUND_TRIPS * whole.median_rtt_s)
    if whole.duration_s < least_s or len(spans) < _LEAST_INTERVALS:
        seen, needed = len(spans) + 1, _LEAST_INTERVALS + 1
        why = f"{whole.duration_s:.2f} s in {seen} readings; a verdict takes {least_s:.1f} s and {needed}"
        return _too_short(0.0, why)
    return _weigh(_by_kind(samples, spans, whole), whole)


@dataclass(slots=True)
class _Held:
    """Time for which a kind limited the transfer, and the bytes acknowledged during it."""

    time_s: float = 0.0
    acked_bytes: float = 0.0


def _by_kind(
    samples: "Sequence[Sample]", spans: "Sequence[Interval]", whole: Overview
) -> dict[VerdictKind | None, _Held]:
    largest = list(accumulate((sample.snd_wnd_bytes or 0 for sample in samples), max))
    so_far = {sample.at_s: window for sample, window in zip(samples, largest, strict=True)}
    held: dict[VerdictKind | None, _Held] = defaultdict(_Held)
    for span in spans:
        own = held[classify_interval(span, whole, so_far[span.end.at_s])]
        own.time_s += span.duration_s
        own.acked_bytes += span.rate_bytes_per_s * span.duration_s
    return dict(held)


def _weigh(held: dict[VerdictKind | None, _Held], whole: Overview) -> Verdict:
    time_s = {kind: one.time_s for kind, one in held.items()}
    speeding_up = time_s.pop(None, 0.0) / whole.duration_s
    if speeding_up > _MOST_TIME or not time_s:
        return _too_short(speeding_up, f"still speeding up for {speeding_up:.0%} of {whole.duration_s:.1f} s")
    kind = max(time_s, key=lambda candidate: time_s[candidate] if candidate else 0.0)
    assert kind is not None
    share = min(1.0, time_s[kind] / whole.duration_s)
    shares = ", ".join(
        f"{name} {seconds / whole.duration_s:.0%}"
        for name, seconds in sorted(time_s.items(), key=lambda item: -item[1])
        if name
    )
    evidence = (*evidence_for(whole), f"time by cause: {shares}")
    if share < _LEAST_SHARE and time_s[kind] < _LEAST_PART_OF_REST * sum(time_s.values()):
        sentence = f"No single cause: {shares}."
        return Verdict(kind=VerdictKind.UNKNOWN, share=share, sentence=sentence, evidence=evidence)
    return Verdict(
        kind=kind,
        share=share,
        sentence=sentence_for(kind, share, whole, held[kind].acked_bytes / held[kind].time_s),
        evidence=evidence,
        advice=advice_for(kind, whole),
    )


def _too_short(share: float, why: str) -> Verdict:
    return Verdict(kind=VerdictKind.TOO_SHORT, share=share, sentence=f"Too short to judge: {why}.", evidence=(why,))
