"""What goes into documents, and the tables of fairness and peers."""

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.experiment import fairness
from lab.experiment.evidence import put
from lab.experiment.measured import Measured
from lab.experiment.peers.play import Found
from lab.experiment.peers.play import _changed as changed
from lab.experiment.peers.report import side_by_side


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


def test_lines_left_are_those_that_differ() -> None:
    """The stamp of the last change is no line; what was added or taken away is."""
    before = "! Last configuration change at 1\nhostname xe\nip tcp window-size 9\nend\n"
    after = "! Last configuration change at 2\nhostname xe\nfile prompt quiet\nend\n"
    assert changed(before, after) == ("-ip tcp window-size 9", "+file prompt quiet")
    assert changed(before, before) == ()


def test_a_tool_that_claims_success_without_the_image_is_told() -> None:
    """Each situation says how it ended, what it left, and whether a success was one."""
    common = {"tool": "t", "seconds": 1.25, "said": "", "link_bytes": 2_000_000}
    found = [
        Found(situation="success", outcome="ok", lines_left=(), is_there=False, **common),  # type: ignore[arg-type]
        Found(situation="already there", outcome="ok", lines_left=(), is_there=True, **common),  # type: ignore[arg-type]
        Found(situation="kill -9", outcome="killed", lines_left=("+a",), is_there=False, **common),  # type: ignore[arg-type]
    ]
    row = side_by_side(found).splitlines()[-1]
    assert row == "| t | ok, 1.2 s; no image | ok, 1.2 s; 2.00 MB sent | killed, 1.2 s; 1 lines left |  |  |  |"
