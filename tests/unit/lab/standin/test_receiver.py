"""The receive buffer of a device is a model: pace, blocks and window follow from its figures and a given clock."""

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.standin.platform import load_platform
from flashferry.lab.standin.receiver import OPTIMISTIC, PUBLISHED, Process, ReceiveBuffer, ReceiverFigures
from flashferry.lab.world_spec import DeviceSpec, WorldSpec, settle

FIGURES = ReceiverFigures(buffer_bytes=16_384, reads_bytes_per_s=100_000, block_bytes=50_000, write_s=0.1)


def _read_by(held_bytes: int, *times_s: float) -> object:
    """Return what is read by each of the times, from zero on, to a byte."""
    process, found = Process(FIGURES, 0.0), list[int]()
    for at_s in times_s:
        found.append(process.reads(held_bytes - sum(found), at_s))
    return pytest.approx(found, abs=1)


def test_the_process_reads_at_its_pace() -> None:
    """100,000 bytes a second are 10,000 in a tenth; what was read once is not read again."""
    assert _read_by(40_000, 0.1, 0.1, 0.25) == [10_000, 0, 15_000]


def test_nothing_is_read_while_a_block_is_written() -> None:
    """After 50,000 bytes, half a second, it writes for 0.1 s and then goes on."""
    assert _read_by(80_000, 0.5, 0.59, 0.7) == [50_000, 0, 10_000]


def test_a_long_wait_reads_over_many_blocks() -> None:
    """Two blocks with their writes take 1.2 s, however seldom it is asked."""
    assert _read_by(1_000_000, 1.2, 1.3) == [100_000, 10_000]


def test_time_without_data_is_not_made_up_for() -> None:
    """A second with an empty buffer gives no second's worth of reading when data comes."""
    process = Process(FIGURES, 0.0)
    assert process.reads(0, 1.0) == 0
    assert process.reads(40_000, 1.1) == 10_000


def test_a_fraction_of_a_byte_is_kept_for_later() -> None:
    """Asked every microsecond it is as fast as asked once."""
    process = Process(FIGURES, 0.0)
    assert sum(process.reads(1000, step / 1e6) for step in range(1, 5001)) == 500


def test_the_mean_pace_has_the_writes_in_it() -> None:
    """50,000 bytes in 0.5 s and 0.1 s of writing are 83,333 a second."""
    assert FIGURES.mean_bytes_per_s == pytest.approx(83_333, abs=1)


def test_the_window_is_what_is_left_of_the_buffer_and_never_below_its_front() -> None:
    """It shrinks by what is not read yet; at the front's size the kernel goes on from there."""
    buffer = ReceiveBuffer.of(2_500_000, FIGURES)
    assert buffer.front_bytes == 83_334
    assert [buffer.window_bytes(own) for own in (0, 1_000_000, 2_416_666)] == [2_500_000, 1_500_000, 83_334]
    assert [buffer.space_bytes(own) for own in (0, 2_416_666, 3_000_000)] == [2_416_666, 0, 0]


def test_a_small_buffer_is_the_front_alone() -> None:
    """An untuned device's 16 KiB are all in the kernel: nothing is read ahead of the process."""
    buffer = ReceiveBuffer.of(16_384, FIGURES)
    assert (buffer.front_bytes, buffer.space_bytes(0), buffer.space_bytes(-1000)) == (16_384, 0, 1000)


@pytest.mark.parametrize(("platform", "tuned_bytes_per_s"), [("iosv-15.8", 86_948), ("csr1000v-16.11", 1_604_718)])
def test_the_published_models_take_what_the_article_measured(platform: str, tuned_bytes_per_s: int) -> None:
    """With a buffer that is never empty the pace is that of the article's tuned copy, by a few percent."""
    found = load_platform(platform).receiving(PUBLISHED)
    assert found.receiver is not None
    assert found.receiver.mean_bytes_per_s == pytest.approx(tuned_bytes_per_s, rel=0.03)
    assert found.tcp.default_window_bytes == 16_384


def test_a_profile_that_a_platform_has_not_is_refused_before_the_world_starts() -> None:
    """The sentence names the platform and what there is; the optimistic profile changes nothing."""
    platform = load_platform("c9300-17.6")
    assert platform.receiving(OPTIMISTIC) is platform
    device = DeviceSpec(name="sw", platform="c9300-17.6", receiver=PUBLISHED)
    with pytest.raises(LabError, match=r"c9300-17\.6: receiver: expected one of optimistic; found 'published'"):
        settle(WorldSpec(devices=(device,)))
