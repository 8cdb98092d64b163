"""How much of a link a copy will take, and which copies may run together: arithmetic, no processes.

Most cells of the sweep are held by their window or by loss and leave the machine idle. So as many run at once as
together bring the traffic of a given number of full links; that, and not the number of worlds, is what it costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tcp.models import cubic_bytes_per_s, window_limited_bytes_per_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.experiment.cell import Cell

_MSS_BYTES = 1460
_WORLDS_PER_LINK = 4
"""Worlds cost memory, and a share of the processor even when next to nothing flows."""
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
    if cell.sender.control == "cubic":
        ceilings.append(cubic_bytes_per_s(link.loss_ratio, link.rtt_s, _MSS_BYTES))
    return min(ceilings) / link.payload_bytes_per_s


def most_at_once(cells: Sequence[Cell], links: int) -> int:
    """Return how many of the cells can be under way together at most."""
    total, count = 0.0, 0
    for share in sorted(expected_share(cell) for cell in cells):
        total += share
        if total > links + _ROUNDING or count == links * _WORLDS_PER_LINK:
            break
        count += 1
    return count


class Turns:
    """Hands out cells so that those under way together take no more than so many full links.

    Args:
        cells: In the order wanted. A cell that does not fit yet is overtaken by smaller ones of its own seed, so that
            the seeds still go round one after the other.
        links: As much traffic at once as so many full links, at least 1.
    """

    def __init__(self, cells: Sequence[Cell], links: int) -> None:
        self._left = list(cells)
        self._links = links
        self._busy = 0.0
        self._under_way = 0

    @property
    def is_over(self) -> bool:
        """Whether every cell has been handed out."""
        return not self._left

    def begin(self) -> Cell | None:
        """Return the next cell that fits, which is under way from now on; None if none fits at the moment."""
        for number, cell in enumerate(self._left):
            if cell.seed != self._left[0].seed:
                break
            share = expected_share(cell)
            if not self._under_way or self._busy + share <= self._links + _ROUNDING:
                self._busy += share
                self._under_way += 1
                return self._left.pop(number)
        return None

    def end(self, cell: Cell) -> None:
        """Take note that a cell is under way no more."""
        self._busy -= expected_share(cell)
        self._under_way -= 1
