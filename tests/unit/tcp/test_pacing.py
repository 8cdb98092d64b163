"""The pace that a copy finds for itself, on a small model of a link."""

from __future__ import annotations

import pytest

from flashferry.tcp.pacing import LinkPacer, Phase
from flashferry.tcp.path_estimator import BaseRtt
from tests.unit.tcp.path_model import MSS_BYTES, Delay, Path, random_delays

_FULL = 6e6


def _bdp(rate: float, base_s: float) -> float:
    return rate * base_s


@pytest.mark.parametrize("base_s", [0.01, 0.04, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("rate", [5e5, 2e6, 6e6, 2e7])
def test_it_fills_a_link_and_leaves_no_queue(base_s: float, rate: float) -> None:
    """From 4 to 160 Mbit/s and 10 to 600 ms: at least 95 % after the start, next to nothing dropped."""
    path = Path(rate_bytes_per_s=rate, base_s=base_s, queue_bytes=max(60_000, 0.5 * _bdp(rate, base_s)))
    path.run(10 + 30 * base_s)
    assert Phase.YIELD not in path.phases
    dropped, sent = path.dropped_bytes, path.sent_bytes
    assert path.delivered_over(30) >= 0.95 * rate
    assert path.dropped_bytes - dropped <= 0.003 * (path.sent_bytes - sent)
    assert path.pacer.found_bytes_per_s == pytest.approx(rate, rel=0.03)


@pytest.mark.parametrize("queue_segments", [200, 1000])
@pytest.mark.parametrize("loss_ratio", [0.0001, 0.001])
def test_fifty_megabytes_at_the_published_link(queue_segments: int, loss_ratio: float) -> None:
    """In the time in which the link carries 50 MB at least 90 % of them arrive, with less than 0.5 % sent again."""
    path = Path(queue_bytes=queue_segments * MSS_BYTES, loss_ratio=loss_ratio)
    path.run(50e6 / _FULL)
    assert path.delivered_bytes >= 0.9 * 50e6
    assert path.again_bytes <= 0.005 * path.sent_bytes


@pytest.mark.parametrize("loss_ratio", [0.001, 0.01, 0.05])
def test_random_loss_is_not_taken_for_the_link(loss_ratio: float) -> None:
    """What is lost whatever the pace lowers the pace for a moment at most."""
    path = Path(loss_ratio=loss_ratio).run(30)
    assert path.delivered_over(30) >= 0.9 * _FULL * (1 - loss_ratio)


@pytest.mark.parametrize("window_bytes", [16_384, 65_535, 400_000])
def test_a_receiver_that_holds_back_shows_no_link(window_bytes: float) -> None:
    """Nothing is found, and the pace is never what limits such a copy."""
    path = Path(window_bytes=window_bytes)
    path.run(5)
    allowed = window_bytes / path.base_s
    assert path.delivered_over(30) >= 0.97 * allowed
    assert path.pacer.found_bytes_per_s is None
    assert path.pace.bytes_per_s > 1.1 * allowed


def test_a_held_back_copy_takes_nobody_s_queue_for_its_own() -> None:
    """Beside somebody else's flow it goes on as its receiver lets it: it is not what fills the link."""
    path = Path(window_bytes=60_000, has_neighbour=True).run(30)
    assert path.phases == [Phase.SEARCH]
    assert path.pacer.found_bytes_per_s is None


def test_a_sender_without_data_shows_no_link() -> None:
    """A disk that is slower than the link is not taken for it."""
    path = Path(starved_to_bytes_per_s=1e6).run(20)
    assert path.pacer.found_bytes_per_s is None


def test_a_copy_that_is_too_short_finds_nothing() -> None:
    """Of two round trips nothing is concluded."""
    assert Path().run(0.2).pacer.found_bytes_per_s is None


def test_a_policer_is_found_by_what_it_drops() -> None:
    """Without any queue the rate at which it drops is held, and little is dropped from then on."""
    path = Path(rate_bytes_per_s=2.5e6, base_s=0.04, queue_bytes=8 * MSS_BYTES).run(5)
    dropped, sent = path.dropped_bytes, path.sent_bytes
    assert path.delivered_over(30) >= 0.93 * 2.5e6
    assert path.dropped_bytes - dropped <= 0.01 * (path.sent_bytes - sent)


def test_a_link_that_gets_faster_is_found_again() -> None:
    """Probes are seldom, and yet a minute is enough for four times the rate."""
    path = Path(rate_bytes_per_s=1.5e6, queue_bytes=75_000).run(30)
    path.rate_bytes_per_s, path.queue_bytes = 6e6, 290_000
    path.run(40)
    assert path.delivered_over(20) >= 0.93 * 6e6


def test_a_link_that_gets_slower_is_followed() -> None:
    """A third of the rate is found within seconds, without taking the queue for somebody else's for long."""
    path = Path(rate_bytes_per_s=6e6).run(20)
    path.rate_bytes_per_s = 2e6
    path.run(40)
    dropped, sent = path.dropped_bytes, path.sent_bytes
    assert path.delivered_over(20) >= 0.93 * 2e6
    assert path.dropped_bytes - dropped <= 0.005 * (path.sent_bytes - sent)


@pytest.mark.parametrize("queue_segments", [200, 1000])
def test_beside_somebody_else_it_yields_and_comes_back(queue_segments: int) -> None:
    """A queue that does not go by sending less is somebody's; when it is gone the link is filled again."""
    path = Path(queue_bytes=queue_segments * MSS_BYTES).run(15)
    assert Phase.YIELD not in path.phases
    path.has_neighbour = True
    path.run(30)
    assert Phase.YIELD in path.phases
    begun = path.neighbour_bytes
    path.run(30)
    assert (path.neighbour_bytes - begun) / 30 >= 0.4 * _FULL
    path.has_neighbour = False
    path.run(40)
    assert path.delivered_over(20) >= 0.93 * _FULL


def test_a_queue_of_cubic_s_own_is_told_from_somebody_else_s() -> None:
    """The link became slower meanwhile, so that CUBIC alone fills the queue: sending less for a moment shows it."""
    path = Path().run(15)
    path.has_neighbour = True
    path.run(20)
    path.has_neighbour, path.rate_bytes_per_s = False, 1e6
    path.run(22)
    assert path.pace.phase is not Phase.YIELD
    assert path.delivered_over(20) >= 0.93 * 1e6


@pytest.mark.parametrize("queue_segments", [200, 1000])
def test_a_link_that_somebody_had_first_is_filled_when_he_has_gone(queue_segments: int) -> None:
    """Nothing was known of it before, and the queue that is left then is our own."""
    path = Path(queue_bytes=queue_segments * MSS_BYTES, has_neighbour=True).run(40)
    path.has_neighbour = False
    path.run(60)
    assert path.delivered_over(20) >= 0.93 * _FULL


def test_a_path_that_became_longer_is_believed() -> None:
    """Forty milliseconds more look like a queue that does not go, but not for ever."""
    path = Path().run(15)
    path.base_s += 0.04
    path.run(60)
    assert path.delivered_over(30) >= 0.93 * _FULL


def test_what_an_earlier_copy_found_makes_a_quick_start() -> None:
    """More arrives in the first second, and an old figure far too high does no more harm than a search."""
    blind, knowing = Path().run(1), Path(pacer=LinkPacer(_FULL)).run(1)
    assert knowing.delivered_bytes > 1.5 * blind.delivered_bytes
    assert Path(pacer=LinkPacer(2.5 * _FULL)).run(8).again_bytes <= 0.02 * 8 * _FULL


def test_the_least_round_trip_is_forgotten_after_half_a_minute() -> None:
    """Until then it holds, and from then on what was seen since."""
    base = BaseRtt()
    assert base.take(0.0, 0.1) == 0.1
    assert base.take(20.0, 0.14) == 0.1
    assert base.take(40.0, 0.15) == 0.14


_CUBIC_AT_A_THOUSANDTH = 1.3e6
"""What CUBIC has at 0.1 % and 100 ms, bytes per second."""


def _delayed(seed: int, *, from_s: float, to_s: float, most_s: float, queue_segments: int = 200) -> Path:
    return Path(
        queue_bytes=queue_segments * MSS_BYTES,
        loss_ratio=0.001,
        cubic_bytes_per_s=_CUBIC_AT_A_THOUSANDTH,
        delays=random_delays(seed, from_s=from_s, to_s=to_s, apart_s=0.8, most_s=most_s),
    )


@pytest.mark.parametrize("seed", [3, 5, 7])
@pytest.mark.parametrize("most_s", [0.2, 0.5])
def test_a_start_on_a_busy_host_is_made_up_for_when_it_is_calm(seed: int, most_s: float) -> None:
    """What delays interrupted is found within four seconds after the last of them, and nobody is yielded to."""
    path = _delayed(seed, from_s=0.0, to_s=5.0, most_s=most_s).run(9.5)
    assert Phase.YIELD not in path.phases
    assert path.delivered_over(5) >= 0.9 * _FULL


@pytest.mark.parametrize("seed", [3, 5, 7])
@pytest.mark.parametrize("most_s", [0.2, 0.5])
def test_delays_do_not_talk_a_copy_out_of_its_rate(seed: int, most_s: float) -> None:
    """Ten seconds of them cost little more than their own time, and are forgotten at once."""
    path = _delayed(seed, from_s=5.0, to_s=15.0, most_s=most_s).run(5)
    held_up_s = sum(delay.seconds for delay in path.delays if not delay.of_path)
    assert path.delivered_over(10) >= 0.75 * _FULL * (1 - held_up_s / 10)
    path.run(2)
    assert path.delivered_over(10) >= 0.9 * _FULL


def test_cubic_on_a_lossy_path_is_no_trap() -> None:
    """Five seconds after the other has gone the link is full again, and not only what CUBIC had under the losses."""
    path = Path(loss_ratio=0.001, cubic_bytes_per_s=_CUBIC_AT_A_THOUSANDTH).run(15)
    path.has_neighbour = True
    path.run(20)
    assert Phase.YIELD in path.phases
    path.has_neighbour = False
    path.run(5)
    assert path.delivered_over(5) >= 0.9 * _FULL


@pytest.mark.parametrize("of_path", [True, False])
@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.5])
def test_a_single_delay_in_the_search_does_not_end_it(of_path: bool, seconds: float) -> None:
    """The first rate that is taken for the link's is the link's, and that within three seconds more."""
    path = Path(delays=[Delay(from_s=0.6, seconds=seconds, of_path=of_path)])
    while path.pacer.found_bytes_per_s is None and path.now_s < 3.6 + seconds:
        path.run(0.02)
    assert path.pacer.found_bytes_per_s == pytest.approx(_FULL, rel=0.05)


@pytest.mark.parametrize("seed", range(5))
def test_a_search_that_sees_nothing_is_left_to_bbr(seed: int) -> None:
    """While delays follow each other nothing is held back; when they have ended the link is found."""
    delays = random_delays(seed, from_s=0.3, to_s=12, apart_s=0.15, most_s=0.2)
    path = Path(delays=delays).run(12)
    assert Phase.FREE in path.phases
    path.run(20)
    assert path.pacer.found_bytes_per_s == pytest.approx(_FULL, rel=0.05)
    assert path.delivered_over(10) >= 0.93 * _FULL


def test_a_pace_that_the_host_does_not_reach_is_none() -> None:
    """Without a queue, a full window or losses it is the host that sends late: a pace would hold back nothing else."""
    path = Path().run(15)
    assert path.phases[-1] is Phase.HOLD
    path.host_bytes_per_s = 0.6 * _FULL
    path.run(4)
    assert path.phases[-1] is Phase.FREE
    path.host_bytes_per_s = 1e12
    path.run(15)
    assert path.phases[-1] is Phase.HOLD
    assert path.delivered_over(10) >= 0.93 * _FULL


def test_a_full_window_is_no_late_host() -> None:
    """A receiver that takes less than the pace held leaves it in force."""
    path = Path().run(15)
    path.window_bytes = 0.5 * _FULL * path.base_s
    path.run(20)
    assert path.phases[-1] is Phase.HOLD
    assert Phase.FREE not in path.phases


def test_a_blind_search_ends_before_it_believes_anything() -> None:
    """Where one delay follows the other BBR is let go within two seconds; no rate was taken for the link's by then."""
    delays = [Delay(from_s=0.3 + 0.25 * number, seconds=0.1, of_path=True) for number in range(12)]
    path = Path(delays=delays)
    while Phase.FREE not in path.phases and path.now_s < 2.5:
        path.run(0.02)
    assert path.phases == [Phase.SEARCH, Phase.FREE]
    assert path.pacer.found_bytes_per_s is None


def test_beside_somebody_else_a_late_host_yields_all_the_same() -> None:
    """A queue that stands is a reason to send less, also where the pace is not reached."""
    path = Path().run(15)
    path.has_neighbour, path.host_bytes_per_s = True, 0.75 * _FULL
    path.run(10)
    assert Phase.YIELD in path.phases
    assert Phase.FREE not in path.phases


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.2, 0.3])
@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.4])
def test_a_delay_in_a_probe_takes_nothing_from_what_was_found(after_s: float, seconds: float) -> None:
    """What was held without a queue is carried."""
    path = Path().run(6)
    found = path.pacer.found_bytes_per_s
    while not path.pacer._is_probe:
        path.run(0.02)
    for number in range(4):
        path.delays.append(Delay(from_s=path.now_s + after_s + number * 1.5 * seconds, seconds=seconds, of_path=True))
    path.run(5)
    assert found is not None
    assert (path.pacer.found_bytes_per_s or 0) >= 0.97 * found
