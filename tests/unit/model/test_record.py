"""Three clocks on one copy."""

from __future__ import annotations

import pytest

from flashferry.model.record import compare_clocks


@pytest.mark.parametrize(
    ("device_s", "server_s", "wall_s", "said"),
    [
        (10.0, 9.9, 11.0, ""),
        (10.0, 8.1, 11.9, ""),  # less than two seconds
        (100.0, 91.0, 109.0, ""),  # less than a tenth
        (100.0, 80.0, 101.0, "the device says 100.0 s, our server 80.0 s: the device kept running after the last byte"),
        (80.0, 100.0, 81.0, "does not count all of the transfer"),
        (10.0, 10.0, 15.0, "our clock 15.0 s from command to prompt: the rest is login"),
        (15.0, 15.0, 10.0, "its clock runs faster than time"),
        (None, 50.0, 10.0, ""),
        (None, None, None, ""),
    ],
)
def test_disagreement_is_more_than_a_tenth_and_more_than_two_seconds(device_s, server_s, wall_s, said):
    """Both together make it worth a sentence, which says what it means."""
    found = compare_clocks(device_s=device_s, server_s=server_s, wall_s=wall_s)
    assert (found.device_s, found.server_s, found.wall_s) == (device_s, server_s, wall_s)
    assert said in found.disagreement
    assert bool(said) == bool(found.disagreement)
