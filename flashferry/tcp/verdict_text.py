"""A verdict in words: sentences, evidence and advice, always with the numbers and their units."""

from typing import TYPE_CHECKING

from flashferry.core.units import exact_milliseconds, exact_rate, size
from flashferry.tcp.link_rate import HEADERS_BYTES
from flashferry.tcp.receive_window import ASSUMED_RTT_S, LARGEST_UNSCALED_BYTES, LARGEST_WINDOW_BYTES, choose_window
from flashferry.tcp.transfer_summary import LINK_IS_FULL, KnownLink, Overview
from flashferry.tcp.verdict_rules import VerdictKind

if TYPE_CHECKING:
    from collections.abc import Callable

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


_SENTENCES: "dict[VerdictKind, Callable[[Overview], str]]" = {
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
    advice = "A larger window will not help; look at the device's flash and CPU."
    if not whole.cipher:
        return advice
    if whole.channel_waiting_bytes is None:
        return f"{advice} It may be what {whole.cipher} costs it: compare with HTTP or FTP where clear text is allowed."
    return (
        f"{advice} It may be what {whole.cipher} costs it: 'flashferry probe --ssh-sweep' shows which cipher it takes "
        "fastest."
    )
