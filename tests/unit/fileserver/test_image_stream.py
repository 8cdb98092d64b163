"""When transfers are looked at."""

import pytest

from flashferry.fileserver.image_stream import to_next_early_sample_s, to_next_moment_s, to_next_sample_s


@pytest.mark.parametrize("now_s", [0.0, 12.34, 99.999, 1e6 + 0.05])
@pytest.mark.parametrize("interval_s", [0.1, 1.0, 60.0])
def test_ticks_fall_on_ten_moments_of_an_interval(now_s: float, interval_s: float) -> None:
    """The next is nearly an interval away, and on a moment that all transfers share."""
    wait_s = to_next_sample_s(now_s, interval_s)
    moments = (now_s + wait_s) / (interval_s / 10)
    assert 0.9 * interval_s - 1e-6 <= wait_s <= interval_s + 1e-6
    assert moments == pytest.approx(round(moments), abs=1e-3)


@pytest.mark.parametrize("now_s", [0.0, 0.05, 12.34, 1e6 + 0.05])
def test_early_looks_fall_on_tenths_of_a_second(now_s: float) -> None:
    """The next is at most a tenth away, never at once, and on a moment that all transfers share."""
    wait_s = to_next_early_sample_s(now_s)
    assert 0 < wait_s <= 0.1 + 1e-6
    assert (now_s + wait_s) * 10 == pytest.approx(round((now_s + wait_s) * 10), abs=1e-3)


@pytest.mark.parametrize("now_s", [0.0, 0.05, 12.34, 1e6 + 0.0199])
@pytest.mark.parametrize("interval_s", [0.02, 0.5])
def test_moments_are_shared_and_never_at_once(now_s: float, interval_s: float) -> None:
    """Two transfers that come at different times are soon looked at together."""
    wait_s = to_next_moment_s(now_s, interval_s)
    moments = (now_s + wait_s) / interval_s
    assert 0.5 * interval_s - 1e-6 <= wait_s <= 1.5 * interval_s + 1e-6
    assert moments == pytest.approx(round(moments), abs=1e-3)
