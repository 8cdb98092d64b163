"""The trend finds a drop and cries no wolf, in the simulation that the documentation's figures come from."""

from __future__ import annotations

import pytest

from flashferry.nightly.trend import Course
from tests.some import some

# No part of what is installed: the tests of the wheel run away from the checkout.
simulation = pytest.importorskip("benchmarks.nightly_trend")
Noise, changed, courses = simulation.Noise, simulation.changed, simulation.courses
found_by, share_of = simulation.found_by, simulation.share_of


@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_a_drop_by_a_tenth_is_red_by_the_third_night(spread):
    """30 nights, 10 % lower from night 20 on: red by night 22 in all but one of a hundred; at 1 % noise in all."""
    series = [courses(30, seed, Noise(spread=spread), changed(0.9)) for seed in range(100)]
    assert found_by(Course.WORSE_AGAIN, 22, series) >= (1.0 if spread == 0.01 else 0.98)


@pytest.mark.parametrize("spread", [0.01, 0.03])
def test_nights_without_a_change_turn_red_in_no_more_than_two_of_a_hundred(spread):
    """Of 200 nights as every other at most 4 are red, whatever the seed; of all of them one in a thousand."""
    series = [courses(200, seed, Noise(spread=spread)) for seed in range(25)]
    assert max(share_of(Course.WORSE_AGAIN, [found]) for found in some(series)) <= 0.02
    assert share_of(Course.WORSE_AGAIN, series) <= 0.001
    assert share_of(Course.WORSE_ONCE, series) <= 0.02


@pytest.mark.parametrize("copies", [1, 2])
def test_few_copies_turn_red_by_chance_in_no_more_than_two_of_a_hundred(copies):
    """The same noise as with five copies; what is half as slow is found all the same."""
    noise = Noise(spread=0.03, copies=copies)
    series = [courses(200, seed, noise) for seed in range(25)]
    assert share_of(Course.WORSE_AGAIN, series) <= 0.002
    assert max(share_of(Course.WORSE_AGAIN, [found]) for found in some(series)) <= 0.02
    assert found_by(Course.WORSE_AGAIN, 22, [courses(30, seed, noise, changed(0.5)) for seed in range(50)]) == 1.0
