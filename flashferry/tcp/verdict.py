"""What limited a transfer, with the numbers that led there, and in words: sentences, evidence, advice.

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

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from flashferry.core.units import exact_milliseconds, exact_rate, size
from flashferry.tcp.link_rate import HEADERS_BYTES
from flashferry.tcp.receive_window import ASSUMED_RTT_S, LARGEST_UNSCALED_BYTES, LARGEST_WINDOW_BYTES, choose_window
from flashferry.tcp.sample import Interval, Sample, intervals
from flashferry.tcp.transfer_summary import LINK_IS_FULL, KnownLink, Overview, OwnPace, overview
from flashferry.tcp.verdict_rules import VerdictKind, classify_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["KnownLink", "OwnPace", "Sample", "Verdict", "VerdictKind", "classify_transfer"]

# BBR overruns a link by 1 to 2 %; more shows a short queue or a policer, and a cap avoids the retransmissions.
_MUCH_AGAIN = 0.02
# A round trip of this multiple of the least one shows a queue.
_LEAST_QUEUE = 1.25
_MOSTLY = 0.5
_USUAL_MSS_BYTES = 1460
# Concurrent copies are mentioned from this part of the link's rate on.
_LEAST_BESIDE = 0.01


def _rtt(whole: Overview) -> str:
    return exact_milliseconds(whole.median_rtt_s)


def _window(whole: Overview) -> str:
    window = whole.largest_window_bytes
    if window is None or not whole.median_rtt_s:
        return f"the receive window was full; seen {exact_rate(whole.rate_bytes_per_s)}"
    allowed = exact_rate(window / whole.median_rtt_s)
    return (
        f"the receive window of {window} bytes was full; at a round trip of {_rtt(whole)} it allows {allowed}, "
        f"seen {exact_rate(whole.rate_bytes_per_s)}"
    )


def _ssh_window(whole: Overview) -> str:
    window, rate = whole.channel_window_bytes, exact_rate(whole.rate_bytes_per_s)
    idle = "while bytes waited in the channel the socket had nothing to send"
    if window is None or not whole.median_rtt_s:
        return f"the window of the SSH channel was used up; {idle}, seen {rate}"
    allowed = exact_rate(window / whole.median_rtt_s)
    return (
        f"the SSH channel's window of {window} bytes was used up; at a round trip of {_rtt(whole)} it allows {allowed} "
        f"at most, seen {rate}; {idle}"
    )


def _asks_for_little(whole: Overview) -> bool:
    """Return whether an SFTP client's open requests limited the transfer for most of the time."""
    return whole.channel_waiting_share <= _MOSTLY and whole.asked_goes_round_at(whole.rate_bytes_per_s)


def _slow_receiver(whole: Overview) -> str:
    if _asks_for_little(whole):
        asked, rate = size(whole.asked_bytes or 0), exact_rate(whole.rate_bytes_per_s)
        return (
            f"its SFTP client asked for at most {asked} at a time, and for more only when that had come: with a round "
            f"trip of {_rtt(whole)} it took {rate}"
        )
    channel = ""
    if whole.channel_waiting_share > _MOSTLY and whole.channel_window_bytes is not None:
        channel = (
            f", an SSH channel of {whole.channel_window_bytes} bytes that was used up "
            f"{whole.channel_waiting_share:.0%} of the time"
        )
    return (
        f"the receiver did not keep up: with a window of up to {whole.largest_window_bytes} bytes (median "
        f"{whole.median_window_bytes}){channel} and a round trip of {_rtt(whole)} it took "
        f"{exact_rate(whole.rate_bytes_per_s)}"
    )


def _random_loss(whole: Overview) -> str:
    has_queue = whole.min_rtt_s is not None and whole.median_rtt_s > _LEAST_QUEUE * whole.min_rtt_s
    losses = "losses" if has_queue else "losses without a queue"
    # Without SACK an acknowledgement names only the first missing segment.
    repairs = ", each repaired in a round trip of its own for want of SACK," if whole.sack is False else ""
    return (
        f"{losses} ({whole.retrans_share:.2%} sent again, round trip {_rtt(whole)}){repairs} kept the sender at "
        f"{exact_rate(whole.rate_bytes_per_s)}"
    )


def _bandwidth(whole: Overview, full_bytes_per_s: float) -> str:
    least = "unknown" if whole.min_rtt_s is None else exact_milliseconds(whole.min_rtt_s)
    link, trips = whole.link, f"round trip {_rtt(whole)} against {least} at least"
    seen = f"{exact_rate(whole.rate_bytes_per_s)}, {trips}"
    found = whole.own_pace.found_link_bytes_per_s if whole.own_pace is not None else None
    if link is not None and (found is None or found < LINK_IS_FULL * link.bytes_per_s):
        slower = (
            ""
            if link.may_be_full_at(whole.rate_bytes_per_s)
            else f" ({exact_rate(whole.rate_bytes_per_s)} on the whole)"
        )
        return f"the link was full at {exact_rate(full_bytes_per_s)}{slower}{_beside(link)}, {trips}"
    if found is None:
        return f"the link was full at {seen}"
    return f"the link was found to carry {exact_rate(found)} and kept just below full, seen {seen}"


def _beside(link: KnownLink) -> str:
    """Return the part of the sentence about our concurrent transfers; empty if they took almost nothing."""
    if link.beside_bytes_per_s < _LEAST_BESIDE * link.bytes_per_s:
        return ""
    return f" beside {exact_rate(link.beside_bytes_per_s)} of our other copies"


def _policer(whole: Overview) -> str:
    link = whole.link
    is_below = link is not None and not link.may_be_full_at(whole.rate_bytes_per_s)
    what = "a policer" if is_below else "a policer, or a link with next to no queue"
    return (
        f"{whole.retrans_share:.1%} was sent again in bursts, without a queue and at an even "
        f"{exact_rate(whole.rate_bytes_per_s)}: {what}"
    )


def _server(whole: Overview) -> str:
    return f"the server had too little ready to send, seen {exact_rate(whole.rate_bytes_per_s)}"


def _cap(whole: Overview) -> str:
    return f"{_cap_in_words(whole)} was reached, seen {exact_rate(whole.rate_bytes_per_s)}, by design"


def _cap_in_words(whole: Overview) -> str:
    """Return the cap in words; of a share that changed with the number of transfers, its usual value."""
    usual, shared = whole.usual_cap_bytes_per_s, whole.shared_cap_bytes_per_s
    if usual is None:
        return "the cap"
    mostly = "" if whole.is_cap_steady else "mostly "
    if shared is None or usual >= shared:
        return f"the cap of {mostly}{exact_rate(usual)}"
    return f"its share, {mostly}{exact_rate(usual)}, of the site's cap of {exact_rate(shared)}"


def _nothing(whole: Overview) -> str:
    seen, link = f"no cause found at {exact_rate(whole.rate_bytes_per_s)}", whole.link
    if link is None or link.may_be_full_at(whole.rate_bytes_per_s):
        return seen
    carries = f"the link carries {exact_rate(link.bytes_per_s)}{_beside(link)}"
    if whole.min_rtt_s is None or whole.median_rtt_s <= _LEAST_QUEUE * whole.min_rtt_s:
        return f"{seen}, and {carries}"
    return (
        f"{seen}: {carries}, and yet round trips of {_rtt(whole)} against {exact_milliseconds(whole.min_rtt_s)} at "
        "least show a queue: other traffic, a device in between, or a link that is slower than is known"
    )


_SENTENCES: dict[VerdictKind, Callable[[Overview], str]] = {
    VerdictKind.WINDOW: _window,
    VerdictKind.SSH_WINDOW: _ssh_window,
    VerdictKind.SLOW_RECEIVER: _slow_receiver,
    VerdictKind.RANDOM_LOSS: _random_loss,
    VerdictKind.POLICER: _policer,
    VerdictKind.SERVER: _server,
    VerdictKind.CAP: _cap,
}

_NAMES = {VerdictKind.SSH_WINDOW: "SSH window"}


def sentence_for(kind: VerdictKind, share: float, whole: Overview, held_bytes_per_s: float) -> str:
    """Return a verdict as one sentence, starting with its kind and its part of the time.

    Args:
        kind: What limited the transfer.
        share: Part of the time for which it did, 0 to 1.
        whole: The transfer.
        held_bytes_per_s: Payload rate during that time.
    """
    if kind is VerdictKind.BANDWIDTH:
        words = _bandwidth(whole, held_bytes_per_s)
    else:
        words = _SENTENCES.get(kind, _nothing)(whole)
    return f"{_NAMES.get(kind, kind.value.capitalize())}, {share:.0%} of the time: {words}."


def evidence_for(whole: Overview) -> tuple[str, ...]:
    """Return the numbers on which a verdict is based, one line each."""
    least = "unknown" if whole.min_rtt_s is None else exact_milliseconds(whole.min_rtt_s)
    rate = exact_rate(whole.rate_bytes_per_s)
    lines = [
        f"{rate} over {whole.duration_s:.1f} s, interval rates vary by {whole.spread:.0%}",
        f"round trip {_rtt(whole)} (median), {least} (least)",
        f"segment size {whole.mss_bytes} bytes",
        f"sent again {whole.retrans_bytes} bytes ({whole.retrans_share:.2%})",
    ]
    if whole.largest_window_bytes is not None:
        lines.append(
            f"receive window {whole.largest_window_bytes} bytes at most, {whole.median_window_bytes} in the median"
        )
    if whole.channel_waiting_bytes is not None:
        opened = "unknown" if whole.channel_window_bytes is None else f"{whole.channel_window_bytes} bytes at most"
        lines.append(
            f"SSH channel window {opened}; bytes waited for it {whole.channel_waiting_share:.0%} of the time, up to "
            f"{whole.channel_waiting_bytes}"
        )
    if whole.asked_bytes is not None:
        lines.append(f"asked for by SFTP and not yet there {size(whole.asked_bytes)} at most")
    if whole.cipher:
        lines.append(f"encrypted by {whole.cipher}")
    if whole.link is not None:
        lines.append(f"link known to carry {exact_rate(whole.link.bytes_per_s)}{_beside(whole.link)}")
    if whole.cap_bytes_per_s is not None:
        name = "pacing cap" if whole.own_pace is None else "pace found in the copy"
        lines.append(f"{name} {exact_rate(whole.cap_bytes_per_s)}{_history_of(whole)}")
    return tuple(lines)


def _history_of(whole: Overview) -> str:
    """Return the usual value of a cap that changed during the transfer, as part of a sentence; empty if it did not."""
    if whole.is_cap_steady or whole.usual_cap_bytes_per_s is None:
        return ""
    return f" at the end, mostly {exact_rate(whole.usual_cap_bytes_per_s)}"


def advice_for(kind: VerdictKind, whole: Overview) -> str:
    """Return what would make the next transfer faster; empty if nothing known would."""
    if kind is VerdictKind.WINDOW:
        return _window_advice(whole)
    if kind is VerdictKind.SSH_WINDOW:
        return _ssh_window_advice(whole)
    return {
        VerdictKind.SLOW_RECEIVER: _receiver_advice(whole),
        VerdictKind.RANDOM_LOSS: "Use BBR with a cap on the sender, 'ip tcp selective-ack' and "
        "'ip tcp path-mtu-discovery' on the device. If a cap alone ends the losses, they came of a queue or policer "
        "too short for bursts, and not at random.",
        VerdictKind.BANDWIDTH: _cap_advice(whole) if whole.retrans_share > _MUCH_AGAIN else "",
        VerdictKind.POLICER: _cap_advice(whole),
        VerdictKind.SERVER: "Look at the server's disk, CPU and tcp_wmem.",
    }.get(kind, "")


def _cap_advice(whole: Overview) -> str:
    again = f"{whole.retrans_share:.1%} was sent for nothing"
    return f"Cap the sender at about {exact_rate(0.93 * whole.rate_bytes_per_s)}; {again}."


def _window_advice(whole: Overview) -> str:
    window = whole.largest_window_bytes
    if window is None or window >= LARGEST_WINDOW_BYTES:
        return ""
    state = "not tuned" if window <= LARGEST_UNSCALED_BYTES else "tuned but full"
    return f"The window is {state}: set 'ip tcp window-size' to twice link rate x round trip, above {window} bytes."


def _ssh_window_advice(whole: Overview) -> str:
    """Return which configuration line widens the channel's window to two bandwidth-delay products."""
    choice = choose_window(whole.min_rtt_s or whole.median_rtt_s or ASSUMED_RTT_S, _path_rate_bps(whole))
    window, needed = whole.channel_window_bytes, choice.window_bytes
    if window is not None and window >= needed:
        return (
            "The channel's window is twice what the path holds and yet used up: the device opens it late; look at its "
            "CPU."
        )
    return (
        f"Set 'ip ssh bulk-mode {needed}' (from 17.10 on), elsewhere 'ip ssh window-size {needed}', at least "
        f"{choice.reason}, and 'ip tcp window-size' to no less; the old line is to be put back, not its 'no'. HTTP and "
        "FTP have no such window."
    )


def _path_rate_bps(whole: Overview) -> float | None:
    """Return the path's rate for this transfer in bits per second, headers included; None if unknown."""
    payload = whole.link.bytes_per_s if whole.link is not None else whole.usual_cap_bytes_per_s
    if not payload:
        return None
    mss = whole.mss_bytes or _USUAL_MSS_BYTES
    return payload * 8 * (mss + HEADERS_BYTES) / mss


def _receiver_advice(whole: Overview) -> str:
    if _asks_for_little(whole):
        return (
            "No window and no line helps: take SCP, or HTTP or FTP where clear text is allowed: there it need not ask."
        )
    advice = "A larger window will not help; check the device's flash and CPU."
    if not whole.cipher:
        return advice
    if whole.channel_waiting_bytes is None:
        return f"{advice} It may be what {whole.cipher} costs it: compare with HTTP or FTP where clear text is allowed."
    return (
        f"{advice} It may be what {whole.cipher} costs it: 'flashferry probe --ssh-sweep' shows which cipher it takes "
        "fastest."
    )


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
    samples: Sequence[Sample],
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


def _by_kind(samples: Sequence[Sample], spans: Sequence[Interval], whole: Overview) -> dict[VerdictKind | None, _Held]:
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
