"""Figures for people, each kind in one place."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from flashferry.core import units
from tests.house.modules import source_files, tree_of

ROOT = Path(units.__file__).parents[2]


@pytest.mark.parametrize(
    ("bytes_per_s", "words"),
    [
        (5_430_000, "5.43 MB/s"),
        (995_000, "0.99 MB/s"),
        (994_999, "0.995 MB/s"),
        (83_200, "0.083 MB/s"),
        (4_200, "0.004 MB/s"),
    ],
)
def test_a_rate_has_one_unit(bytes_per_s: float, words: str) -> None:
    """Rates stand beside each other; what is slow has a decimal more."""
    assert units.rate(bytes_per_s) == words


def test_other_rates() -> None:
    """Slower than a report ever shows, while it changes, and in a sentence about it."""
    assert units.rate(4_200, finest=4) == "0.0042 MB/s"
    assert units.coarse_rate(83_200) == "0.08 MB/s"
    assert [units.exact_rate(one) for one in (83_200, 5_432_100, 1_250_000_000)] == [
        "0.0832 MB/s",
        "5.43 MB/s",
        "1,250 MB/s",
    ]
    assert (units.link_rate(512_000), units.learned_link_rate(48_666_667)) == ("0.512 Mbit/s", "48.7 Mbit/s")


@pytest.mark.parametrize(
    ("bytes_per_s", "words"),
    [
        (4_128, "4.1 kB/s"),
        (81_920, "82 kB/s"),
        (999_499, "999 kB/s"),
        (999_500, "1.0 MB/s"),
        (5_944_000, "5.9 MB/s"),
        (1_250e6, "1,250 MB/s"),
    ],
)
def test_a_bound_has_the_unit_that_fits(bytes_per_s: float, words: str) -> None:
    """It is told in a sentence, and two figures are enough."""
    assert units.bound_rate(bytes_per_s) == words


@pytest.mark.parametrize(
    ("count_bytes", "words"),
    [(999, "999 B"), (1_000, "1.0 kB"), (25e6, "25.0 MB"), (999.5e6, "1.00 GB"), (1.2e9, "1.20 GB"), (3e12, "3.00 TB")],
)
def test_a_size_has_the_unit_that_fits(count_bytes: float, words: str) -> None:
    """Rounding goes to the next unit in time."""
    assert units.size(count_bytes) == words


def test_megabytes_alone() -> None:
    """For columns that are compared."""
    assert units.megabytes(1_204_400_000) == "1,204 MB"
    assert [units.rough_megabytes(one) for one in (65_536, 25_400_000)] == ["0.066 MB", "25 MB"]


@pytest.mark.parametrize(
    ("seconds", "exact", "rough", "short"),
    [
        (5.44, "5.4 s", "5 s", "5 s"),
        (119, "1 min 59 s", "119 s", "119 s"),
        (600, "10 min 00 s", "10 min", "10 min"),
        (7500, "2 h 05 min", "2 h 05 min", "2.1 h"),
        (9000, "2 h 30 min", "2 h 30 min", "2.5 h"),
    ],
)
def test_lengths_of_time(seconds: float, exact: str, rough: str, short: str) -> None:
    """What was measured to the second, what is to be expected in minutes; nobody wants 3,255 s, nor 0.1 h."""
    told = units.duration(seconds), units.rough_duration(seconds), units.short_duration(seconds)
    assert told == (exact, rough, short)


def test_round_trips() -> None:
    """To the millisecond in a column, in three figures where they are argued with."""
    assert (units.milliseconds(0.0994), units.exact_milliseconds(0.0994)) == ("99 ms", "99.4 ms")


UNITS = re.compile(r"^ ?(?:[kMG]B(?:/s)?|Mbit/s|ms)\b")
ALLOWED = {
    "flashferry/cli/history.py",  # sizes in a narrow column
    "flashferry/cli/view/device_tables.py",  # how fast a device hashes, to a decimal
    "flashferry/cli/view/live_devices.py",  # how much of how much, in one unit
    "flashferry/cli/view/plan_table.py",  # sizes of a plan, none below a megabyte
    "flashferry/devices/dialogue.py",  # limits of ours
    "flashferry/devices/netmiko_driver.py",
    "flashferry/planning/forecast.py",  # how fast platforms hash
    "flashferry/planning/estimates.py",  # a window
    "flashferry/tcp/speed_test_size.py",  # the first copy of a speed test
}
"""Modules that tell a figure in a form that nobody else needs."""


def test_nobody_else_divides_figures_for_people() -> None:
    """Whoever needs a new form gives it a name in `units`, or says here why not."""
    paths = [path for path in source_files() if "lab" not in path.parts]
    found = {path.relative_to(ROOT).as_posix() for path in paths if _divides(path)}
    assert found - {"flashferry/core/units.py"} == ALLOWED


def _divides(path: Path) -> bool:
    """Return whether a module divides a value, or multiplies it, and names the unit behind it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.JoinedStr):
            for one, behind in zip(node.values, node.values[1:], strict=False):
                is_divided = isinstance(one, ast.FormattedValue) and isinstance(one.value, ast.BinOp)
                if is_divided and isinstance(behind, ast.Constant) and UNITS.match(str(behind.value)):
                    return True
    return False
