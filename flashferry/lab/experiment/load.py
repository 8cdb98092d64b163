"""What a copy costs the machine, and which copies may run together: arithmetic, no processes.

Most cells of the sweep are held by their window or by loss and take little of the processor. So as many run at once as
together cost what a given number of full links do. A link takes its turns however little flows: sixteen slow copies at
once filled two cores that four full links do not, and copies without any loss were stopped by timeouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashferry.tcp.models import cubic_bytes_per_s, window_limited_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashferry.lab.experiment.cell import Cell

_MSS_BYTES = 1460
_COST_OF_TURNS = 0.25
"""What a link costs when next to nothing flows, of what a full one does."""
_ROUNDING = 1e-9


def expected_share(cell: Cell) -> float:
    """Return the share of its link that a copy is expected to take, above 0 and up to 1.

    Only of a copy that lasts a given time and has a known window; any other counts as a full link, as it decides for
    itself how long it takes. CUBIC is held by loss; `auto` may end up with BBR, which is not.
    """
    window = cell.receiver.window_bytes
    if cell.seconds is None or cell.beside or window is None:
        return 1.0
    link = cell.link
    ceilings = [link.payload_bytes_per_s, window_limited_bytes_per_s(window, link.rtt_s)]
    if cell.receiver.read_bytes_per_s is not None:
        ceilings.append(cell.receiver.read_bytes_per_s)
    if link.policer_bps is not None:
        ceilings.append(link.policer_bps / 8)
    if cell.sender.control == "cubic":
        ceilings.append(cubic_bytes_per_s(link.loss_ratio, link.rtt_s, _MSS_BYTES))
    return min(ceilings) / link.payload_bytes_per_s


def expected_cost(cell: Cell) -> float:
    """Return what a copy is expected to cost the processor, 1 being a full link."""
    return _COST_OF_TURNS + (1 - _COST_OF_TURNS) * expected_share(cell)


def most_at_once(cells: Sequence[Cell], links: int) -> int:
    """Return how many of the cells can be under way together at most."""
    total, count = 0.0, 0
    for cost in sorted(expected_cost(cell) for cell in cells):
        total += cost
        if total > links + _ROUNDING:
            break
        count += 1
    return count


class Turns:
    """Hands out cells so that those under way together cost no more than so many full links.

    Args:
        cells: In the order wanted. A cell that does not fit yet is overtaken by smaller ones of its own seed, so that
            the seeds still go round one after the other.
        links: As many as cost as much as so many full links, at least 1.
    """

    def __init__(self, cells: Sequence[Cell], links: int) -> None:
        self._left = list(cells)
        self._links = links
        self._busy = 0.0
        self._running = 0

    @property
    def is_over(self) -> bool:
        """Whether every cell has been handed out."""
        return not self._left

    def begin(self) -> Cell | None:
        """Return the next cell that fits, which is under way from now on; None if none fits at the moment."""
        for number, cell in enumerate(self._left):
            if cell.seed != self._left[0].seed:
                break
            cost = expected_cost(cell)
            if not self._running or self._busy + cost <= self._links + _ROUNDING:
                self._busy += cost
                self._running += 1
                return self._left.pop(number)
        return None

    def end(self, cell: Cell) -> None:
        """Take note that a cell is under way no more."""
        self._busy -= expected_cost(cell)
        self._running -= 1
