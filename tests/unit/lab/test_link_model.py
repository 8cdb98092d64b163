"""The link model is exact: times, drops and losses follow from packets and clock alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError
from lab.link import load_profile, profile_from_json
from lab.link_model import Direction, DirectionProfile

PACKET = b"x" * 1250  # 10,000 bits: 1 ms at 10 Mbit/s


def _direction(**changes: float | None) -> Direction:
    values = {"rate_bps": 10e6, "delay_s": 0.05} | changes
    return Direction(DirectionProfile(**values), seed=1)


def test_a_packet_takes_its_serialisation_and_the_delay() -> None:
    """1250 bytes at 10 Mbit/s and 50 ms arrive after 51 ms, not before."""
    link = _direction()
    link.offer(PACKET, 10.0)
    assert link.next_due_s() == pytest.approx(10.051)
    assert link.due(10.0509) == []
    assert link.due(10.0511) == [PACKET]
    assert link.next_due_s() is None


def test_packets_queue_behind_each_other() -> None:
    """Two packets at once leave one serialisation apart; an idle interface starts at once again."""
    link = _direction()
    link.offer(PACKET, 0.0)
    link.offer(PACKET, 0.0)
    assert len(link.due(0.0515)) == 1
    assert len(link.due(0.0521)) == 1
    link.offer(PACKET, 1.0)
    assert link.next_due_s() == pytest.approx(1.051)


def test_a_full_queue_drops_the_newcomer() -> None:
    """With room for three, the fourth is dropped; when one has left there is room again."""
    link = _direction(queue_packets=3)
    for _ in range(4):
        link.offer(PACKET, 0.0)
    assert link.counters.dropped_packets == 1
    assert link.counters.most_queued_packets == 3
    link.offer(PACKET, 0.0011)
    assert link.counters.dropped_packets == 1
    assert len(link.due(1.0)) == 4


def test_a_queue_may_be_limited_in_bytes() -> None:
    """Room for 2,000 bytes takes one packet of 1,250 and a small one, not two large ones."""
    link = _direction(queue_bytes=2000)
    link.offer(PACKET, 0.0)
    link.offer(PACKET, 0.0)
    link.offer(b"small", 0.0)
    assert link.counters.dropped_packets == 1
    assert link.due(1.0) == [PACKET, b"small"]
    assert link.counters.most_queued_bytes == 1255


def test_loss_is_that_of_the_seed() -> None:
    """The same seed loses the same packets, another seed others; a lost packet has used the interface."""
    lost = [_lost_numbers(seed) for seed in (1, 1, 2)]
    assert lost[0] == lost[1] != lost[2]
    assert 15 < len(lost[0]) < 50
    certain = _direction(loss_ratio=1.0)
    certain.offer(PACKET, 0.0)
    certain.profile = DirectionProfile(rate_bps=10e6, delay_s=0.05)
    certain.offer(PACKET, 0.0)
    assert certain.next_due_s() == pytest.approx(0.052)


def _lost_numbers(seed: int) -> set[int]:
    link = Direction(DirectionProfile(rate_bps=1e9, delay_s=0.0, loss_ratio=0.1), seed=seed)
    for number in range(300):
        link.offer(number.to_bytes(2, "big"), 0.0)
    return set(range(300)) - {int.from_bytes(packet, "big") for packet in link.due(9.0)}


def test_a_shorter_delay_does_not_let_packets_overtake() -> None:
    """A packet offered after the delay was cut arrives no earlier than the one before it."""
    link = _direction()
    link.offer(b"first", 0.0)
    link.profile = DirectionProfile(rate_bps=10e6, delay_s=0.001)
    link.offer(b"second", 0.001)
    assert link.due(0.02) == []
    assert link.due(0.06) == [b"first", b"second"]


@given(
    st.lists(st.tuples(st.integers(20, 1500), st.floats(0, 0.01)), max_size=60),
    st.integers(1, 20),
    st.floats(0, 1),
)
def test_every_packet_is_accounted_for(packets: list[tuple[int, float]], room: int, loss_ratio: float) -> None:
    """Offered = delivered + lost + dropped once all have arrived, and order is kept."""
    link = Direction(DirectionProfile(rate_bps=1e6, delay_s=0.02, loss_ratio=loss_ratio, queue_packets=room), seed=7)
    now_s = 0.0
    for number, (size, gap_s) in enumerate(packets):
        now_s += gap_s
        link.offer(number.to_bytes(size, "big"), now_s)
    numbers = [int.from_bytes(packet, "big") for packet in link.due(now_s + 60)]
    counters = link.counters
    assert numbers == sorted(numbers)
    assert counters.offered_packets == len(packets)
    assert counters.delivered_packets + counters.lost_packets + counters.dropped_packets == len(packets)


def test_the_published_profile_is_the_published_one() -> None:
    """50 ms each way, 0.01 %, 50,000 kbit/s, in both directions."""
    profile = load_profile("published")
    assert profile.to_site == profile.to_core
    assert (profile.to_site.rate_bps, profile.to_site.delay_s) == (50e6, 0.05)
    assert profile.to_site.loss_ratio == pytest.approx(0.0001)
    assert profile.rtt_s == pytest.approx(0.1)
    assert profile_from_json(profile.as_json()) == profile


def test_changes_of_a_profile() -> None:
    """A change holds for both directions or for one; an unknown one names those there are."""
    profile = load_profile("lan")
    changed = profile.with_changes({"loss_ratio": 0.5, "to_core": {"loss_ratio": 0.0}})
    assert (changed.to_site.loss_ratio, changed.to_core.loss_ratio) == (0.5, 0.0)
    with pytest.raises(LabError, match=r"delay.*rate_bps, delay_s"):
        profile.with_changes({"delay": 1})
