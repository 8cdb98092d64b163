"""Flows made by hand, as the kernel would have told of them."""

from typing import Any

from flashferry.tcp.sample import Sample

_MSS = 1460


def flow_of(
    *,
    seconds: int = 10,
    rate: float | list[float] = 1e6,
    rtt_ms: float = 100.0,
    least_ms: float = 100.0,
    window: int | list[int] = 2_500_000,
    in_flight: int = 0,
    busy: float = 1.0,
    rwnd: float = 0.0,
    sndbuf: float = 0.0,
    again: float = 0.0,
    **fixed: Any,
) -> list[Sample]:
    """One sample a second of a flow with the given rate (bytes/s), window and shares of time and bytes."""
    samples, acked, sent, retrans = [], 0.0, 0.0, 0.0
    for second in range(seconds + 1):
        step = rate[second] if isinstance(rate, list) else rate
        if second:
            acked += step
            sent += step * (1 + again)
            retrans += step * again
        samples.append(
            Sample(
                at_s=float(second),
                rtt_us=int(rtt_ms * 1000),
                min_rtt_us=int(least_ms * 1000),
                snd_mss_bytes=_MSS,
                snd_cwnd_segments=100,
                unacked_segments=in_flight // _MSS,
                bytes_acked=int(acked),
                bytes_sent=int(sent),
                bytes_retrans=int(retrans),
                notsent_bytes=400_000,
                snd_wnd_bytes=window[second] if isinstance(window, list) else window,
                busy_time_us=int(second * busy * 1e6),
                rwnd_limited_us=int(second * busy * rwnd * 1e6),
                sndbuf_limited_us=int(second * busy * sndbuf * 1e6),
                **fixed,
            )
        )
    return samples
