"""When a copy's slot is released early."""

import pytest

from flashferry.run.concurrency import is_nearly_over, is_soon_over


@pytest.mark.parametrize(
    ("acked_bytes", "rate_bytes_per_s", "expected"),
    [
        (0, 1e6, False),
        (900_000, 10_000.0, True),  # ten seconds are left
        (890_000, 10_000.0, False),
        (790_000, 1e6, False),  # fast, and yet a fifth is left
        (990_000, 0.0, False),  # stands still: who knows how long
        (1_000_000, 0.0, True),
    ],
)
def test_a_slot_is_handed_on_shortly_before_the_end(acked_bytes: int, rate_bytes_per_s: float, expected: bool) -> None:
    """By the time that is left at the present rate, and never before four fifths."""
    assert is_nearly_over(acked_bytes, 1_000_000, rate_bytes_per_s) is expected


@pytest.mark.parametrize(
    ("acked_bytes", "expected"), [(0, False), (549_000, False), (550_000, True), (990_000, True), (1_000_000, True)]
)
def test_who_waits_is_told_some_time_before(acked_bytes: int, expected: bool) -> None:
    """Three quarters of a minute at the present rate; a copy that stands still ends at no time known."""
    assert is_soon_over(acked_bytes, 1_000_000, 10_000.0) is expected
    assert is_soon_over(490_000, 1_000_000, 1e6) is False
    assert is_soon_over(990_000, 1_000_000, 0.0) is False
