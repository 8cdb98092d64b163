"""Rules that find the limiting factor of one interval of a transfer. Numbers only: no text, no clock.

The thresholds come from sender-side classifiers in the literature (T-RAT, SIGCOMM 2002; SNAP, NSDI 2011) and were
checked against measured runs; each constant says which cases it separates.
"""

from enum import StrEnum
from typing import TYPE_CHECKING

from flashferry.tcp.models import cubic_bytes_per_s
from flashferry.tcp.transfer_summary import Overview

if TYPE_CHECKING:
    from flashferry.tcp.sample import Interval


class VerdictKind(StrEnum):
    """What limited a transfer."""

    WINDOW = "window"
    SSH_WINDOW = "ssh window"
    SLOW_RECEIVER = "slow receiver"
    RANDOM_LOSS = "random loss"
    BANDWIDTH = "bandwidth"
    POLICER = "policer"
    SERVER = "server"
    CAP = "cap"
    TOO_SHORT = "too short"
    UNKNOWN = "unknown"


_BUSY_ENOUGH = 0.9
_SNDBUF_SHARE = 0.1
# Pacing by SO_MAX_PACING_RATE was measured within 1 %; loss and sampling take a little more.
_CAP_REACHED = 0.9
# Most of the busy time. A receiver that reads late was measured at 0.7 to 0.8 under BBR, a full link at 0.
_RWND_LIMITED = 0.5
# BBR shows about 0.47 for a flow limited by the window alone: used only if the bytes in flight agree.
_RWND_LIMITED_WHILE_PACED = 0.25
WINDOW_FILLED = 0.85
"""A window counts as full from this share of it on."""

# A window below half of its maximum, or only half full on average, shows a receiver that does not keep up.
_SHRUNK = 0.5
_MOSTLY_OPEN = 0.75
# Below this many segments a queue looks like delayed acknowledgements.
_QUEUE_SEGMENTS = 8
_QUEUE_RTT = 1.25
_QUEUE_MIN_S = 0.000_5
_POLICER_RETRANS = 0.01
# BBR overruns a link by 1 to 2 %, and random loss of 1 % makes it send 5 % again in its worst measured run.
_POLICER_RETRANS_RATE_BASED = 0.06
_POLICER_SPREAD = 0.3
_POLICER_OVER_MODEL = 1.5
# One in twenty: BBR under random loss of 1 % sends that part again in its worst measured run with SACK.
_REPAIRING = 0.05
# Part of the time spent on retransmissions where each takes a round trip: most of it.
_REPAIRING_TIME = 0.5
# Few losses, and yet far above the model and steady: measured at 2.5 to 3.6 and 0.02 to 0.07 where a link with a short
# queue or a tight policer cut the rate; random loss gave 1.6 at most and 0.3 at least in ten seconds.
_CUT_OVER_MODEL = 2.0
_CUT_SPREAD = 0.15
# A receiver of 605 kB/s on a link of 2 MB/s had the window closed for a quarter to half of the time and 0.5 to 0.65
# of it in flight on average. A window filled by a queue before the link is full on average, too.
_FULL_ON_AVERAGE = 0.75
# Round trips for which a missing segment may keep the window narrow; five are on the safe side. A receiver of 1 MB/s in
# a LAN, to which window probes were retransmitted, had its window closed for 30 times the time of the retransmissions.
_ROUND_TRIPS_OF_A_HOLE = 5
# A queue of a third of the path's own capacity showed as 1.13, a policer as 1.05 (its own burst and the delayed
# acknowledgements of the client).
_FLAT_RTT = 1.1
_PLATEAU = 0.8
# Part of an SSH channel's window in flight at the least round-trip time: asyncssh, which reopens it at half, was
# measured at 0.47 to 0.91 if the window was the limit, and at 0.30 and below if the link or a slow receiver was.
_CHANNEL_FILLED = 0.35


def classify_interval(span: "Interval", whole: Overview, window_so_far_bytes: int) -> VerdictKind | None:
    """Return what limited one interval; None while the flow was still speeding up.

    Args:
        span: The interval.
        whole: The transfer it belongs to.
        window_so_far_bytes: Largest receive window seen up to the interval's end; a window that is still growing is no
            sign of a slow receiver.
    """
    by_channel = None if _reaches_cap(span) else _channel_kind(span, whole, window_so_far_bytes)
    if by_channel is not None:
        return by_channel
    kind = _kind_by_readings(span, whole, window_so_far_bytes)
    if whole.link is None:
        unread = kind is VerdictKind.BANDWIDTH and _has_unread(span, window_so_far_bytes)
        return VerdictKind.SLOW_RECEIVER if unread else kind
    if kind is VerdictKind.BANDWIDTH and not whole.link.may_be_full_at(span.rate_bytes_per_s):
        return _kind_below_link(span, whole, window_so_far_bytes)
    if kind is VerdictKind.POLICER and whole.link.is_used_up_by(span.rate_bytes_per_s):
        return VerdictKind.BANDWIDTH
    return kind


def _kind_by_readings(span: "Interval", whole: Overview, window_so_far_bytes: int) -> VerdictKind | None:
    if _starved(span):
        return VerdictKind.SERVER
    reads_late = _reads_late(span, window_so_far_bytes)
    if _reaches_cap(span):
        kind = _pace_kind(whole)
        return VerdictKind.SLOW_RECEIVER if kind is VerdictKind.BANDWIDTH and reads_late else kind
    if span.end.probes or span.end.snd_wnd_bytes == 0:
        return VerdictKind.SLOW_RECEIVER
    if _nearly_closed(span, window_so_far_bytes):
        return _narrowed_kind(span, whole)
    if _fills_window(span):
        return _window_kind(span, whole, window_so_far_bytes)
    if span.end.app_limited and span.end.notsent_bytes == 0:
        return VerdictKind.SERVER
    if reads_late:
        return VerdictKind.SLOW_RECEIVER
    if _has_queue(span, whole):
        return VerdictKind.BANDWIDTH
    return _loss_kind(span, whole)


def _kind_below_link(span: "Interval", whole: Overview, window_so_far_bytes: int) -> VerdictKind | None:
    """Return what limited an interval that looks like a full link, on a link that is known to carry more.

    A receiver that reads and acknowledges late lengthens the round trip as a queue does; a full window then shows that
    it is the receiver. With an open window the queue is another flow's, or the link's rate is not the known one.
    """
    is_held = (span.rwnd_share or 0.0) > _RWND_LIMITED_WHILE_PACED or _fills_window(span)
    if is_held or _has_unread(span, window_so_far_bytes):
        return VerdictKind.RANDOM_LOSS if _holes_explain(span) else VerdictKind.SLOW_RECEIVER
    if _has_queue(span, whole):
        return VerdictKind.UNKNOWN
    if not whole.loss_based and whole.retrans_share > _POLICER_RETRANS and whole.spread < _POLICER_SPREAD:
        # BBR does not slow down on random losses: even drops below the link's rate without a queue show a policer.
        return VerdictKind.POLICER
    if span.retrans_bytes > _REPAIRING * span.sent_bytes:
        return VerdictKind.RANDOM_LOSS
    return VerdictKind.UNKNOWN if span.rate_bytes_per_s >= _PLATEAU * whole.peak_bytes_per_s else None


def _pace_kind(whole: Overview) -> VerdictKind | None:
    """Return what limits a flow that reached its pacing rate; None while the link's rate is still being searched."""
    if whole.slowed_for_loss:
        return VerdictKind.RANDOM_LOSS
    if whole.own_pace is None:
        return VerdictKind.CAP
    return None if whole.own_pace.found_link_bytes_per_s is None else VerdictKind.BANDWIDTH


def _reaches_cap(span: "Interval") -> bool:
    cap = span.end.max_pacing_rate_bytes_per_s
    return cap is not None and span.rate_bytes_per_s >= _CAP_REACHED * cap


def _channel_kind(span: "Interval", whole: Overview, window_so_far_bytes: int) -> VerdictKind | None:
    """Return what limited an interval in which the SSH channel kept data from the socket; None if it did not.

    If about one channel window is delivered per round trip, the window is the limit. If less is, the peer opens it
    late: it reads late, or its data waits in a queue before the narrow link.
    """
    if _fills_smaller_window(span, whole, window_so_far_bytes):
        return VerdictKind.WINDOW
    if _waits_for_requests(span, whole):
        return VerdictKind.SLOW_RECEIVER
    if not _is_held_by_channel(span):
        return None
    fullness = _rtt_ratio(span, whole)
    link_may_be_full = whole.link is None or whole.link.may_be_full_at(span.rate_bytes_per_s)
    if _fills_channel(span, whole):
        return VerdictKind.BANDWIDTH if fullness >= _QUEUE_RTT and link_may_be_full else VerdictKind.SSH_WINDOW
    if span.busy_share is not None and span.busy_share < _BUSY_ENOUGH:
        return VerdictKind.SLOW_RECEIVER
    return VerdictKind.BANDWIDTH if fullness >= _FLAT_RTT and link_may_be_full else VerdictKind.SLOW_RECEIVER


def _waits_for_requests(span: "Interval", whole: Overview) -> bool:
    """Return whether an SFTP client limited the rate by its open requests: all that it requested was in flight.

    Nothing waits in the channel or in the socket, and TCP, its window and the link would carry more. If there is a
    queue on a link that may be full, the requests suffice to fill the link, and the answer is no.
    """
    end = span.end
    if end.asked_bytes is None or end.channel_waiting_bytes or (span.rwnd_share or 0.0) > _RWND_LIMITED:
        return False
    if end.notsent_bytes is None or end.notsent_bytes > 2 * end.snd_mss_bytes:
        return False
    if not whole.asked_goes_round_at(span.rate_bytes_per_s):
        return False
    link_may_be_full = whole.link is None or whole.link.may_be_full_at(span.rate_bytes_per_s)
    return _rtt_ratio(span, whole) < _QUEUE_RTT or not link_may_be_full


def _fills_smaller_window(span: "Interval", whole: Overview, window_so_far_bytes: int) -> bool:
    """Return whether TCP's window is smaller than the channel's and full on average.

    The channel's bursts pass it piece by piece, so in single readings it may be full or the socket may be empty.
    """
    window, usable = span.end.snd_wnd_bytes, span.usable_window_bytes
    if not span.end.channel_waiting_bytes or not window or not usable or whole.channel_window_bytes is None:
        return False
    is_smaller = usable < whole.channel_window_bytes and window >= _MOSTLY_OPEN * window_so_far_bytes
    return is_smaller and span.mean_in_flight_bytes >= _FULL_ON_AVERAGE * usable and not _has_queue(span, whole)


def _is_held_by_channel(span: "Interval") -> bool:
    """Return whether bytes waited in the channel while the socket had nothing to send, and TCP's window was open."""
    end = span.end
    if not end.channel_waiting_bytes or (span.rwnd_share or 0.0) > _RWND_LIMITED:
        return False
    # At the moment of the reading a burst of one channel window may just be in the socket. The kernel then still shows
    # that the socket had run out of data before, or was idle for a part of the time.
    ran_dry = end.app_limited or (span.busy_share is not None and span.busy_share < _BUSY_ENOUGH)
    return ran_dry or (end.notsent_bytes is not None and end.notsent_bytes <= 2 * end.snd_mss_bytes)


def _fills_channel(span: "Interval", whole: Overview) -> bool:
    """Return whether about one channel window is delivered per least round trip; True if the window is unknown."""
    if whole.channel_window_bytes is None:
        return True
    least_s = whole.min_rtt_s if whole.min_rtt_s is not None else span.end.rtt_us / 1e6
    return span.rate_bytes_per_s * least_s >= _CHANNEL_FILLED * whole.channel_window_bytes


def _rtt_ratio(span: "Interval", whole: Overview) -> float:
    """Return the round-trip time as a multiple of the least one; 1 while the difference is noise."""
    rtt_s = span.end.rtt_us / 1e6
    if whole.min_rtt_s is None or rtt_s - whole.min_rtt_s < _QUEUE_MIN_S:
        return 1.0
    return rtt_s / whole.min_rtt_s


def _starved(span: "Interval") -> bool:
    idle = span.busy_share is not None and span.busy_share < _BUSY_ENOUGH
    return idle or (span.sndbuf_share or 0.0) > _SNDBUF_SHARE


def _nearly_closed(span: "Interval", window_so_far_bytes: int) -> bool:
    """Return whether a window that was at least four segments takes fewer than two: the receiver does not read."""
    window = span.end.snd_wnd_bytes
    return window is not None and window < 2 * span.end.snd_mss_bytes <= window_so_far_bytes // 2


def _fills_window(span: "Interval") -> bool:
    usable = span.usable_window_bytes
    rwnd_share = span.rwnd_share or 0.0
    if rwnd_share > _RWND_LIMITED:
        return True
    if usable is None:
        return False
    if span.end.in_flight_bytes >= WINDOW_FILLED * usable:
        return True
    return rwnd_share > _RWND_LIMITED_WHILE_PACED and span.mean_in_flight_bytes >= WINDOW_FILLED * usable


def _narrowed_kind(span: "Interval", whole: Overview) -> VerdictKind | None:
    """Return what narrowed the window: a receiver that reads late, or a lost segment.

    Data after a lost segment stays in the receiver's buffer, unreadable, until that segment is retransmitted (RFC 9293
    3.10.7.4), and the window is smaller by as much.
    """
    return _loss_kind(span, whole) if _holes_explain(span) else VerdictKind.SLOW_RECEIVER


def _window_kind(span: "Interval", whole: Overview, window_so_far_bytes: int) -> VerdictKind | None:
    window = span.end.snd_wnd_bytes
    if window is None:
        return VerdictKind.WINDOW
    if window < _SHRUNK * window_so_far_bytes or _partly_unread(span, window, window_so_far_bytes):
        return _narrowed_kind(span, whole)
    if span.mean_in_flight_bytes < _SHRUNK * (span.usable_window_bytes or 0):
        # Full in the reading and yet half empty on average: the window opens late, because the receiver reads late.
        return _narrowed_kind(span, whole)
    if window >= _QUEUE_SEGMENTS * span.end.snd_mss_bytes and _has_queue(span, whole):
        if _reads_late(span, window_so_far_bytes):
            return VerdictKind.SLOW_RECEIVER
        # The window exceeds what the path holds, so it is the queue before the narrow link that fills it.
        return VerdictKind.BANDWIDTH
    return VerdictKind.WINDOW


def _reads_late(span: "Interval", window_so_far_bytes: int) -> bool:
    """Return whether the window stopped the sender repeatedly and yet was far from full on average.

    The window then opens late, in large steps, because the receiver reads late. Linux also acknowledges unread data
    late (net/ipv4/tcp_input.c, __tcp_ack_snd_check), so round trips are longer without any queue in the network.
    """
    usable = span.usable_window_bytes
    if usable is None or (span.rwnd_share or 0.0) <= _RWND_LIMITED_WHILE_PACED or _holes_explain(span):
        return False
    # A window filled by a queue is full on average; one that limits the flow only now and then is so by chance only.
    full = WINDOW_FILLED if (span.rwnd_share or 0.0) > _RWND_LIMITED else _FULL_ON_AVERAGE
    return _has_unread(span, window_so_far_bytes) or span.mean_in_flight_bytes < full * usable


def _has_unread(span: "Interval", window_so_far_bytes: int) -> bool:
    """Return whether a good part of the receive buffer held unread bytes that no lost segment explains."""
    window = span.end.snd_wnd_bytes
    return window is not None and _partly_unread(span, window, window_so_far_bytes) and not _holes_explain(span)


def _holes_explain(span: "Interval") -> bool:
    """Return whether lost segments may explain the whole time for which the window was closed.

    With SACK a loss is repaired in a round trip, and the losses of one burst together.
    """
    if not span.retrans_bytes:
        return False
    repairs = span.retrans_bytes / max(span.end.snd_mss_bytes, 1)
    closed_s = (span.rwnd_share or 0.0) * span.duration_s
    return span.end.sack is False or _ROUND_TRIPS_OF_A_HOLE * repairs * span.end.rtt_us / 1e6 >= closed_s


def _partly_unread(span: "Interval", window: int, window_so_far_bytes: int) -> bool:
    """Return whether unread bytes take more than a quarter of the receive buffer plus two segments.

    Two segments may be unread at any moment although the receiver keeps up: they have just arrived.
    """
    return window + 2 * span.end.snd_mss_bytes < _MOSTLY_OPEN * window_so_far_bytes


def _has_queue(span: "Interval", whole: Overview) -> bool:
    if whole.min_rtt_s is None:
        return False
    rtt_s = span.end.rtt_us / 1e6
    return rtt_s >= _QUEUE_RTT * whole.min_rtt_s and rtt_s - whole.min_rtt_s >= _QUEUE_MIN_S


def _loss_kind(span: "Interval", whole: Overview) -> VerdictKind | None:
    if not whole.loss_based:
        if whole.slowed_for_loss or _repairs_one_by_one(span):
            return VerdictKind.RANDOM_LOSS
        if whole.own_pace is not None:
            return VerdictKind.RANDOM_LOSS if span.retrans_bytes > _REPAIRING * span.sent_bytes else None
        if whole.retrans_share > _POLICER_RETRANS_RATE_BASED and whole.spread < _POLICER_SPREAD:
            return VerdictKind.POLICER
        if span.rate_bytes_per_s >= _PLATEAU * whole.peak_bytes_per_s:
            return VerdictKind.BANDWIDTH
        # BBR does not slow down on loss, but retransmissions limit it if they are a good part of all that it sends.
        return VerdictKind.RANDOM_LOSS if span.retrans_bytes > _REPAIRING * span.sent_bytes else None
    if not whole.retrans_bytes or not span.end.bytes_retrans:
        return None
    if not _cut_at_a_rate(whole):
        return VerdictKind.RANDOM_LOSS
    flat = whole.min_rtt_s is None or whole.median_rtt_s < _FLAT_RTT * whole.min_rtt_s
    return VerdictKind.POLICER if flat else VerdictKind.BANDWIDTH


def _repairs_one_by_one(span: "Interval") -> bool:
    """Return whether a flow without SACK spent most of the interval on retransmissions, one per round trip.

    Without SACK an acknowledgement names only the first missing segment, so each repair takes a round trip (RFC 6582
    section 1). Many segments are then sent again whatever dropped them, so that share is no sign of a policer.
    """
    if span.end.sack is not False or span.end.snd_mss_bytes <= 0:
        return False
    repairs = span.retrans_bytes / span.end.snd_mss_bytes
    return repairs * span.end.rtt_us / 1e6 >= _REPAIRING_TIME * span.duration_s


def _cut_at_a_rate(whole: Overview) -> bool:
    """Return whether packets are dropped above a fixed rate, by a policer or a short queue, and not at random.

    Random losses come one by one, so the rate follows CUBIC's model for the share retransmitted. Drops above a fixed
    rate come in bursts: the flow is far faster than that model allows for the share retransmitted.
    """
    if not whole.median_rtt_s or not 0 < whole.retrans_share < 1:
        return False
    allowed = cubic_bytes_per_s(whole.retrans_share, whole.median_rtt_s, max(whole.mss_bytes, 1))
    over = whole.rate_bytes_per_s / allowed
    if whole.retrans_share > _POLICER_RETRANS:
        return over > _POLICER_OVER_MODEL and whole.spread < _POLICER_SPREAD
    return over > _CUT_OVER_MODEL and whole.spread < _CUT_SPREAD
