"""The benchmark of stacks says no: bytes sent twice, a switch that is not ready, time that the box does not explain."""

import pytest

from flashferry.core.values import replace

# No part of what is installed: the tests of the wheel run away from the checkout.
stacks = pytest.importorskip("benchmarks.stacks")
Staged, _box_s, _is_wrong, _median = stacks.Staged, stacks._box_s, stacks._is_wrong, stacks._median

ALONE = Staged(
    members=1, served_bytes=16_000_000, carried_bytes=16_500_000, wan_s=5.0, box_s=4.0, whole_s=19.0, is_ready=True
)
EIGHT = replace(ALONE, members=8, box_s=68.0, whole_s=94.0)


@pytest.mark.parametrize(
    ("stack", "is_wrong"),
    [
        (EIGHT, False),
        (replace(EIGHT, served_bytes=32_000_000), True),
        (replace(EIGHT, is_ready=False), True),
        (replace(EIGHT, whole_s=140.0), True),
    ],
)
def test_a_stack_that_costs_more_than_one_copy_and_its_box_is_wrong(stack: Staged, is_wrong: bool) -> None:
    """The time is held against the switch alone of the same run."""
    assert _is_wrong(stack, ALONE, 16_000_000) is is_wrong


def test_one_run_that_is_not_ready_spoils_the_median() -> None:
    """Figures are medians; an answer is that of all runs."""
    runs = [EIGHT, replace(EIGHT, whole_s=96.0), replace(EIGHT, whole_s=99.0, is_ready=False)]
    assert (_median(runs).whole_s, _median(runs).is_ready) == (96.0, False)


def test_what_a_box_needs_is_told_by_the_rates_of_its_model() -> None:
    """A hash of its own, and a copy and two hashes for each other switch."""
    device = {"distribution": {"copies": [{}] * 2}}
    assert _box_s(device, 3, 12_300_000) == pytest.approx(2 * 1.0 + 5 * 12.3 / 4)
    assert _box_s({"distribution": None}, 1, 4_000_000) == pytest.approx(1.0)
