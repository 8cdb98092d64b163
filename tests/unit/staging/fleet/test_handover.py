"""When a copy's slot is handed on."""

import pytest

from staging.fleet.handover import is_nearly_over


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
