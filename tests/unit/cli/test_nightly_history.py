"""`flashferry nightly history`: series with their trend, nights with their results, as table, document and page."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from flashferry.cli.program import build
from flashferry.core.values import replace
from flashferry.nightly.history import keep, past
from flashferry.nightly.night import Night, NightCopy
from flashferry.nightly.thresholds import judge_night

BEGUN = datetime(2026, 11, 1, 1, 0, tzinfo=UTC)


def some_night(number: int, rate: float = 4.9e6) -> Night:
    began = BEGUN + timedelta(days=number)
    copy = NightCopy(
        node="xe1",
        node_definition="cat8000v",
        image_definition=None,
        condition="wan50",
        transport="ftp",
        verb="probe",
        is_tuned=True,
        rate_bytes_per_s=rate,
        duration_s=5.0,
    )
    return Night(
        night_id=f"ff-nightly-{began:%Y%m%dT%H%M}-0000",
        started_at=began,
        ended_at=began + timedelta(minutes=9),
        backend="cml",
        controller_version="2.9.0",
        kernel="6.12.48-1-a-very-long-name-of-a-builder",
        tool_version="0.1.0",
        copies=(copy,) * 5,
    )


@pytest.fixture
def state(tmp_path):
    """Twelve good nights, one off its condition, two that are slow."""
    folder = tmp_path / "state"
    off = replace(some_night(12, 2e6), is_comparable=False, not_comparable_because="link wan: 250 ms")
    for night in (*map(some_night, range(12)), off, some_night(13, 4.2e6), some_night(14, 4.2e6)):
        keep(folder, judge_night(night, past(folder)))
    return folder


def said(*words: object, columns: int = 150) -> str:
    arguments = ["nightly", "history", *map(str, words)]
    done = CliRunner(env={"COLUMNS": str(columns)}).invoke(build(), arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_each_series_and_each_night_has_a_line(state):
    """Trend, last figure, what was expected, and the judgement; nights with the last one first, and why."""
    text = said("--state-dir", state)
    (series,) = (line for line in text.splitlines() if line.startswith("cat8000v, wan50: probe by ftp "))
    assert "████████████▇▇" in series
    assert series.split()[-7:] == ["4.20", "MB/s", "4.90", "MB/s", "4.66", "MB/s", "red"]
    table = text[: text.index("5 earlier nights")]
    begun = [line.split()[0] for line in table.splitlines() if "ff-nightly-" in line]
    assert begun == sorted(begun, reverse=True)
    assert len(begun) == 10
    assert "5 earlier nights" in text
    assert "not compared: link wan: 250 ms" in text
    assert "2 nights in a row or more" in text


def test_a_narrow_terminal_has_what_matters(state):
    """Nothing is wider than it; the judgement is there."""
    lines = said("--state-dir", state, columns=80).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert any("red" in line for line in lines)


@pytest.mark.parametrize("columns", [110, 160])
def test_a_wide_terminal_has_a_table_that_fits_100_columns(state, columns):
    """With the nights' ids, which say when they began, and the kernel without its builder's words."""
    text = said("--state-dir", state, columns=columns)
    rows = text[text.index("night  ") :].splitlines()[:11]
    assert max(len(row.rstrip()) for row in rows) <= 100
    assert all(row.startswith("ff-nightly-") for row in rows[1:])
    assert all(" 6.12.48-1 " in row for row in rows[1:])


def test_programs_get_all_of_it(state):
    """Nights and series of as many nights as asked for."""
    document = json.loads(said("--state-dir", state, "--json", "--last", 3))
    assert document["schema"] == "flashferry.nightly-history/1"
    assert document["meaning"] == "the nights were read; no lab was touched"
    assert [one["is_comparable"] for one in document["nights"]] == [False, True, True]
    (series,) = document["series"]
    assert [point["colour"] for point in series["points"]] == ["no_history", "amber", "red"]


def test_the_page_is_written_whole(state, tmp_path):
    """A graph per series, a row per night; into a folder that is not there, a sentence."""
    page = tmp_path / "nights.html"
    said("--state-dir", state, "--html", page)
    text = page.read_text()
    assert text.count("<svg") == 1
    assert text.count("ff-nightly-") == 15


def test_without_any_night_it_says_so(tmp_path):
    """And makes nothing."""
    assert "no night is kept yet" in said("--state-dir", tmp_path / "none")
    assert not (tmp_path / "none").exists()
