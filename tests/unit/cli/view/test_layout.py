"""Figures in words: numbers with their words, and one unit for the rate of a copy wherever it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flashferry.cli.view import layout
from flashferry.core.units import counted
from flashferry.model.waves import WavePolicy, may_go_on
from flashferry.reports import words
from flashferry.reports.graphs import rate_axis
from tests.some import some

ROOT = Path(layout.__file__).parents[3]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((0, "device"), "0 devices"),
        ((1, "device"), "1 device"),
        ((1, "copy", "copies"), "1 copy"),
        ((12_000, "copy", "copies"), "12,000 copies"),
    ],
)
def test_a_number_and_its_word(given, told):
    """One device, two devices; thousands are set apart."""
    assert counted(*given) == told


def test_one_failed_device_is_one():
    """The sentence that stops a run."""
    told = may_go_on(WavePolicy(max_failures=0), started=1, failed=1)
    assert told == "1 device failed, 0 may"


@pytest.mark.parametrize("bytes_per_s", [83_200, 605_000, 994_000, 995_000, 5_430_000, 112_000_000])
def test_the_rate_of_a_copy_reads_alike_everywhere(bytes_per_s):
    """A terminal said 0.605 MB/s where the report said 605.0 kB/s."""
    told = layout.rate(bytes_per_s)
    assert told.endswith(" MB/s")
    assert words.rate(bytes_per_s) == told
    assert rate_axis(bytes_per_s).unit == "MB/s"


COUNTS = re.compile(r"\{[^{}\n]*\} (?:devices|copies|readings|records|sentences|waves|sessions|times)\b[^\n]*")
ALWAYS_SEVERAL = (
    "{len(hosts)} devices",  # sentences that several share
    "{len(records)} devices that it left",  # of one it says so in other words
    "{devices:,} devices only those",  # of a page with more than it graphs
    "{devices} devices. The",
    "{factor:",
    "gain:.1f} times",
    "{limit:g} times",
    "{run.resumed} times",  # once has its own word
    "{resume} copies nothing",  # a verb
    "{least} sessions take",
    "{max(carried, 0)} sessions",
    "{KILL_TRIES} copies were over",
    '{tries} times" if tries > 1',  # once is not told
)


def test_no_count_is_printed_with_a_word_that_is_wrong_for_one():
    """Whoever counts something uses `counted`, unless there are always several."""
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for package in ("flashferry", "tasks", "ftpserver", "inventory")
        for path in some((ROOT / package).rglob("*.py"))
        if not {"lab", "tcp"} & {*path.parts}
        for hit in COUNTS.finditer(path.read_text())
        if not any(each in hit[0] for each in ALWAYS_SEVERAL)
    ]
    assert found == []
