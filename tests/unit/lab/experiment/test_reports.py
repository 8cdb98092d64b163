"""What goes into documents, and the table of fairness."""

from pathlib import Path

import pytest

from flashferry.lab.errors import LabError
from flashferry.lab.experiment import fairness
from flashferry.lab.experiment.cell import Measured
from flashferry.lab.experiment.harness import missed_targets, put


def test_a_section_is_replaced_and_the_rest_stays(tmp_path: Path) -> None:
    """Only what stands between the markers of its name changes, whatever characters the text has."""
    path = tmp_path / "evidence.md"
    path.write_text("a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb <!-- y: begin --><!-- y: end -->\n")
    put(path, "x", r"new \1 text")
    assert path.read_text() == (
        "a\n<!-- x: begin -->\nnew \\1 text\n<!-- x: end -->\nb <!-- y: begin --><!-- y: end -->\n"
    )
    with pytest.raises(LabError, match=r"evidence\.md: expected <!-- z: begin --> .* found them 0 times"):
        put(path, "z", "")


def test_the_other_flow_is_held_against_what_the_cap_leaves() -> None:
    """Beside a cap of half the link the other flow is due the other half."""
    cell = next(each for each in fairness.cells([1], seconds=10) if each.sender.cap_share == 0.5)
    half = cell.link.payload_bytes_per_s / 2
    run = Measured(
        cell=cell, started_at="", load=0, size_bytes=int(half * 10), seconds=10, beside_bytes_per_s=half * 0.9,
        sent_bytes=100, again_bytes=0,
    )  # fmt: skip
    assert "| queue of 0.5 BDP | auto | 50% | 1 | 3.04 | 2.74 | 2.74 | 90% | 0.00% |" in fairness.fairness_table([run])


def test_missed_targets_are_named_and_the_others_counted() -> None:
    """A page says how many are met; what nobody could decide counts as neither."""
    found = [("fast", "5", True), ("small", "9", False), ("even", "?", None)]
    assert missed_targets(found) == "1 of 2 targets are met.\n\n- **missed**: small: 9"
    assert missed_targets(found[:1]) == "1 of 1 targets are met."
