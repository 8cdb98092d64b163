"""What is evidence of a path, on readings made by hand: 100 ms, 2 MB/s, a look every 20 ms."""

from __future__ import annotations

import pytest

from flashferry.tcp.path_estimator import PathEstimate, PathReading
from tests.unit.tcp.path_model import MSS_BYTES

_RATE, _LOOK_S, _RTT_S = 2e6, 0.02, 0.1


class _Seen:
    """A sight, and the readings that it takes."""

    def __init__(self) -> None:
        self.sight, self.at_s, self.sent, self.delivered = PathEstimate(), 0.0, 0.0, 0.0

    def look(self, *, arrived: float = _RATE * _LOOK_S, after_s: float = _LOOK_S) -> PathReading:
        """Let time pass in which the sender sends at its rate."""
        self.at_s += after_s
        self.sent += _RATE * after_s
        self.delivered += arrived
        reading = PathReading(
            at_s=self.at_s, rtt_s=_RTT_S, base_rtt_s=_RTT_S, delivered_bytes=int(self.delivered),
            sent_bytes=int(self.sent), again_bytes=0, mss_bytes=MSS_BYTES,
        )  # fmt: skip
        self.sight.take(reading, _LOOK_S)
        return reading

    def flow(self, looks: int = 50) -> PathReading:
        """Let it flow evenly."""
        for _ in range(looks):
            reading = self.look()
            assert not self.sight.is_disturbed
        return reading


def test_a_late_look_is_no_evidence_for_a_round_trip() -> None:
    """Our own process waited; a tenth of a second later all is as it was."""
    seen = _Seen()
    seen.flow()
    seen.look(after_s=0.12, arrived=_RATE * 0.12)
    assert seen.sight.is_late
    assert seen.sight.is_disturbed
    for _ in range(6):
        seen.look()
    assert not seen.sight.is_late
    assert not seen.sight.is_disturbed


def test_a_silence_on_the_way_is_no_evidence_either() -> None:
    """Nothing for 60 ms, then all of it: neither rate nor round-trip time of that burst is the link's."""
    seen = _Seen()
    seen.flow()
    for _ in range(3):
        seen.look(arrived=0)
    assert seen.sight.is_disturbed
    burst = seen.look(arrived=4 * _RATE * _LOOK_S)
    assert seen.sight.is_disturbed
    assert seen.sight.rate(burst, _LOOK_S) <= 1.1 * _RATE
    assert seen.sight.cautious_rate(burst, _LOOK_S) == pytest.approx(_RATE, rel=0.05)
    for _ in range(6):
        seen.look()
    assert not seen.sight.is_disturbed


def test_a_link_that_lost_most_of_its_rate_for_good_is_evidence_again() -> None:
    """Less than a quarter looks like a silence at first, and a second later like a slow link."""
    seen = _Seen()
    seen.flow()
    for _ in range(50):
        reading = seen.look(arrived=0.15 * _RATE * _LOOK_S)
    assert not seen.sight.is_disturbed
    assert seen.sight.rate(reading, 0.2) == pytest.approx(0.15 * _RATE, rel=0.05)


def test_a_smoothed_round_trip_time_is_fresh_only_after_some_acknowledgements() -> None:
    """A starved sender sends a few segments: what they show half a second after a delay is still the delay."""
    seen = _Seen()
    seen.flow()
    for _ in range(10):
        seen.look(arrived=0)
    for _ in range(20):
        seen.look(arrived=MSS_BYTES)
    assert seen.sight.is_disturbed
    for _ in range(10):
        seen.look()
    assert not seen.sight.is_disturbed
