"""Verdicts where somebody knows what the link carries, and on receivers that a full link had been taken for."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.tcp.sample import Sample, intervals
from flashferry.tcp.transfer_summary import LINK_IS_FULL
from flashferry.tcp.verdict import KnownLink, OwnPace, VerdictKind, classify_transfer
from tests.unit.tcp.flows import flow_of

_CAPTURE = json.loads((Path(__file__).parents[2] / "captures" / "slow_receivers.json").read_text(encoding="utf-8"))
_FLOWS = {flow["name"]: flow for flow in _CAPTURE["flows"]}
_DSL = KnownLink(bytes_per_s=16e6 / 8 * 1460 / 1500)
_FULL_AT = re.compile(r"the link was (?:full at|found to carry) ([\d.,]+) MB/s")


def _samples(flow: dict[str, Any]) -> list[Sample]:
    return [Sample(**dict(zip(_CAPTURE["fields"], row, strict=True))) for row in flow["readings"]]


def _pace_of(flow: dict[str, Any]) -> OwnPace | None:
    found = flow["found_link_bytes_per_s"]
    return None if found is None else OwnPace(found_link_bytes_per_s=found)


def _link_of(flow: dict[str, Any]) -> KnownLink:
    return KnownLink(bytes_per_s=flow["link_rate_bps"] / 8 * 1460 / 1500)


@pytest.mark.parametrize("is_known", [True, False], ids=["rate stated", "readings alone"])
@pytest.mark.parametrize("name", _FLOWS)
def test_a_slow_reader_is_no_full_link(name: str, is_known: bool) -> None:
    """A reader that is slower than the link is named for most of the time, whether or not the link's rate is known."""
    flow = _FLOWS[name]
    link = _link_of(flow) if is_known else None
    control = flow["congestion_control"]
    verdict = classify_transfer(_samples(flow), congestion_control=control, own_pace=_pace_of(flow), link=link)
    assert verdict.kind is VerdictKind.SLOW_RECEIVER
    assert verdict.share > 0.7


@pytest.mark.parametrize("name", _FLOWS)
@pytest.mark.parametrize("control", ["bbr", "cubic"])
def test_no_part_of_a_slow_copy_is_put_down_to_a_link_that_is_known(name: str, control: str) -> None:
    """The time by cause has none of the link's, and the evidence names its rate."""
    flow = _FLOWS[name]
    link = _link_of(flow)
    verdict = classify_transfer(_samples(flow), congestion_control=control, own_pace=_pace_of(flow), link=link)
    assert verdict.evidence[-1].startswith("time by cause: slow receiver")
    assert "bandwidth" not in verdict.evidence[-1]
    assert f"link known to carry {link.bytes_per_s / 1e6:.3g} MB/s" in verdict.evidence


def test_a_late_reader_is_told_by_the_readings_alone() -> None:
    """The window stops the sender for a third of the time and is half full on average: no queue fills it."""
    late = flow_of(rate=6e5, rtt_ms=60, least_ms=28, window=66_000, in_flight=36_000, rwnd=0.4)
    assert classify_transfer(late, congestion_control="bbr").kind is VerdictKind.SLOW_RECEIVER


def test_a_queue_that_fills_the_window_stays_a_full_link() -> None:
    """On average the window is full then; the kernel's own share of time is the same as with a late reader."""
    full = flow_of(rate=1.8e6, rtt_ms=36, least_ms=28, window=66_000, in_flight=64_000, rwnd=0.4)
    for link in (None, _DSL):
        assert classify_transfer(full, congestion_control="bbr", link=link).kind is VerdictKind.BANDWIDTH


def test_a_late_reader_under_a_pace_of_the_copy_s_own_is_no_link() -> None:
    """What the copy held to be the link was its receiver: a pace that was reached proves nothing beside its window."""
    late = flow_of(
        rate=6e5, rtt_ms=60, least_ms=28, window=66_000, in_flight=36_000, rwnd=0.4, max_pacing_rate_bytes_per_s=610_000
    )
    pace = OwnPace(found_link_bytes_per_s=620_000)
    assert classify_transfer(late, congestion_control="bbr", own_pace=pace).kind is VerdictKind.SLOW_RECEIVER


def test_a_pace_above_an_unread_buffer_is_no_link() -> None:
    """Where the pace holds the copy, the window is hardly ever closed: what lies unread in the buffer tells."""
    windows = [700_000, 500_000, 200_000, *[70_000] * 8]
    late = flow_of(rate=6e5, rtt_ms=60, least_ms=28, window=windows, rwnd=0.1, max_pacing_rate_bytes_per_s=610_000)
    pace = OwnPace(found_link_bytes_per_s=620_000)
    assert classify_transfer(late, congestion_control="bbr", own_pace=pace).kind is VerdictKind.SLOW_RECEIVER
    # A link that is known to carry no more is full all the same.
    known = KnownLink(bytes_per_s=620_000)
    assert classify_transfer(late, congestion_control="bbr", own_pace=pace, link=known).kind is VerdictKind.BANDWIDTH


def test_probes_of_a_closed_window_are_no_losses() -> None:
    """A few bytes sent again take far less time than the window was closed for, so that no hole closed it."""
    windows = [64_240, 0, 64_240, 64_240, 0, *[64_240] * 6]
    probed = flow_of(rate=9.8e5, rtt_ms=1.6, least_ms=0.7, window=windows, in_flight=64_240, rwnd=0.65, again=0.022)
    assert classify_transfer(probed, congestion_control="bbr").kind is VerdictKind.SLOW_RECEIVER


def test_what_drops_at_the_link_s_own_rate_is_the_link() -> None:
    """Bursts behind a short queue look like a policer's; with a rate that is used up there is no doubt."""
    short = flow_of(rate=2.37e6, rtt_ms=41.8, least_ms=40.1, again=0.012)
    assert classify_transfer(short, congestion_control="cubic").kind is VerdictKind.POLICER
    full, roomy = KnownLink(bytes_per_s=2.43e6), KnownLink(bytes_per_s=6.08e6)
    assert classify_transfer(short, congestion_control="cubic", link=full).kind is VerdictKind.BANDWIDTH
    assert classify_transfer(short, congestion_control="cubic", link=roomy).kind is VerdictKind.POLICER


def test_a_full_and_steady_window_is_told_by_the_link_s_rate() -> None:
    """Nothing but the rate tells a receiver that acknowledges late from a queue behind a window that is full."""
    steady = flow_of(rate=6e5, rtt_ms=107, least_ms=28, window=64_240, in_flight=64_240, rwnd=0.9)
    assert classify_transfer(steady, congestion_control="cubic").kind is VerdictKind.BANDWIDTH
    told = classify_transfer(steady, congestion_control="cubic", link=_DSL)
    assert told.kind is VerdictKind.SLOW_RECEIVER
    assert (
        classify_transfer(steady, congestion_control="cubic", link=KnownLink(bytes_per_s=6.2e5)).kind
        is VerdictKind.BANDWIDTH
    )


def test_a_queue_on_a_link_with_room_is_somebody_else_s() -> None:
    """With an open window and nothing lost the verdict says what is known of the link, and that there is a queue."""
    queued = flow_of(rate=6e5, rtt_ms=60, least_ms=28)
    verdict = classify_transfer(queued, congestion_control="bbr", link=_DSL)
    assert verdict.kind is VerdictKind.UNKNOWN
    assert verdict.sentence == (
        "Unknown, 100% of the time: no cause found at 0.6 MB/s: the link carries 1.95 MB/s, and yet round trips of "
        "60 ms against 28 ms at least show a queue: other traffic, a device in between, or a link that is slower than "
        "is known."
    )


def test_an_even_rate_below_the_link_with_losses_is_a_policer_under_bbr() -> None:
    """BBR does not slow down on losses: by the readings alone the policer is the link, with its rate it is not."""
    policed = flow_of(rate=1.2e6, rtt_ms=41, least_ms=40, again=0.03)
    assert classify_transfer(policed, congestion_control="bbr").kind is VerdictKind.BANDWIDTH
    verdict = classify_transfer(policed, congestion_control="bbr", link=KnownLink(bytes_per_s=6.08e6))
    assert verdict.kind is VerdictKind.POLICER
    assert verdict.sentence.endswith("at an even 1.2 MB/s: a policer.")


def test_what_our_other_copies_had_is_part_of_a_full_link() -> None:
    """A quarter of a link that four copies fill is a full link, and the sentence says so."""
    quarter = flow_of(rate=4.8e5, rtt_ms=60, least_ms=28)
    link = KnownLink(bytes_per_s=1.95e6, beside_bytes_per_s=1.44e6)
    verdict = classify_transfer(quarter, congestion_control="bbr", link=link)
    assert verdict.kind is VerdictKind.BANDWIDTH
    assert "the link was full at 0.48 MB/s beside 1.44 MB/s of our other copies" in verdict.sentence


def test_a_slow_start_is_told_beside_the_rate_while_the_link_was_full() -> None:
    """The figure in the sentence is that of the time in which the link was full, not of the whole copy."""
    rising = [0, *[2e5] * 4, *[1.9e6] * 6]
    verdict = classify_transfer(flow_of(rate=rising, rtt_ms=60, least_ms=28), congestion_control="bbr", link=_DSL)
    assert verdict.kind is VerdictKind.BANDWIDTH
    assert "the link was full at 1.9 MB/s (1.22 MB/s on the whole), round trip" in verdict.sentence


@pytest.mark.parametrize("values", [{"bytes_per_s": 0.0}, {"bytes_per_s": 1.0, "beside_bytes_per_s": -1.0}])
def test_a_link_without_sense_is_refused(values: dict[str, float]) -> None:
    """A link carries something, and nobody has less than nothing of it."""
    with pytest.raises(ValueError, match="expected a link's rate > 0"):
        KnownLink(**values)


_READING = st.fixed_dictionaries(
    {
        "gap_s": st.floats(0.2, 2.0),
        "acked": st.integers(0, 4_000_000),
        "rtt_us": st.integers(500, 700_000),
        "unacked_segments": st.integers(0, 3000),
        "snd_wnd_bytes": st.one_of(st.none(), st.integers(0, 4_000_000)),
        "busy": st.floats(0.0, 1.0),
        "rwnd": st.floats(0.0, 1.0),
        "again": st.integers(0, 200_000),
        "app_limited": st.booleans(),
        "probes": st.sampled_from([0, 0, 0, 1]),
        "max_pacing_rate_bytes_per_s": st.one_of(st.none(), st.integers(1000, 10_000_000)),
    }
)


def _flow(readings: list[dict[str, Any]], min_rtt_us: int, mss_bytes: int, sack: bool | None) -> list[Sample]:
    at_s, acked, sent, again, busy, rwnd, found = 0.0, 0, 0, 0, 0.0, 0.0, []
    for each in readings:
        at_s += each["gap_s"]
        acked += each["acked"]
        again += each["again"]
        sent += each["acked"] + each["again"]
        busy += each["busy"] * each["gap_s"]
        rwnd += each["rwnd"] * each["busy"] * each["gap_s"]
        given = ("rtt_us", "unacked_segments", "snd_wnd_bytes", "app_limited", "probes", "max_pacing_rate_bytes_per_s")
        found.append(
            Sample(
                at_s=at_s,
                snd_mss_bytes=mss_bytes,
                snd_cwnd_segments=100,
                bytes_acked=acked,
                bytes_sent=sent,
                bytes_retrans=again,
                min_rtt_us=min_rtt_us,
                notsent_bytes=400_000,
                busy_time_us=int(busy * 1e6),
                rwnd_limited_us=int(rwnd * 1e6),
                sndbuf_limited_us=0,
                sack=sack,
                **{name: each[name] for name in given},
            )
        )
    return found


@given(
    readings=st.lists(_READING, min_size=5, max_size=20),
    min_rtt_us=st.integers(500, 300_000),
    mss_bytes=st.sampled_from([536, 1448, 1460]),
    sack=st.sampled_from([True, False, None]),
    control=st.sampled_from(["bbr", "cubic"]),
    pace=st.one_of(st.none(), st.builds(OwnPace, found_link_bytes_per_s=st.none() | st.integers(1000, 20_000_000))),
    slowed=st.booleans(),
    carries=st.floats(1e4, 2e7),
    beside=st.floats(0.0, 1.0),
)
def test_no_readings_make_a_link_full_below_80_percent_of_its_known_rate(
    readings: list[dict[str, Any]],
    min_rtt_us: int,
    mss_bytes: int,
    sack: bool | None,
    control: str,
    pace: OwnPace | None,
    slowed: bool,
    carries: float,
    beside: float,
) -> None:
    """Whatever is read: where the link is the verdict, the rate that is named was 80 % of what it carries at least."""
    samples = _flow(readings, min_rtt_us, mss_bytes, sack)
    link = KnownLink(bytes_per_s=carries, beside_bytes_per_s=beside * carries)
    verdict = classify_transfer(samples, congestion_control=control, own_pace=pace, slowed_for_loss=slowed, link=link)
    least = LINK_IS_FULL * carries - link.beside_bytes_per_s
    fastest = max(span.rate_bytes_per_s for span in intervals(samples))
    if verdict.kind is VerdictKind.BANDWIDTH:
        told = _FULL_AT.search(verdict.sentence)
        assert told is not None
        # Three digits are printed.
        assert float(told[1].replace(",", "")) * 1e6 >= min(least, LINK_IS_FULL * carries) * 0.994
        assert fastest >= least
    elif fastest < least:
        assert "the link was" not in verdict.sentence
        assert not re.search(r"time by cause:.*bandwidth", " ".join(verdict.evidence))
