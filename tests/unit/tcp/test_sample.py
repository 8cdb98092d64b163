"""Readings in little room: nothing a verdict needs is lost by packing or thinning."""

import random
import sys
from itertools import pairwise

import pytest

from flashferry.tcp.sample import MOST_READINGS, ChannelReading, Sample, SampleSeries
from flashferry.tcp.tcp_info import parse_tcp_info


def _raw(seed: int, length: int = 280) -> bytes:
    return random.Random(seed).randbytes(length)


@pytest.mark.parametrize("length", [104, 120, 150, 192, 232, 280])
def test_packing_loses_nothing_a_sample_needs(length: int) -> None:
    """For every length a kernel returns, the sample kept is the sample taken."""
    readings = SampleSeries(100.0, _raw(1, length))
    readings.add(101.5, _raw(2, length), all_written=True)
    assert readings.samples(100.5) == (
        Sample.from_info(0.0, parse_tcp_info(_raw(1, length)), all_written=False),
        Sample.from_info(1.0, parse_tcp_info(_raw(2, length)), all_written=True),
    )


def test_an_hour_takes_no_more_than_a_minute() -> None:
    """However many come, at most 48 are kept, evenly spread, the first and the last among them, in 8 kB."""
    readings = SampleSeries(0.0, _raw(0))
    for second in range(1, 3600):
        readings.add(float(second), _raw(second), all_written=False)
        assert len(readings) <= MOST_READINGS
    readings.add_last(3600.0, _raw(3600), all_written=True)
    times = [sample.at_s for sample in readings.samples(0.0)]
    assert (times[0], times[-1]) == (0.0, 3600.0)
    assert len({later - earlier for earlier, later in pairwise(times[1:-1])}) == 1
    assert sys.getsizeof(readings._packed) < 8_000


def test_a_reading_of_another_length_is_left_out() -> None:
    """A kernel does not change its structure in mid-flow; were it to, nothing is misread."""
    readings = SampleSeries(0.0, _raw(0))
    readings.add(1.0, _raw(1, 232), all_written=False)
    assert len(readings) == 1


@pytest.mark.parametrize("most", [1, 5, 16, 100])
def test_a_choice_of_readings_ends_with_the_last(most: int) -> None:
    """No more than asked for, evenly spread, the last among them; all of them where more is asked for."""
    readings = SampleSeries(0.0, _raw(0))
    for second in range(1, 40):
        readings.add(float(second), _raw(second), all_written=False)
    times = [sample.at_s for sample in readings.samples(0.0, most)]
    assert len(times) <= most
    assert times[-1] == 39.0
    assert len({later - earlier for earlier, later in pairwise(times)}) <= 1
    assert most < 40 or times == [float(second) for second in range(40)]


def test_a_channel_is_kept_beside_its_socket() -> None:
    """What waited in the channel comes back with its reading, in blocks too; one that is gone has nothing."""
    readings = SampleSeries(0.0, _raw(0), ChannelReading(waiting_bytes=7))
    for second in range(1, 20):
        readings.add(float(second), _raw(second), ChannelReading(waiting_bytes=1000 * second), all_written=False)
    readings.add_last(20.0, _raw(20), all_written=True)
    waiting = [sample.channel_waiting_bytes for sample in readings.samples(0.0)]
    assert waiting == [7, *(1000 * second for second in range(1, 20)), 0]
    assert readings.samples(0.0)[5] == Sample.from_info(
        5.0, parse_tcp_info(_raw(5)), all_written=False, channel_waiting_bytes=5000
    )


def test_a_flow_without_a_channel_pays_nothing_for_it() -> None:
    """FTP's readings have the bytes they had, and say that there is no channel."""
    plain, with_channel = SampleSeries(0.0, _raw(0)), SampleSeries(0.0, _raw(0), ChannelReading(waiting_bytes=0))
    assert len(with_channel._packed) - len(plain._packed) == 4
    assert plain.samples(0.0)[0].channel_waiting_bytes is None


def test_what_a_client_asked_for_is_kept_beside_its_channel() -> None:
    """In blocks too; of a channel that is gone nothing is asked, and one without requests pays nothing for them."""
    readings = SampleSeries(0.0, _raw(0), ChannelReading(waiting_bytes=0, asked_bytes=0))
    for second in range(1, 20):
        channel = ChannelReading(waiting_bytes=second, asked_bytes=32_768 * second)
        readings.add(float(second), _raw(second), channel, all_written=False)
    readings.add_last(20.0, _raw(20), all_written=True)
    samples = readings.samples(0.0)
    assert [sample.asked_bytes for sample in samples] == [*(32_768 * second for second in range(20)), 0]
    assert [sample.channel_waiting_bytes for sample in samples] == [*range(20), 0]
    without = SampleSeries(0.0, _raw(0), ChannelReading(waiting_bytes=0))
    assert without.samples(0.0)[0].asked_bytes is None
