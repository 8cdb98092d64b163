"""The link model is exact: times, drops and losses follow from packets and clock alone."""

import math
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.lab.errors import LabError, Table, data_names
from flashferry.lab.link import Direction, DirectionProfile, NodePolicer, load_profile, profile_from_json
from tests.some import some

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
    assert link.next_due_s() == math.inf


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


def _arrivals(profile: DirectionProfile, *, gap_s: float, count: int = 200) -> list[tuple[float, int]]:
    """Offer numbered packets at even gaps; return when each arrived, to 0.1 ms, in the order of arrival."""
    link, seen = Direction(profile, seed=3), []
    for step in range(int((count * gap_s + 1) / 1e-4)):
        now_s = step * 1e-4
        if step % round(gap_s / 1e-4) == 0 and step // round(gap_s / 1e-4) < count:
            link.offer((step // round(gap_s / 1e-4)).to_bytes(2, "big"), now_s)
        seen += [(now_s, int.from_bytes(packet, "big")) for packet in link.due(now_s)]
    return seen


def test_jitter_spreads_the_delay_and_keeps_the_order() -> None:
    """Sparse packets take 20 ms plus or minus 5, each its own; dense ones keep the bounds and never overtake."""
    profile = DirectionProfile(rate_bps=1e9, delay_s=0.02, jitter_s=0.005)
    sparse = _arrivals(profile, gap_s=0.02)
    delays = [at_s - number * 0.02 for at_s, number in sparse]
    assert 0.015 <= min(delays) < 0.016
    assert 0.024 < max(delays) <= 0.0252
    assert abs(sum(delays) / len(delays) - 0.02) < 0.001
    dense = _arrivals(profile, gap_s=0.001)
    assert [number for _, number in dense] == list(range(200))
    assert all(0.0149 <= at_s - number * 0.001 <= 0.0252 for at_s, number in some(dense))


def test_switching_jitter_on_loses_the_same_packets() -> None:
    """Jitter has a generator of its own."""
    plain = DirectionProfile(rate_bps=1e9, delay_s=0.02, loss_ratio=0.1)
    shaky = DirectionProfile(rate_bps=1e9, delay_s=0.02, loss_ratio=0.1, jitter_s=0.01)
    survivors = [{number for _, number in _arrivals(each, gap_s=0.001)} for each in (plain, shaky)]
    assert survivors[0] == survivors[1]
    assert 150 < len(survivors[0]) < 200


def _loss_pattern(profile: DirectionProfile, count: int, *, seed: int = 5) -> str:
    """Return a letter per packet: `x` where it was lost."""
    link = Direction(profile, seed=seed)
    for number in range(count):
        link.offer(number.to_bytes(3, "big"), 0.0)
    arrived = {int.from_bytes(packet, "big") for packet in link.due(99.0)}
    return "".join("." if number in arrived else "x" for number in range(count))


def test_losses_come_in_bursts() -> None:
    """Bursts are as frequent and as long on average as asked for, whole where all is lost, and those of the seed."""
    profile = DirectionProfile(
        rate_bps=1e12, delay_s=0.0, burst_enter_ratio=0.01, burst_leave_ratio=0.25, burst_loss_ratio=1.0
    )
    pattern = _loss_pattern(profile, 40_000)
    bursts = [run for run in pattern.split(".") if run]
    assert sum(map(len, bursts)) / len(bursts) == pytest.approx(4, rel=0.1)
    assert pattern.count("x") / len(pattern) == pytest.approx(profile.mean_loss_ratio, rel=0.1)
    assert profile.mean_loss_ratio == pytest.approx(0.01 / 0.26)
    assert pattern == _loss_pattern(profile, 40_000)
    assert pattern != _loss_pattern(profile, 40_000, seed=6)


def test_a_burst_need_not_lose_everything() -> None:
    """Half of a bad state's packets are lost, and some in the good state too; the bursts are counted."""
    link = Direction(
        DirectionProfile(
            rate_bps=1e12, delay_s=0.0, loss_ratio=0.02,
            burst_enter_ratio=0.05, burst_leave_ratio=0.05, burst_loss_ratio=0.5,
        ),
        seed=1,
    )  # fmt: skip
    for _ in range(20_000):
        link.offer(b"x", 0.0)
    assert link.counters.lost_packets / 20_000 == pytest.approx(0.26, rel=0.1)
    assert link.counters.lost_bursts == pytest.approx(500, rel=0.2)


def test_a_policer_lets_its_rate_pass_and_a_burst() -> None:
    """A full bucket of four packets passes four at once; after that one per refill, and nothing is queued."""
    link = _direction(rate_bps=1e9, policer_rate_bps=10e6, policer_burst_bytes=5000)
    for _ in range(6):
        link.offer(PACKET, 0.0)
    assert link.counters.policed_packets == 2
    link.offer(PACKET, 0.0009)
    assert link.counters.policed_packets == 3
    link.offer(PACKET, 0.0011)
    assert link.counters.policed_packets == 3
    assert len(link.due(0.1)) == 5
    assert link.counters.dropped_packets == 0


def test_a_policer_can_be_switched_while_packets_flow() -> None:
    """Without it everything passes again; when it comes back it polices anew."""
    link = _direction(rate_bps=1e9, policer_rate_bps=1e6, policer_burst_bytes=1500)
    policed = link.profile
    link.offer(PACKET, 0.0)
    link.offer(PACKET, 0.0)
    link.profile = DirectionProfile(rate_bps=1e9, delay_s=0.05)
    link.offer(PACKET, 0.0)
    assert link.counters.policed_packets == 1
    link.profile = policed
    link.offer(PACKET, 0.0)
    assert link.counters.policed_packets == 2


@given(
    st.lists(st.tuples(st.integers(20, 1500), st.floats(0, 0.01)), max_size=60),
    st.integers(1, 20),
    st.floats(0, 1),
    st.floats(0, 0.02),
)
def test_every_packet_is_accounted_for(
    packets: list[tuple[int, float]], room: int, loss_ratio: float, jitter_s: float
) -> None:
    """Offered = delivered + lost + dropped + policed once all have arrived, and order is kept."""
    profile = DirectionProfile(
        rate_bps=1e6, delay_s=0.02, jitter_s=jitter_s, loss_ratio=loss_ratio, burst_enter_ratio=loss_ratio / 2,
        burst_leave_ratio=0.5, policer_rate_bps=2e6, policer_burst_bytes=9000, queue_packets=room,
    )  # fmt: skip
    link = Direction(profile, seed=7)
    now_s = 0.0
    for number, (size, gap_s) in enumerate(packets):
        now_s += gap_s
        link.offer(number.to_bytes(size, "big"), now_s)
    numbers = [int.from_bytes(packet, "big") for packet in link.due(now_s + 60)]
    counters = link.counters
    assert numbers == sorted(numbers)
    assert counters.offered_packets == len(packets)
    gone = counters.lost_packets + counters.dropped_packets + counters.policed_packets
    assert counters.delivered_packets + gone == len(packets)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss_ratio": 2}, r"to_site: loss_ratio: expected a number from 0 to 1, found 2"),
        ({"rate_bps": 0}, "rate_bps: expected a number from 1000"),
        ({"delay_s": "50 ms"}, "delay_s: expected a number from 0 to 10, found '50 ms'"),
        ({"delay_s": None}, "delay_s: expected a number from 0 to 10, found None"),
        ({"queue_packets": 1.5}, "queue_packets: expected a whole number from 1 .* None for none, found 1.5"),
        ({"burst_loss_ratio": True}, "burst_loss_ratio: expected a number"),
        ({"to_core": {"jitter_s": 1}}, "to_core: jitter_s: expected at most the delay"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(changes: dict[str, object], message: str) -> None:
    """Direction, field, what is allowed and what was found are named."""
    with pytest.raises(LabError, match=message):
        load_profile("published").with_changes(changes)


def test_limits_are_taken_away_by_none() -> None:
    """A queue's limit and a policer end with None."""
    changed = load_profile("policed").with_changes({"policer_rate_bps": None, "queue_packets": None})
    assert changed.rate_bps == 100e6
    assert changed.to_site.queue_packets is None


def test_every_profile_of_the_lab_loads_and_names_its_source() -> None:
    """All that are promised are there, each describes itself in a line."""
    names = data_names("flashferry.lab.profiles")
    assert set(names) >= {"published", "lan", "dsl", "satellite", "intercontinental", "policed"}
    assert all(load_profile(name).source for name in some(names))
    assert load_profile("dsl").describe() == "RTT 30 ms, 16 Mbit/s down, 1 up, jitter 2 ms, loss 0.01 %"
    assert "policed to 20 Mbit/s" in load_profile("policed").describe()
    assert "in bursts" in load_profile("satellite").describe()


FILE = """
source = "a test"
delay_ms = 10
rate_kbit_s = 2000
[to_core]
rate_kbit_s = 500
"""


def test_a_profile_of_the_users_own(tmp_path: Path) -> None:
    """A path is read as a file; overrides count more than the file, one way's more than those for both."""
    (tmp_path / "mine.toml").write_text(FILE)
    overrides = Table(where="w.toml: link", values={"delay_ms": 20, "to_site": {"delay_ms": 30}})
    profile = load_profile("mine.toml", overrides=overrides, base=tmp_path)
    assert profile.name == "mine"
    assert (profile.to_site.rate_bps, profile.to_core.rate_bps) == (2e6, 5e5)
    assert (profile.to_site.delay_s, profile.to_core.delay_s) == (0.03, 0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.replace("500", "-1"), r"mine\.toml: to_core: rate_kbit_s: expected a number from 1 to 1e\+08, found -1"),
        (FILE.replace("delay_ms = 10", ""), r"mine\.toml: the key 'delay_ms' is missing"),
        (FILE + "colour = 1", r"mine\.toml: to_core: unknown key 'colour'; allowed are .*delay_ms"),
        (FILE.replace("delay_ms", "jitter_ms = 11\ndelay_ms"), "jitter_s: expected at most the delay"),
        ("source =", r"mine\.toml: not valid TOML"),
        (None, r"mine\.toml: No such file or directory; give the path of a TOML file"),
    ],
)
def test_a_wrong_profile_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    """File and key are named, and what is allowed."""
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(LabError, match=message):
        load_profile("mine.toml", base=tmp_path)


_FAST = DirectionProfile(rate_bps=1e11, delay_s=0.0)


def _packet(to: str, size: int = 1500) -> bytes:
    return bytes(16) + socket.inet_aton(to) + bytes(size - 20)


def test_a_node_lets_in_so_many_packets() -> None:
    """A bucket of a tenth of a second, then the rate; bytes do not count, and other nodes are not held up."""
    policer = NodePolicer(1000)
    link = Direction(_FAST, seed=1, nodes={socket.inet_aton("198.18.1.11"): policer})
    for number in range(300):
        link.offer(_packet("198.18.1.11", 1500 if number % 2 else 40), 1.0)
        link.offer(_packet("198.18.1.12"), 1.0)
    assert len(link.due(2.0)) == 100 + 300
    assert policer.counters.accepted_packets == 100
    assert policer.counters.dropped_packets == link.counters.node_policed_packets == 200
    for number in range(1000):
        link.offer(_packet("198.18.1.11"), 10 + number / 2000)  # twice the rate
        link.due(10 + number / 2000 + 0.1)
    assert policer.counters.accepted_packets - 100 == pytest.approx(100 + 500, abs=2)


def test_what_a_node_refuses_is_counted_once() -> None:
    """Offered is delivered, or gone by one cause."""
    link = Direction(_FAST, seed=1, nodes={socket.inet_aton("198.18.1.11"): NodePolicer(1)})
    for _ in range(50):
        link.offer(_packet("198.18.1.11"), 1.0)
    delivered = len(link.due(2.0))
    counters = link.counters
    assert delivered == counters.delivered_packets == 16
    assert counters.offered_packets == counters.delivered_packets + counters.node_policed_packets


FULL = b"x" * 1500


def _arrived_of(packets: list[tuple[bytes, float]], **changes: Any) -> int:
    link = _direction(rate_bps=1e9, **changes)
    for packet, at_s in packets:
        link.offer(packet, at_s)
    arrived = len(link.due(1e9))
    assert link.counters.lost_packets == len(packets) - arrived
    return arrived


def test_a_planned_loss_takes_one_full_packet_at_its_time() -> None:
    """A copy begins at 2.0 s with ten full packets; 6.9 s passes, the first from 7.0 s on is lost, no second one is."""
    copy = [(FULL, 2.0)] * 10
    assert _arrived_of([*copy, (FULL, 6.9)], loss_times_s=(5.0,)) == 11
    assert _arrived_of([*copy, (FULL, 7.0), (FULL, 7.1)], loss_times_s=(5.0,)) == 11


def test_a_login_before_the_copy_does_not_start_the_clock() -> None:
    """Nine full packets and any number of small ones are no copy: what comes after them starts the clock."""
    login = [(FULL, 0.0)] * 9 + [(PACKET, 0.0)] * 50
    copy = [(FULL, 30.0)] * 20
    assert _arrived_of([*login, *copy, (FULL, 34.9)], loss_times_s=(5.0,)) == len(login) + len(copy) + 1
    assert _arrived_of([*login, *copy, (FULL, 35.0)], loss_times_s=(5.0,)) == len(login) + len(copy)
