"""A link's rate, learned from transfers: what counts, what is added, and when it ends."""

import pytest

from flashferry.tcp.link_rate import MAX_AGE_S, Delivery, LearnedRate, learned_rate, sustained_bytes_per_s
from flashferry.tcp.sample import Sample
from flashferry.tcp.verdict_rules import VerdictKind

NOW_S = 1_000_000.0
_WITH_HEADERS = 8 * 1500 / 1460


def _delivery(rate: float, kind: VerdictKind = VerdictKind.BANDWIDTH, **more: object) -> Delivery:
    values = {
        "ended_at": NOW_S - 3600,
        "duration_s": 60.0,
        "rate_bytes_per_s": rate,
        "sustained_bytes_per_s": rate,
        "mss_bytes": 1460,
        "peer_address": "192.0.2.1",
    }
    return Delivery(kind=kind, **(values | more))


def _samples(*points: tuple[float, int]) -> list[Sample]:
    return [
        Sample(at_s=at_s, rtt_us=1, snd_mss_bytes=1460, snd_cwnd_segments=10, unacked_segments=0, bytes_acked=acked)
        for at_s, acked in points
    ]


def _learned(*deliveries: Delivery) -> float | None:
    found = learned_rate(deliveries, NOW_S)
    return None if found is None else pytest.approx(found.rate_bps / _WITH_HEADERS)


@pytest.mark.parametrize("kind", VerdictKind)
def test_only_what_the_link_held_back_begins_an_estimate(kind: VerdictKind) -> None:
    """Bandwidth and policer show the link; window, loss, flash, server, a cap or a short transfer do not."""
    expected = 5e6 if kind in (VerdictKind.BANDWIDTH, VerdictKind.POLICER) else None
    assert _learned(_delivery(5e6, kind)) == expected


def test_the_highest_of_late_counts() -> None:
    """A slower transfer shared the link with something else; a faster one a week ago is over."""
    old = _delivery(9e6, ended_at=NOW_S - MAX_AGE_S - 1)
    assert _learned(_delivery(4e6), _delivery(5e6, ended_at=NOW_S - 60), old) == 5e6
    assert learned_rate([old], NOW_S) is None
    assert learned_rate([_delivery(5e6, ended_at=NOW_S + 60)], NOW_S) is None


def test_a_cap_raises_an_estimate_and_never_begins_one() -> None:
    """Transfers under 80 % of the estimate leave it where it is; when it has aged they leave nothing behind."""
    capped = [_delivery(4e6, VerdictKind.CAP, ended_at=NOW_S - day * 86400) for day in range(6)]
    assert _learned(_delivery(5e6), *capped) == 5e6
    assert _learned(_delivery(5e6), _delivery(6e6, VerdictKind.CAP, ended_at=NOW_S - 60)) == 6e6
    assert learned_rate(capped, NOW_S) is None


def test_copies_side_by_side_are_added() -> None:
    """Three copies at once that got a third each show the whole link, whatever limited the others."""
    thirds = [_delivery(2e6), _delivery(2e6), _delivery(2e6, VerdictKind.WINDOW)]
    assert _learned(*thirds) == 6e6
    after = _delivery(2e6, ended_at=NOW_S - 1800)
    assert _learned(thirds[0], after) == 2e6


def test_a_copy_mostly_elsewhere_in_time_is_not_added() -> None:
    """Its mean rate is that of being alone, and would make the link look faster than it is."""
    long = _delivery(6e6, VerdictKind.WINDOW, duration_s=3000.0, ended_at=NOW_S - 600)
    assert _learned(_delivery(3e6), long) == 3e6


def test_start_up_is_no_rate_of_the_link() -> None:
    """The best five seconds count: neither the slow start nor the last trickle."""
    points = [(0.0, 0), (1.0, 100), (2.0, 500)] + [(2.0 + n, 500 + 1000 * n) for n in range(1, 9)] + [(20.0, 8600)]
    assert sustained_bytes_per_s(_samples(*points)) == pytest.approx(1000)


def test_too_short_is_not_sustained() -> None:
    """Less than five seconds, or no sample at all, is no rate."""
    assert sustained_bytes_per_s(_samples((0.0, 0), (4.9, 10**9))) is None
    assert sustained_bytes_per_s([]) is None
    assert learned_rate([_delivery(5e6, sustained_bytes_per_s=None)], NOW_S) is None


@pytest.mark.parametrize(
    ("age_s", "words"), [(40, "40 s"), (200, "3 min"), (10_800, "3 h"), (3 * 86400, "3 days"), (-5, "0 s")]
)
def test_age_and_source_are_told(age_s: float, words: str) -> None:
    """Rate, age, client and verdict stand in one phrase."""
    rate = LearnedRate(rate_bps=48.2e6, learned_at=NOW_S - age_s, peer_address="192.0.2.9", kind=VerdictKind.BANDWIDTH)
    assert rate.describe(NOW_S) == f"48.2 Mbit/s, learned {words} ago from 192.0.2.9 (verdict bandwidth)"


@pytest.mark.parametrize("wrong", [{"duration_s": 0.0}, {"mss_bytes": 0}])
def test_an_impossible_delivery_is_refused(wrong: dict[str, float]) -> None:
    """What would divide by zero later does not come into being."""
    with pytest.raises(ValueError, match="expected a duration and a segment size > 0"):
        _delivery(1.0, **wrong)
