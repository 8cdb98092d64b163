"""Rate models against published figures."""

import math

import pytest

from flashferry.tcp.models import (
    cubic_bytes_per_s,
    predicted_bytes_per_s,
    predicted_seconds,
    reno_bytes_per_s,
    repair_bytes_per_s,
    window_limited_bytes_per_s,
)


@pytest.mark.parametrize(
    ("loss", "segments"), [(1e-2, 12), (1e-3, 38), (1e-4, 120), (1e-5, 379)], ids=["1e-2", "1e-3", "1e-4", "1e-5"]
)
def test_reno_matches_rfc_3649(loss: float, segments: int) -> None:
    """The table of RFC 3649 section 2: average window in segments by loss rate."""
    assert reno_bytes_per_s(loss, 0.1, 1460) * 0.1 / 1460 == pytest.approx(segments, rel=0.02)


@pytest.mark.parametrize(
    ("loss", "segments"), [(1e-2, 12), (1e-3, 38), (1e-4, 187), (1e-5, 1054)], ids=["1e-2", "1e-3", "1e-4", "1e-5"]
)
def test_cubic_matches_rfc_9438_at_100_ms(loss: float, segments: int) -> None:
    """The table of RFC 9438 section 5.1: average window in segments by loss rate, Reno's at high loss."""
    assert cubic_bytes_per_s(loss, 0.1, 1460) * 0.1 / 1460 == pytest.approx(segments, rel=0.02)


def test_the_published_figures_come_out() -> None:
    """A 4128-byte window and CUBIC at 0.01 % loss give 0.041 and 2.7 MB/s at 100 ms."""
    assert window_limited_bytes_per_s(4128, 0.1) == pytest.approx(41_280)
    assert cubic_bytes_per_s(1e-4, 0.1, 1460) == pytest.approx(2.7e6, rel=0.02)


def test_without_loss_there_is_no_ceiling_from_it() -> None:
    """Both models are infinite at zero loss."""
    assert reno_bytes_per_s(0, 0.1, 1460) == math.inf
    assert cubic_bytes_per_s(0, 0.1, 1460) == math.inf


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"window_bytes": 15_000}, 150_000, id="window"),
        pytest.param({"window_bytes": 2_500_000, "loss": 1e-4}, 2_735_000, id="cubic"),
        pytest.param({"window_bytes": 2_500_000, "loss": 1e-4, "congestion_control": "reno"}, 1_752_000, id="reno"),
        pytest.param({"loss": 1e-4, "congestion_control": "bbr", "link_rate_bps": 50e6}, 6_250_000, id="bbr-link"),
        pytest.param(
            {"congestion_control": "bbr", "link_rate_bps": 50e6, "cap_bytes_per_s": 5_500_000}, 5_500_000, id="cap"
        ),
        pytest.param({}, math.inf, id="nothing-known"),
    ],
)
def test_the_least_ceiling_holds(arguments: dict[str, float], expected: float) -> None:
    """The prediction is the minimum of all ceilings that are known."""
    assert predicted_bytes_per_s(rtt_s=0.1, **arguments) == pytest.approx(expected, rel=0.002)  # type: ignore[arg-type]


def test_without_sack_a_hole_costs_a_round_trip() -> None:
    """One loss in a hundred segments lets a hundred pass per round trip; without loss there is no ceiling."""
    assert repair_bytes_per_s(0.01, 0.1, 1460) == pytest.approx(1.46e6)
    assert repair_bytes_per_s(0, 0.1, 1460) == math.inf


def test_a_size_takes_its_time_and_one_round_trip() -> None:
    """540 MB at 0.15 MB/s take an hour; an endless rate still takes a round trip."""
    assert predicted_seconds(540_000_000, 150_000, 0.1) == pytest.approx(3600.1)
    assert predicted_seconds(1, math.inf, 0.1) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("loss", "rtt_s", "mss"), [(-0.1, 0.1, 1460), (1, 0.1, 1460), (0.1, 0, 1460), (0.1, math.inf, 1460), (0.1, 0.1, 0)]
)
def test_models_refuse_what_cannot_be(loss: float, rtt_s: float, mss: int) -> None:
    """Loss outside 0 to 1, or no round trip or segment size, is an error in every model of loss."""
    for model in (reno_bytes_per_s, cubic_bytes_per_s, repair_bytes_per_s):
        with pytest.raises(ValueError, match="expected"):
            model(loss, rtt_s, mss)


@pytest.mark.parametrize(("size", "rate", "rtt"), [(-1, 1, 0), (1, 0, 0), (1, math.nan, 0), (1, 1, -1)])
def test_predicted_seconds_refuses_what_cannot_be(size: int, rate: float, rtt: float) -> None:
    """A negative size, no rate, or a negative round trip is an error."""
    with pytest.raises(ValueError, match="expected size >= 0"):
        predicted_seconds(size, rate, rtt)
