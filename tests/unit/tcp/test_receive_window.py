"""The window that fills a path."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashferry.tcp.receive_window import LARGEST_WINDOW_BYTES, bdp_bytes, choose_window


def test_the_published_path_takes_625_kb() -> None:
    """50 Mbit/s at 100 ms hold 625,000 bytes."""
    assert bdp_bytes(rate_bps=50e6, rtt_s=0.1) == 625_000


@pytest.mark.parametrize(("rate", "rtt"), [(0, 1), (1, 0), (-1, 1), (math.inf, 1), (1, math.nan)])
def test_a_path_needs_finite_positive_numbers(rate: float, rtt: float) -> None:
    """Zero, negative and endless values are refused."""
    with pytest.raises(ValueError, match="finite number > 0"):
        bdp_bytes(rate_bps=rate, rtt_s=rtt)


@pytest.mark.parametrize(
    ("rtt_s", "rate_bps", "explicit", "limit", "window", "reason"),
    [
        pytest.param(
            0.1, 50e6, None, LARGEST_WINDOW_BYTES, 1_250_000, "2 x (50 Mbit/s x 100 ms = 625000 bytes)", id="wan"
        ),
        pytest.param(0.001, 10e6, None, LARGEST_WINDOW_BYTES, 65_536, "least scaled window", id="lan"),
        pytest.param(0.1, None, None, LARGEST_WINDOW_BYTES, 2_500_000, "assumed 100 Mbit/s", id="unknown-rate"),
        pytest.param(0.6, 1e9, None, 4_194_304, 4_194_304, "platform limit", id="platform"),
        pytest.param(0.6, 1e12, None, LARGEST_WINDOW_BYTES, LARGEST_WINDOW_BYTES, "platform limit", id="rfc-7323"),
        pytest.param(0.1, 50e6, 20_000, LARGEST_WINDOW_BYTES, 20_000, "given explicitly", id="explicit"),
        pytest.param(0.1, 50e6, 8_000_000, 4_194_304, 8_000_000, "given explicitly", id="explicit-over-limit"),
        pytest.param(0.0437, 33e6, None, LARGEST_WINDOW_BYTES, 370_000, "2 x (", id="rounded-up"),
    ],
)
def test_window_choice(
    rtt_s: float, rate_bps: float | None, explicit: int | None, limit: int, window: int, reason: str
) -> None:
    """Twice the product, at least 65536, within the platform's limit; an explicit value wins; the reason says which."""
    choice = choose_window(rtt_s, rate_bps, explicit_bytes=explicit, platform_limit_bytes=limit)
    assert choice.window_bytes == window
    assert reason in choice.reason


@pytest.mark.parametrize("value", [0, 67, LARGEST_WINDOW_BYTES + 1, -5])
def test_windows_ios_would_refuse_are_refused_here(value: int) -> None:
    """Outside 68 to 1073741823 there is no window, neither as a wish nor as a limit."""
    with pytest.raises(ValueError, match="68 to 1073741823 bytes"):
        choose_window(0.1, 50e6, explicit_bytes=value)
    with pytest.raises(ValueError, match="68 to 1073741823 bytes"):
        choose_window(0.1, 50e6, platform_limit_bytes=value)


@given(st.floats(1e-4, 2), st.floats(1e3, 1e11))
def test_a_choice_always_fills_the_path_or_the_limit(rtt_s: float, rate_bps: float) -> None:
    """No choice is below twice the product unless a limit says so, and none leaves the range."""
    window = choose_window(rtt_s, rate_bps).window_bytes
    assert 65_536 <= window <= LARGEST_WINDOW_BYTES
    assert window >= min(2 * bdp_bytes(rate_bps=rate_bps, rtt_s=rtt_s), LARGEST_WINDOW_BYTES)
