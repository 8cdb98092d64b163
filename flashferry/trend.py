"""Speeds over time as a line of blocks, one for each kind of copy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from flashferry.layout import rate

if TYPE_CHECKING:
    from staging.store.measurement import Measurement

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 30
_LEAST = 3
"""Two copies are a pair, not a trend."""


def trend(copies: Sequence[Measurement]) -> Iterator[str]:
    """Yield a line for each kind of copy of which there are several, the oldest copy on the left.

    Args:
        copies: A device's copies, the oldest first.
    """
    for to_null in (False, True):
        for tuned in (True, False):
            speeds = [one.bytes_per_s for one in copies if (one.to_null, one.tuned) == (to_null, tuned) and one.counts]
            if len(speeds) >= _LEAST:
                what = f"{'to null:' if to_null else 'to flash'}, {'tuned' if tuned else 'as it is'}"
                last = speeds[-_WIDTH:]
                yield f"{what:<18} {blocks(last)}  last {rate(last[-1])}, best {rate(max(speeds))}"


def blocks(speeds: Sequence[float]) -> str:
    """Return a block for each speed; the fastest is full, one of nothing would be empty."""
    top = max(speeds, default=0.0) or 1.0
    return "".join(_BLOCKS[min(int(speed / top * len(_BLOCKS)), len(_BLOCKS) - 1)] for speed in speeds)
