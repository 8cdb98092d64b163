"""Verdicts: a row per cause, with the sentence an operator reads."""

from itertools import pairwise
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.tcp.sample import Sample, intervals
from flashferry.tcp.tcp_info import NO_PACING_LIMIT, parse_tcp_info
from flashferry.tcp.verdict import OwnPace, VerdictKind, classify_transfer
from tests.unit.tcp.flows import flow_of

_SLOW_FLASH = [60_000, 60_000, 12_000, 8_000, 20_000, 9_000, 14_000, 8_000, 11_000, 9_000, 12_000]
_GROWING = [20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 640_000, 640_000, 640_000, 640_000, 640_000]

_HOLES = [2_500_000, 2_500_000, *[700_000, 900_000, 600_000] * 3]
"""A window that what waits behind lost segments has narrowed."""

_ROWS: list[Any] = [
    pytest.param(
        flow_of(rate=1.25e6, again=0.15, sack=False),
        "bbr",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 100% of the time: losses without a queue (13.04% sent again, round trip 100 ms), each repaired "
        "in a round trip of its own for want of SACK, kept the sender at 1.25 MB/s.",
        id="repairs-one-by-one-are-no-policer",
    ),
    pytest.param(
        flow_of(rate=[0, 3e6, *[4e5] * 9], rtt_ms=500, least_ms=300, window=_HOLES, rwnd=0.6, again=0.004, sack=False),
        "bbr",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 90% of the time: losses (0.40% sent again, round trip 500 ms), each repaired in a round trip of "
        "its own for want of SACK, kept the sender at 0.66 MB/s.",
        id="few-repairs-without-sack-take-the-whole-copy",
    ),
    pytest.param(
        flow_of(rate=160_000, window=_HOLES, rwnd=0.6, again=0.012),
        "cubic",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 100% of the time: losses without a queue (1.19% sent again, round trip 100 ms) kept the sender "
        "at 0.16 MB/s.",
        id="holes-of-losses-are-no-slow-reader",
    ),
    pytest.param(
        flow_of(rate=[0, 3e6, *[9e5] * 9], window=_HOLES, rwnd=0.6, again=0.15),
        "bbr",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 90% of the time: losses without a queue (13.04% sent again, round trip 100 ms) kept the sender "
        "at 1.11 MB/s.",
        id="bbr-without-sack-repairs-all-the-time",
    ),
    pytest.param(
        flow_of(rate=28_700, window=4128, in_flight=2920, rwnd=0.99),
        "cubic",
        VerdictKind.WINDOW,
        "Window, 100% of the time: the receive window of 4128 bytes was full; at a round trip of 100 ms it allows "
        "0.0413 MB/s, seen 0.0287 MB/s.",
        id="untuned-4128-cubic",
    ),
    pytest.param(
        flow_of(rate=28_500, window=4128, in_flight=2920, rwnd=0.47),
        "bbr",
        VerdictKind.WINDOW,
        "Window, 100% of the time: the receive window of 4128 bytes was full; at a round trip of 100 ms it allows "
        "0.0413 MB/s, seen 0.0285 MB/s.",
        id="bbr-trap-in-flight-tells",
    ),
    pytest.param(
        flow_of(rate=640_000, window=65_535, in_flight=30_000, rwnd=0.47),
        "bbr",
        VerdictKind.WINDOW,
        "Window, 100% of the time: the receive window of 65535 bytes was full; at a round trip of 100 ms it allows "
        "0.655 MB/s, seen 0.64 MB/s.",
        id="bbr-trap-littles-law-tells",
    ),
    pytest.param(
        flow_of(rate=2.7e6, in_flight=273_000, again=1e-4),
        "cubic",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 100% of the time: losses without a queue (0.01% sent again, round trip 100 ms) kept the sender "
        "at 2.7 MB/s.",
        id="published-wan-cubic",
    ),
    pytest.param(
        flow_of(rate=5.4e6, in_flight=560_000, again=3e-4, max_pacing_rate_bytes_per_s=5_500_000),
        "bbr",
        VerdictKind.CAP,
        "Cap, 100% of the time: the cap of 5.5 MB/s was reached, seen 5.4 MB/s, by design.",
        id="bbr-at-its-cap",
    ),
    pytest.param(
        flow_of(rate=5.6e6, in_flight=900_000, again=0.02),
        "bbr",
        VerdictKind.BANDWIDTH,
        "Bandwidth, 100% of the time: the link was full at 5.6 MB/s, round trip 100 ms against 100 ms at least.",
        id="bbr-fills-the-link-without-a-queue",
    ),
    pytest.param(
        flow_of(rate=6.1e6, rtt_ms=180, in_flight=1_100_000, again=1e-4),
        "cubic",
        VerdictKind.BANDWIDTH,
        "Bandwidth, 100% of the time: the link was full at 6.1 MB/s, round trip 180 ms against 100 ms at least.",
        id="cubic-fills-the-queue",
    ),
    pytest.param(
        flow_of(rate=125_000, rtt_ms=520, least_ms=20, window=65_535, in_flight=64_240, rwnd=1.0),
        "cubic",
        VerdictKind.BANDWIDTH,
        "Bandwidth, 100% of the time: the link was full at 0.125 MB/s, round trip 520 ms against 20 ms at least.",
        id="window-larger-than-a-slow-link",
    ),
    pytest.param(
        flow_of(rate=60_000, window=_SLOW_FLASH, in_flight=11_000, rwnd=0.95),
        "cubic",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 60000 bytes (median "
        "12000) and a round trip of 100 ms it took 0.06 MB/s.",
        id="slow-flash-shrinks-the-window",
    ),
    pytest.param(
        flow_of(rate=20_000, window=64_000, in_flight=0, rwnd=0.95),
        "cubic",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 64000 bytes (median "
        "64000) and a round trip of 100 ms it took 0.02 MB/s.",
        id="slow-flash-between-samples",
    ),
    pytest.param(
        # As seen of a client that reads 2 MB/s on loopback: full at each look, and far from held by its window.
        flow_of(rate=3_490_000, window=10_249_216, in_flight=10_200_000, rwnd=0.4, rtt_ms=5.36, least_ms=5.3),
        "bbr",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 10249216 bytes (median "
        "10249216) and a round trip of 5.36 ms it took 3.49 MB/s.",
        id="slow-reader-behind-a-large-window",
    ),
    pytest.param(
        # The same reader once more: a window below one segment each time, and a round trip that waits for it.
        flow_of(rate=254_000, window=[900_000] + [2000] * 10, rtt_ms=21.4, least_ms=0.002),
        "bbr",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 900000 bytes (median "
        "2000) and a round trip of 21.4 ms it took 0.254 MB/s.",
        id="window-nearly-closed-is-no-queue",
    ),
    pytest.param(
        # And between its reads: a window wide open, hardly used, and closed for three quarters of the time.
        flow_of(rate=2_175_000, window=834_560, rwnd=0.74, rtt_ms=19.6, least_ms=0.002),
        "bbr",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 834560 bytes (median "
        "834560) and a round trip of 19.6 ms it took 2.17 MB/s.",
        id="window-closed-most-of-the-time-under-bbr",
    ),
    pytest.param(
        flow_of(rate=0, window=0, probes=3, rwnd=1.0),
        "cubic",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 0 bytes (median 0) and "
        "a round trip of 100 ms it took 0 MB/s.",
        id="zero-window",
    ),
    pytest.param(
        flow_of(rate=[0, 2e5, 4e5, 8e5, 1.6e6, 3.2e6, 6.4e6, 6.4e6, 6.4e6, 6.4e6, 6.4e6], window=_GROWING, rwnd=0.9),
        "cubic",
        VerdictKind.WINDOW,
        "Window, 100% of the time: the receive window of 640000 bytes was full; at a round trip of 100 ms it allows "
        "6.4 MB/s, seen 3.82 MB/s.",
        id="a-growing-window-is-no-slow-receiver",
    ),
    pytest.param(
        flow_of(rate=3e5, busy=0.5),
        "cubic",
        VerdictKind.SERVER,
        "Server, 100% of the time: the server had too little ready to send, seen 0.3 MB/s.",
        id="sender-idle",
    ),
    pytest.param(
        flow_of(rate=3e6, sndbuf=0.4, in_flight=300_000),
        "cubic",
        VerdictKind.SERVER,
        "Server, 100% of the time: the server had too little ready to send, seen 3 MB/s.",
        id="send-buffer",
    ),
    pytest.param(
        flow_of(rate=1.2e6, in_flight=120_000, again=0.03),
        "cubic",
        VerdictKind.POLICER,
        "Policer, 100% of the time: 2.9% was sent again in bursts, without a queue and at an even 1.2 MB/s: a policer, "
        "or a link with next to no queue.",
        id="policer",
    ),
    pytest.param(
        flow_of(rate=4.5e6, in_flight=450_000, again=0.11),
        "bbr",
        VerdictKind.POLICER,
        "Policer, 100% of the time: 9.9% was sent again in bursts, without a queue and at an even 4.5 MB/s: a policer, "
        "or a link with next to no queue.",
        id="bbr-against-a-policer",
    ),
    pytest.param(
        # Few losses, and yet 3.6 times as fast as random ones would allow: they come where the link ends.
        flow_of(rate=2.31e6, rtt_ms=45.2, least_ms=40, in_flight=104_000, again=0.0036),
        "cubic",
        VerdictKind.BANDWIDTH,
        "Bandwidth, 100% of the time: the link was full at 2.31 MB/s, round trip 45.2 ms against 40 ms at least.",
        id="a-link-with-a-short-queue",
    ),
    pytest.param(
        flow_of(seconds=3, rtt_ms=2, least_ms=2, window=65_535, in_flight=64_000, rwnd=1.0),
        "bbr",
        VerdictKind.TOO_SHORT,
        "Too short to judge: 3.00 s in 4 readings; a verdict takes 1.0 s and 5.",
        id="three-intervals-are-no-witness",
    ),
    pytest.param(
        # Two segments may have come and not been read at any moment; a quarter of the buffer besides may not.
        flow_of(rate=1e6, rtt_ms=25, least_ms=25, window=[40_000] + [25_000] * 10, in_flight=24_820, rwnd=0.9),
        "cubic",
        VerdictKind.SLOW_RECEIVER,
        "Slow receiver, 100% of the time: the receiver did not keep up: with a window of up to 40000 bytes (median "
        "25000) and a round trip of 25 ms it took 1 MB/s.",
        id="a-third-of-the-buffer-unread",
    ),
    pytest.param(
        flow_of(rate=28_700, window=[4128] + [2668] * 10, in_flight=1460, rwnd=0.99, rtt_ms=50, least_ms=50),
        "cubic",
        VerdictKind.WINDOW,
        "Window, 100% of the time: the receive window of 4128 bytes was full; at a round trip of 50 ms it allows "
        "0.0826 MB/s, seen 0.0287 MB/s.",
        id="one-unread-segment-of-a-small-window",
    ),
    pytest.param(
        flow_of(rate=180_000, in_flight=18_000, again=0.012),
        "cubic",
        VerdictKind.RANDOM_LOSS,
        "Random loss, 100% of the time: losses without a queue (1.19% sent again, round trip 100 ms) kept the sender "
        "at 0.18 MB/s.",
        id="one-percent-at-random-is-no-policer",
    ),
    pytest.param(
        flow_of(rate=1e6, in_flight=100_000),
        "cubic",
        VerdictKind.TOO_SHORT,
        "Too short to judge: still speeding up for 100% of 10.0 s.",
        id="slow-start-to-the-end",
    ),
    pytest.param(
        flow_of(seconds=3, rtt_ms=600, least_ms=600, rwnd=1.0),
        "cubic",
        VerdictKind.TOO_SHORT,
        "Too short to judge: 3.00 s in 4 readings; a verdict takes 6.0 s and 5.",
        id="five-round-trips-by-satellite",
    ),
    pytest.param(
        [], "cubic", VerdictKind.TOO_SHORT, "Too short to judge: 0 samples and no time between them.", id="nothing"
    ),
]


@pytest.mark.parametrize(("samples", "congestion_control", "kind", "sentence"), _ROWS)
def test_verdict(samples: list[Sample], congestion_control: str, kind: VerdictKind, sentence: str) -> None:
    """Each cause is named, and said in a sentence with its numbers."""
    verdict = classify_transfer(samples, congestion_control=congestion_control)
    assert (verdict.kind, verdict.sentence) == (kind, sentence)


def test_three_causes_in_turn_are_no_single_one() -> None:
    """Where no cause held for a third of the time, the verdict says so and lists the shares."""
    parts = [
        flow_of(seconds=4, rate=3e5, busy=0.5),
        flow_of(seconds=4, window=15_000, in_flight=14_600, rwnd=1.0),
        flow_of(seconds=4, rate=6.1e6, rtt_ms=180, in_flight=1_100_000),
    ]
    verdict = classify_transfer(_chain(parts), congestion_control="cubic")
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "server 33%" in verdict.sentence
    assert "bandwidth 33%" in verdict.sentence


def test_a_long_start_leaves_the_verdict_to_the_rest() -> None:
    """Where a flow sped up for half of its time, the cause that held for most of the other half is named."""
    rates = [0, *[1e6] * 6, *[5e6] * 3, 6e6]
    flow = flow_of(rate=rates)
    flow[-1] = replace(flow[-1], max_pacing_rate_bytes_per_s=6_000_000)
    verdict = classify_transfer(flow, congestion_control="bbr")
    assert verdict.kind is VerdictKind.BANDWIDTH
    assert verdict.share == pytest.approx(0.3)


def _chain(parts: list[list[Sample]]) -> list[Sample]:
    """Put flows behind each other, with counters and time going on."""
    whole = list(parts[0])
    for part in parts[1:]:
        for earlier, later in pairwise(part):
            last = whole[-1]
            counters = ("bytes_acked", "bytes_sent", "bytes_retrans", "busy_time_us", "rwnd_limited_us", "at_s")
            moved = {name: getattr(last, name) + getattr(later, name) - getattr(earlier, name) for name in counters}
            whole.append(replace(later, **moved))
    return whole


def test_the_share_is_the_part_of_the_time_a_cause_held() -> None:
    """Eight seconds of a full window after two of an idle server make 80 %."""
    flow = _chain(
        [flow_of(seconds=2, window=15_000, busy=0.3), flow_of(seconds=8, window=15_000, in_flight=14_600, rwnd=1.0)]
    )
    verdict = classify_transfer(flow, congestion_control="cubic")
    assert verdict.kind is VerdictKind.WINDOW
    assert verdict.share == pytest.approx(0.8)
    assert "time by cause: window 80%, server 20%" in verdict.evidence


def test_waiting_for_the_last_acknowledgement_counts_for_nothing() -> None:
    """An idle minute after the last byte was written does not make the server the cause."""
    flow = flow_of(rate=28_700, window=4128, in_flight=2920, rwnd=0.99)
    end = replace(flow[-1], all_written=True, notsent_bytes=0)
    tail = replace(end, at_s=end.at_s + 60)
    assert classify_transfer([*flow[:-1], end, tail], congestion_control="cubic").kind is VerdictKind.WINDOW


def test_an_old_kernel_that_tells_nothing_gives_no_false_verdict() -> None:
    """Without windows, times and losses a flow is never blamed on the window, the receiver or the server."""
    bare = [
        replace(
            sample,
            snd_wnd_bytes=None,
            busy_time_us=None,
            rwnd_limited_us=None,
            sndbuf_limited_us=None,
            bytes_retrans=None,
            bytes_sent=None,
            min_rtt_us=None,
            notsent_bytes=None,
        )
        for sample in flow_of(rate=1e6)
    ]
    assert classify_transfer(bare, congestion_control="cubic").kind is VerdictKind.TOO_SHORT


def test_an_untuned_window_gets_the_line_that_helps() -> None:
    """The advice for a small window names the IOS command; a cap needs none."""
    untuned = classify_transfer(
        flow_of(rate=28_700, window=4128, in_flight=2920, rwnd=0.99), congestion_control="cubic"
    )
    assert "'ip tcp window-size'" in untuned.advice
    assert "not tuned" in untuned.advice
    overrun = classify_transfer(flow_of(rate=1.19e6, again=0.055), congestion_control="bbr")
    assert overrun.kind is VerdictKind.BANDWIDTH
    assert overrun.advice == "Cap the sender at about 1.11 MB/s; 5.2% was sent for nothing."
    capped = classify_transfer(flow_of(rate=5.4e6, max_pacing_rate_bytes_per_s=5_500_000), congestion_control="bbr")
    assert capped.advice == ""


def test_a_share_of_a_cap_is_told_as_what_it_was() -> None:
    """A copy beside seven others that ends alone ran at its share, not at the site's cap that it has at the end."""
    flow = flow_of(seconds=8, rate=240_000, max_pacing_rate_bytes_per_s=244_000)
    alone = replace(flow[-1], max_pacing_rate_bytes_per_s=1_950_000)
    verdict = classify_transfer([*flow[:-1], alone], congestion_control="bbr", shared_cap_bytes_per_s=1_950_000)
    assert verdict.kind is VerdictKind.CAP
    share = "its share, mostly 0.244 MB/s, of the site's cap of 1.95 MB/s was reached, seen 0.24 MB/s, by design."
    assert share in verdict.sentence
    assert "pacing cap 1.95 MB/s at the end, mostly 0.244 MB/s" in verdict.evidence


def test_a_steady_share_has_one_figure() -> None:
    """Nobody came or went: the share is what it is; without a share the cap is a cap."""
    flow = flow_of(rate=240_000, max_pacing_rate_bytes_per_s=244_000)
    shared = classify_transfer(flow, congestion_control="bbr", shared_cap_bytes_per_s=1_950_000)
    assert "its share, 0.244 MB/s, of the site's cap of 1.95 MB/s was reached, seen 0.24 MB/s" in shared.sentence
    assert "the cap of 0.244 MB/s was reached" in classify_transfer(flow, congestion_control="bbr").sentence


def test_a_burst_in_the_last_moment_is_no_rate_that_was_reached() -> None:
    """BBR at the link's rate all along is held by it, however fast the last tenth of a second looks."""
    flow = flow_of(seconds=10, rate=6_000_000)
    last = flow[-1]
    rest = replace(
        last, at_s=last.at_s + 0.1, bytes_acked=last.bytes_acked + 1_000_000, bytes_sent=last.bytes_sent + 1_000_000
    )
    assert classify_transfer([*flow, rest], congestion_control="bbr").kind is VerdictKind.BANDWIDTH


def test_a_pace_lowered_for_losses_is_no_cap() -> None:
    """A sender that slows itself to what can be repaired is held by loss, whether it reaches that pace or not."""
    slowed = flow_of(rate=880_000, again=0.04, max_pacing_rate_bytes_per_s=900_000)
    assert classify_transfer(slowed, congestion_control="bbr").kind is VerdictKind.CAP
    assert classify_transfer(slowed, congestion_control="bbr", slowed_for_loss=True).kind is VerdictKind.RANDOM_LOSS
    below = flow_of(rate=700_000, again=0.04, max_pacing_rate_bytes_per_s=900_000)
    assert classify_transfer(below, congestion_control="bbr", slowed_for_loss=True).kind is VerdictKind.RANDOM_LOSS


def test_a_reading_becomes_a_sample() -> None:
    """Values are taken over, `no limit` becomes None and an unmeasured round trip too."""
    raw = bytearray(280)
    raw[112:120] = b"\xff" * 8
    raw[228:232] = (4128).to_bytes(4, "little")
    sample = Sample.from_info(1.5, parse_tcp_info(bytes(raw)), all_written=True)
    assert (sample.at_s, sample.snd_wnd_bytes, sample.all_written) == (1.5, 4128, True)
    assert sample.max_pacing_rate_bytes_per_s is None
    assert sample.min_rtt_us is None
    assert NO_PACING_LIMIT == 2**64 - 1


def test_intervals_are_differences_of_counters() -> None:
    """Rates and shares come from what changed between two samples, empty intervals are left out."""
    flow = flow_of(seconds=2, rate=[0, 1e6, 3e6], busy=0.8, rwnd=0.5)
    first, second = intervals([flow[0], flow[1], flow[1], flow[2]])
    assert (first.rate_bytes_per_s, second.rate_bytes_per_s) == (1e6, 3e6)
    assert second.busy_share == pytest.approx(0.8)
    assert second.rwnd_share == pytest.approx(0.5)
    assert second.mean_in_flight_bytes == pytest.approx(3e5)


def test_only_whole_segments_of_a_small_window_are_usable() -> None:
    """4128 bytes take two segments of 1460, and a window below one segment is used as it is."""
    small, tiny = flow_of(seconds=1, window=4128), flow_of(seconds=1, window=500)
    assert intervals(small)[0].usable_window_bytes == 2920
    assert intervals(tiny)[0].usable_window_bytes == 500


def test_a_pace_that_was_found_in_the_copy_stands_for_the_link() -> None:
    """Reached, it names the link with what it was found to carry, and is called no cap; a given one is a cap."""
    flow = flow_of(rate=5.9e6, max_pacing_rate_bytes_per_s=5_960_000)
    assert classify_transfer(flow, congestion_control="bbr").kind is VerdictKind.CAP
    verdict = classify_transfer(flow, congestion_control="bbr", own_pace=OwnPace(found_link_bytes_per_s=6_080_000))
    assert verdict.kind is VerdictKind.BANDWIDTH
    assert "the link was found to carry 6.08 MB/s and kept just below full, seen 5.9 MB/s" in verdict.sentence
    assert "pace found in the copy 5.96 MB/s" in verdict.evidence


@pytest.mark.parametrize("pace", [5_960_000, 20_000_000])
def test_a_search_that_found_nothing_names_no_link(pace: int) -> None:
    """Reached or not, a pace that is still looked for teaches nothing of the link."""
    flow = flow_of(rate=5.9e6, max_pacing_rate_bytes_per_s=pace)
    verdict = classify_transfer(flow, congestion_control="bbr", own_pace=OwnPace(found_link_bytes_per_s=None))
    assert verdict.kind is VerdictKind.TOO_SHORT


def test_a_full_window_is_the_window_under_a_pace_of_its_own_too() -> None:
    """What was found before the receiver narrowed its window does not hide the window."""
    flow = flow_of(rate=640_000, window=65_535, in_flight=64_240, rwnd=0.9, max_pacing_rate_bytes_per_s=5_960_000)
    verdict = classify_transfer(flow, congestion_control="bbr", own_pace=OwnPace(found_link_bytes_per_s=6_080_000))
    assert verdict.kind is VerdictKind.WINDOW
