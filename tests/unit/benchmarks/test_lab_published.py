"""The table of both receiver profiles: rate, window and wire beside the article's."""

import pytest

from benchmarks.lab_published import (
    BASELINE,
    gains_table,
    off,
    rates_table,
    steady_bps,
    steady_window_bytes,
    traces_table,
)
from flashferry.lab.experiment.cell import Measured
from flashferry.lab.experiment.published import LINK, cells, in_profile
from flashferry.lab.standin.receiver import OPTIMISTIC, PUBLISHED
from flashferry.tcp.sample import Sample


def _run(arm: str, profile: str, rate: float, window_bytes: int) -> Measured:
    """Return a run whose window was wide open for four seconds, and after five the one given."""
    cell = in_profile(next(one for one in cells([1], senders=(BASELINE,)) if one.arm == arm), profile)
    samples = tuple(
        Sample(
            at_s=at, rtt_us=100_000, snd_mss_bytes=1460, snd_cwnd_segments=10, unacked_segments=9,
            bytes_acked=int(rate * at), snd_wnd_bytes=window_bytes if at > 4 else 2_500_000,
        )
        for at in range(11)
    )  # fmt: skip
    return Measured(
        cell=cell, started_at="2026-01-02T03:04:05+00:00", load=0.5, size_bytes=cell.size_bytes,
        seconds=cell.size_bytes / rate, samples=samples,
    )  # fmt: skip


RUNS = [
    _run("IOS-XE default", PUBLISHED, 150_000, 14_600),
    _run("IOS-XE tuned", PUBLISHED, 1.65e6, 190_000),
    _run("IOS-XE tuned", OPTIMISTIC, 4.8e6, 2_000_000),
    _run("IOS tuned", PUBLISHED, 87_000, 9_000),
]


def test_the_published_profile_has_the_losses_of_the_article_and_no_chance() -> None:
    """Where the article says when packets were lost, the link loses those; elsewhere its ratio stays."""
    tuned, default = RUNS[1].cell.link, RUNS[0].cell.link
    assert (tuned.loss_ratio, tuned.loss_times_s) == (0.0, (6, 13.5, 31))
    assert (default.loss_ratio, default.loss_times_s) == (LINK.loss_ratio, ())
    assert RUNS[2].cell.link == LINK


def test_windows_and_rates_count_from_the_steady_part_on() -> None:
    """The first seconds, in which a buffer fills, are left out; frames are larger than their payload."""
    assert steady_window_bytes(RUNS[3]) == 9_000
    assert steady_bps(RUNS[3]) == pytest.approx(87_000 * 8 * 1514 / 1460, rel=0.001)


@pytest.mark.parametrize(("found", "text"), [(9_000, "-15%"), (11_000, "+0%"), (13_204, "+10%"), (None, "")])
def test_a_figure_within_what_a_graph_shows_is_not_off(found: float | None, text: str) -> None:
    """Beyond it, the nearer edge counts."""
    assert off(found, 10_544, 12_004) == text


def test_both_profiles_stand_beside_the_article() -> None:
    """Rates with their ratio, windows with how far they are off, and what tuning gains by each profile."""
    assert "| IOS-XE tuned | 1.60 | 1.65 | 1.65 to 1.65 | 1.03 | 4.80 | 4.80 to 4.80 | 2.99 |  |" in rates_table(RUNS)
    assert "| IOS tuned | 10,544 to 12,004 | 9,000 (-15%) |  |" in traces_table(RUNS)
    assert "| IOS-XE tuned | not given | 190,000 | 2,000,000 |" in traces_table(RUNS)
    assert "| IOS-XE | 11x | 11x |  |  |  |" in gains_table(RUNS)
