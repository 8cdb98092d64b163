"""Whether tuning is worth it: a production router is not touched for a few per cent, nor to save seconds."""

from __future__ import annotations

import pytest

from flashferry.tcp.tuning_benefit import decide_tuning, nothing_to_tune
from flashferry.tcp.verdict_rules import VerdictKind


@pytest.mark.parametrize(
    ("as_is", "tuned", "kind", "image_bytes", "is_worth", "said"),
    [
        (0.15e6, 5.4e6, VerdictKind.CAP, 500_000_000, True, "36.0 times as fast, which saves 54 min for 500 MB; tuned"),
        (0.08e6, 0.085e6, VerdictKind.SLOW_RECEIVER, 500_000_000, False, "no gain beyond the noise"),
        (5.0e6, 4.0e6, VerdictKind.BANDWIDTH, 500_000_000, False, "0.80 times the speed is no gain"),
        (10e6, 20e6, VerdictKind.UNKNOWN, 100_000_000, False, "saves 5 s for 100 MB: less than changing"),
        (0.1e6, 1.6e6, VerdictKind.RANDOM_LOSS, 500_000_000, True, "tuned, loss on the path is the limit"),
        (0.1e6, 0.6e6, VerdictKind.WINDOW, 500_000_000, True, "a larger one may give more"),
    ],
)
def test_the_decision_and_its_reason(as_is, tuned, kind, image_bytes, is_worth, said):
    """Yes only for a gain that stands out and saves more than the change costs; the reason has the numbers."""
    found = decide_tuning(as_is_bytes_per_s=as_is, tuned_bytes_per_s=tuned, tuned_kind=kind, image_bytes=image_bytes)
    assert found.is_worth is is_worth
    assert said in found.reason


def test_a_device_that_is_fine_is_left_alone():
    """Nothing to tune is a decision of its own."""
    assert not nothing_to_tune().is_worth


def test_a_rate_of_nothing_is_refused():
    """A copy that took no byte has no rate to compare."""
    with pytest.raises(ValueError, match="expected rates > 0"):
        decide_tuning(as_is_bytes_per_s=0, tuned_bytes_per_s=1e6, tuned_kind=VerdictKind.CAP, image_bytes=1)
