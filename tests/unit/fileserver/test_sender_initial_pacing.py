"""The first segments under a cap."""

import itertools

import pytest

from flashferry.fileserver.socket_tuning import UNPACED_SEGMENTS, initial_pacing_piece


def test_the_first_ten_segments_go_two_by_two() -> None:
    """Two segments, then a pause as long as they take at the cap; from the eleventh on the kernel paces."""
    assert initial_pacing_piece(0, 1460, 58_400) == (2920, 0.05)
    assert initial_pacing_piece(9 * 1460, 1460, 58_400) == (2920, 0.05)
    assert initial_pacing_piece(10 * 1460, 1460, 58_400) is None


@pytest.mark.parametrize("cap_bytes_per_s", [None, 6_000_000])
def test_what_is_not_held_back(cap_bytes_per_s: int | None) -> None:
    """Nothing is held back without a cap, and not for less than a millisecond."""
    assert initial_pacing_piece(0, 1460, cap_bytes_per_s) is None


def test_the_opening_keeps_to_the_cap() -> None:
    """What is handed over in the opening never is more than a piece ahead of the cap."""
    written_bytes, spent_s = 0, 0.0
    for _ in itertools.repeat(None, UNPACED_SEGMENTS):
        piece = initial_pacing_piece(written_bytes, 536, 8000)
        if piece is None:
            break
        written_bytes += piece[0]
        assert written_bytes <= 2 * 536 + 8000 * spent_s + 1e-6
        spent_s += piece[1]
    assert written_bytes == UNPACED_SEGMENTS * 536
