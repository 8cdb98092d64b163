"""What follows from figures on record: the factors of tuning, the README's table and picture, all in step."""

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.redraw import gain_svg, recorded_rows, recorded_speed_test, redraw
from flashferry.lab.errors import LabError
from flashferry.lab.experiment.published import ARMS, SENDERS
from flashferry.lab.experiment.tables import gain_by_tuning, gains_table, in_words, time_for_image

ROOT = Path(__file__).parents[3]
with_documents = pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="documents are not part of the wheel's tests")

TABLE = """
| arm | server | runs | MB each | least | median | most | published | model | to theirs | sent again | verdict |
|---|---|---|---|---|---|---|---|---|---|---|---|
| IOS-XE default | vsftpd CUBIC | 3 | 3.0 | 0.160 | 0.160 | 0.161 | 0.152 | 0.161 |  | 0.00% | window |
| IOS-XE default | ours auto | 3 | 3.0 | 0.160 | 0.160 | 0.160 |  | 0.161 | 1.00x | 0.00% | window |
| IOS-XE tuned | vsftpd CUBIC | 3 | 52.4 | 4.09 | 4.40 | 5.72 | 1.60 | 2.74 |  | 0.01% | random loss 2x, bandwidth 1x |
| IOS-XE tuned | ours auto | 2 of 3 | 52.4 | 5.64 | 5.65 | 5.65 |  | 5.96 | 1.28x | 0.01% | cap |
"""
SPEED_TEST = """
run 20261122-111939-8055: copies to null:, times for an image of 500 MB
device  as it is    time    tuned      time tuned  gain   tune it?
xe1     0.162 MB/s  52 min  5.99 MB/s  84 s        37.1x  yes
ios1    0.103 MB/s  81 min  5.92 MB/s  85 s        57.7x  yes
xe1: as it is: 0.8 MB in 5.1 s = 0.158 MB/s; cubic; SYN: window 16060, MSS
     1460, no scaling, no SACK, no timestamps
xe1: set for the test: ip tcp window-size 1250000; before: (default)
"""


def test_the_table_is_read_back_as_it_was_printed() -> None:
    """Rates to their digits, verdicts with their number, runs that failed not counted."""
    rows = recorded_rows(TABLE)
    assert [(row.arm.name, row.sender.name, row.runs) for row in rows][-1] == ("IOS-XE tuned", "ours auto", 2)
    assert (rows[2].median_bytes_per_s, rows[2].published_bytes_per_s) == (4.4e6, 1.6e6)
    assert rows[2].kinds == (("random loss", 2), ("bandwidth", 1))
    assert (rows[3].ratio, rows[3].kinds) == (1.28, (("cap", 2),))


def test_what_tuning_gains_is_tuned_over_untuned_of_the_same_router_and_server() -> None:
    """5.65 over 0.160 from ours, 4.40 over 0.160 from theirs, in the article 1.60 over 0.152; not across servers."""
    rows = recorded_rows(TABLE)
    assert gain_by_tuning(rows, "IOS-XE tuned", SENDERS[-1]) == pytest.approx(5.65 / 0.160)
    assert gain_by_tuning(rows, "IOS-XE default", SENDERS[-1]) is None
    assert gain_by_tuning(rows, "IOS tuned", SENDERS[-1]) is None
    assert gain_by_tuning(rows[:3], "IOS-XE tuned", SENDERS[-1]) is None
    lines = gains_table(rows).splitlines()
    assert lines[0] == "| router | published | vsftpd CUBIC | ours auto |"
    assert lines[2:] == ["| IOS-XE | 11x | 28x | 35x |", "| IOS | 1.1x |  |  |"]
    assert gains_table(rows[:2]) == ""


def test_figures_read_as_people_say_them() -> None:
    """One decimal below ten; times as the speed test tells them."""
    assert (in_words(35.3), in_words(1.0), in_words(None)) == ("35x", "1.0x", "")
    assert (time_for_image(160_000.0), time_for_image(5_650_000.0)) == ("52 min", "88 s")


def test_the_picture_has_the_figures_of_the_transcript_to_scale() -> None:
    """Both times, both windows, and bars whose lengths are as the times are."""
    found = recorded_speed_test(SPEED_TEST)
    assert (found.as_is_time, found.tuned_time, found.gain) == ("52 min", "84 s", 37.1)
    assert (found.as_is_window_bytes, found.tuned_window_bytes) == (16060, 1250000)
    root = ET.fromstring(gain_svg(found))
    space = "{http://www.w3.org/2000/svg}"
    texts = " ".join("".join(each.itertext()) for each in root.iter(f"{space}text"))
    for word in ("500 MB", "52 min", "84 s", "37 times", "16 kB", "1.25 MB", "0.16 MB/s", "5.99 MB/s", "no flash"):
        assert word in texts
    full, short = (int(each.attrib["width"]) for each in root.iter(f"{space}rect") if each.get("class") in ("v", "o"))
    assert full / short == pytest.approx(37.1, rel=0.03)


@pytest.mark.parametrize("text", ["", "| IOS-XE tuned | nobody | 3 |"])
def test_without_figures_nothing_is_drawn(text: str) -> None:
    """A document without the table, or a transcript without a speed test, is said to be one."""
    with pytest.raises(LabError, match="found none"):
        recorded_rows(text)
    with pytest.raises(LabError, match="found none"):
        recorded_speed_test(text)


@with_documents
def test_the_documents_are_what_their_figures_make(tmp_path: Path) -> None:
    """Drawn anew from the figures on record, README, factors and picture are what is there: no hand was in them."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    written = redraw(tmp_path / "docs")
    assert [path.name for path in written] == ["evidence.md", "gain.svg", "README.md"]
    for path in written:
        assert path.read_text() == (ROOT / path.relative_to(tmp_path)).read_text(), path.name
    readme = (tmp_path / "README.md").read_text()
    assert all(f"| {arm.name} |" in readme for arm in ARMS)
    assert "| IOS-XE tuned | 1.60 | 4.40 | 5.65 | 1.28x | 35x | 88 s |" in readme


@with_documents
def test_the_first_screen_sells_with_figures_of_the_transcript() -> None:
    """Picture and both times within the first lines; at most five lines of the transcript, and they are in it."""
    first = (ROOT / "README.md").read_text().partition("\n## ")[0]
    assert "](docs/gain.svg)" in first
    found = recorded_speed_test((ROOT / "docs" / "demo-transcript.md").read_text())
    assert found.as_is_time.replace(" min", " minutes") in first
    assert found.tuned_time.replace(" s", " seconds") in first
    assert "**No real router has been driven yet**" in first
    printed = first.split("```")[1].strip().splitlines()
    assert 2 <= len(printed) <= 5
    transcript = (ROOT / "docs" / "demo-transcript.md").read_text()
    assert all(line in transcript for line in printed[1:])
