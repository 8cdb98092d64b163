"""What a copy is expected to take and to cost, and which copies run together."""

import pytest

from flashferry.lab.experiment.cell import Cell, LinkSetting, Receiver, Sender
from flashferry.lab.experiment.pool import Turns, expected_cost, expected_share, interleaved, most_at_once
from flashferry.lab.experiment.sweep import cells

_LINK = LinkSetting(rtt_s=0.1, loss_ratio=0.01)
_FULL, _HALF, _SMALL = 1_250_000, 304_000, 16_384


def _cell(window_bytes: int, *, seed: int = 1, control: str = "bbr", seconds: float | None = 10) -> Cell:
    return Cell(
        study="test", arm="", receiver=Receiver(kind="pull", window_bytes=window_bytes), size_bytes=1, seed=seed,
        sender=Sender(program="ours", control=control), link=_LINK, seconds=seconds,
    )  # fmt: skip


def _windows(turns: Turns) -> list[int | None]:
    started = []
    while (cell := turns.begin()) is not None:
        started.append(cell.receiver.window_bytes)
    return started


@pytest.mark.parametrize(
    ("cell", "share"),
    [
        (_cell(_FULL), 1.0),
        (_cell(_SMALL), 0.027),
        (_cell(_FULL, control="auto"), 1.0),
        (_cell(_FULL, control="cubic"), 0.029),
        (_cell(_SMALL, seconds=None), 1.0),
    ],
)
def test_a_copy_takes_the_least_of_window_link_and_loss(cell: Cell, share: float) -> None:
    """BBR and `auto` may fill the link whatever is lost; a copy of a whole file counts as a full link."""
    assert expected_share(cell) == pytest.approx(share, abs=0.001)


def test_a_link_costs_something_however_little_flows() -> None:
    """A full one counts as one, one at a fortieth of that as more than a quarter."""
    assert expected_cost(_cell(_FULL)) == 1.0
    assert expected_cost(_cell(_SMALL)) == pytest.approx(0.27, abs=0.001)


def test_small_copies_overtake_large_ones_that_do_not_fit() -> None:
    """Two links take two full copies, or one and a half, and what is small fills the rest."""
    turns = Turns([_cell(each) for each in (_FULL, _HALF, _FULL, _HALF, _SMALL)], 2)
    assert _windows(turns) == [_FULL, _HALF, _SMALL]
    turns.end(_cell(_FULL))
    assert _windows(turns) == [_FULL]
    turns.end(_cell(_HALF))
    assert _windows(turns) == [_HALF]
    assert turns.is_over


def test_no_copy_overtakes_one_of_an_earlier_seed() -> None:
    """The seeds go round one after the other."""
    turns = Turns([_cell(_FULL), _cell(_FULL), _cell(_SMALL, seed=2)], 1)
    assert _windows(turns) == [_FULL]
    turns.end(_cell(_FULL))
    assert _windows(turns) == [_FULL]


def test_the_whole_sweep_keeps_four_links_busy_and_no_more() -> None:
    """Copies of equal length that take turns cost at least nine tenths of what four links may."""
    whole = interleaved(cells([1, 2], seconds=10))
    worlds = most_at_once(whole, 4)
    assert worlds == 15
    turns, in_flight, rounds = Turns(whole, 4), [], 0
    while not turns.is_over:
        while len(in_flight) < worlds and (cell := turns.begin()) is not None:
            in_flight.append(cell)
        assert sum(map(expected_cost, in_flight)) <= 4 + 1e-6
        rounds += 1
        for cell in in_flight:
            turns.end(cell)
        in_flight.clear()
    assert sum(map(expected_cost, whole)) / rounds >= 0.9 * 4


def test_copies_of_whole_files_run_on_as_many_links_as_asked_for() -> None:
    """Where nothing is known of the load, links are worlds."""
    assert most_at_once([_cell(_SMALL, seconds=None)] * 9, 3) == 3
    assert most_at_once([_cell(_SMALL)] * 2, 3) == 2
