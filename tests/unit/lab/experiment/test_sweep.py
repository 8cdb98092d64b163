"""The grid, what a cell was built to be limited by, and how far `auto` is from the best."""

import re
from pathlib import Path

import pytest

from flashferry.lab.experiment import sweep
from flashferry.lab.experiment.cell import Cell, Judgement, Measured, Sender
from flashferry.lab.experiment.study import Plan
from flashferry.lab.experiment.sweep import AUTO, SENDERS, Place, by_place, cells, limits_of, place_of, regrets
from flashferry.lab.experiment.sweep import _coloured as coloured

CUBIC, BBR, CAPPED, _ = SENDERS


def _cell(loss: float, rtt_s: float, window: str, sender: Sender, *, sack: bool = True, seed: int = 1) -> Cell:
    found = cells([seed], seconds=10, losses=[loss], rtts_s=[rtt_s], windows=[window], sacks=[sack])
    return next(cell for cell in found if cell.sender == sender)


def _run(cell: Cell, rate: float, *, kind: str = "cap", again: int = 0) -> Measured:
    verdict = Judgement(kind=kind, share=1.0, sentence="", evidence=(), advice="", by="server")
    return Measured(
        cell=cell, started_at="2026-11-22T00:00:00+00:00", load=0, size_bytes=int(rate * 10), seconds=10,
        sent_bytes=1000, again_bytes=again, control="bbr" if cell.sender.control != "cubic" else "cubic",
        judgement=verdict,
    )  # fmt: skip


def test_the_grid_is_whole() -> None:
    """4 losses, 4 round trips, 2 SACK, 3 windows, 4 senders and 5 seeds are 1,920 runs, all of them different."""
    grid = cells(range(5), seconds=10)
    assert len(grid) == 1920
    assert len({cell.key for cell in grid}) == 1920


@pytest.mark.parametrize("window", sweep.WINDOWS)
@pytest.mark.parametrize("rtt_s", sweep.RTTS_S)
def test_a_place_is_found_again_from_its_cell(window: str, rtt_s: float) -> None:
    """The words of the grid can be read back from what was run."""
    place = Place(loss_ratio=0.001, rtt_s=rtt_s, sack=False, window=window)
    assert place_of(_cell(0.001, rtt_s, window, CUBIC, sack=False)) == place


@pytest.mark.parametrize(
    ("loss", "rtt_s", "window", "sender", "control", "right"),
    [
        (0.01, 0.1, "default", CUBIC, "cubic", {"window", "random loss"}),
        (0.0, 0.1, "64 kB", BBR, "bbr", {"window"}),
        (0.01, 0.1, "auto", CUBIC, "cubic", {"random loss"}),
        (0.01, 0.1, "auto", CAPPED, "bbr", {"cap", "bandwidth"}),
        (0.01, 0.1, "auto", BBR, "bbr", {"bandwidth"}),
        (0.0001, 0.1, "auto", CUBIC, "cubic", {"bandwidth", "random loss"}),
        (0.0, 0.01, "64 kB", CUBIC, "cubic", {"bandwidth", "window"}),
        (0.001, 0.1, "auto", AUTO, "cubic", {"random loss"}),
    ],
)
def test_a_cell_is_limited_by_its_least_ceiling(
    loss: float, rtt_s: float, window: str, sender: Sender, control: str, right: set[str]
) -> None:
    """The least of window, link, cap and the model of loss, and what is close to it; BBR has no ceiling from loss."""
    assert limits_of(_cell(loss, rtt_s, window, sender), control) == right


@pytest.mark.parametrize(
    ("loss", "rtt_s", "sender", "control", "right"),
    [
        (0.01, 0.1, CAPPED, "bbr", {"random loss"}),
        (0.01, 0.01, CAPPED, "bbr", {"bandwidth", "cap"}),
        (0.0, 0.3, BBR, "bbr", {"random loss"}),
        (0.0, 0.3, CAPPED, "bbr", {"bandwidth", "cap"}),
        (0.0, 0.3, CUBIC, "cubic", {"bandwidth", "random loss"}),
        (0.0, 0.1, BBR, "bbr", {"bandwidth"}),
    ],
)
def test_without_sack_repairs_limit_a_sender_of_any_kind(
    loss: float, rtt_s: float, sender: Sender, control: str, right: set[str]
) -> None:
    """A hole costs a round trip, also one that a start-up without a cap leaves where the window overruns the queue."""
    assert limits_of(_cell(loss, rtt_s, "auto", sender, sack=False), control) == right


def test_regret_is_what_auto_misses_of_the_best_other_sender() -> None:
    """Medians over the seeds are compared; a share sent again above 5 % is marked."""
    runs = []
    for seed, factor in ((1, 1.0), (2, 1.1), (3, 9.0)):
        runs += [
            _run(_cell(0.001, 0.1, "auto", CUBIC, seed=seed), 1e6 * factor, kind="random loss"),
            _run(_cell(0.001, 0.1, "auto", CAPPED, seed=seed), 5e6 * factor),
            _run(_cell(0.001, 0.1, "auto", AUTO, seed=seed), 4e6 * factor, kind="window", again=60),
        ]
    places = by_place(runs)
    (regret,) = regrets(places)
    assert regret.best_sender == CAPPED
    assert regret.share == pytest.approx(0.2)
    assert regret.wastes
    arms = places[regret.place]
    assert [arms[sender].right_verdicts for sender in (CUBIC, CAPPED, AUTO)] == [3, 3, 0]


def test_a_failed_run_counts_for_nothing() -> None:
    """A run without a figure is in no median."""
    good = _run(_cell(0.0, 0.1, "auto", CUBIC), 1e6)
    bad = Measured(cell=_cell(0.0, 0.1, "auto", CUBIC, seed=2), started_at="", load=0, error="gone")
    ((arms),) = by_place([good, bad]).values()
    assert arms[CUBIC].runs == 1


def test_every_place_of_the_heat_map_has_its_colour() -> None:
    """Neighbours too, and each by its own figure; figures that are no regret have none."""
    rows = "| 0.01% | 0 % | 0 % | 7 % |\n| 1.00% | 24 % ! | 5 % | 54 % |"
    html = coloured(f"| loss | a | b | c |\n|---|---|---|---|\n{rows}")
    assert re.findall(r'<td class="n (h\d)">([^<]*)', html) == [
        ("h0", "0 %"), ("h0", "0 %"), ("h1", "7 %"), ("h3", "24 % !"), ("h0", "5 %"), ("h4", "54 %"),
    ]  # fmt: skip


def test_the_goodput_of_each_place_stays_in_the_folder(tmp_path: Path) -> None:
    """The page has the sentences and where auto misses much; the tables of all places are in report.md."""
    runs = [_run(cell, 1e6) for cell in cells([1], seconds=10)[:4]]
    plan = Plan(folder=tmp_path, links=1, minutes=None, command="x")
    text = sweep.write_sweep(runs, plan)
    assert "best sender's goodput at: no place." in text
    assert "Goodput" not in text
    assert "Goodput in MB/s" in (tmp_path / "report.md").read_text()
