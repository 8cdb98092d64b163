"""Whether a file shrinks when it is compressed: decided by a sample of it. Pure, but for reading what is here.

OS images are compressed and signed: deflate takes nothing off them, and compressing in flight only costs processor
time. That is decided of each file by pieces of it and not by its name: 16 pieces of 64 KiB, evenly spread.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashferry.core.units import size

PIECES, PIECE_BYTES = 16, 64 << 10
LEAST_RATIO = 1.05
"""Less than this is not worth any processor time."""
_LEVEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrinking:
    """How far a sample shrinks.

    Attributes:
        ratio: Its size over its size when compressed; 1.0 and less: not at all.
        sample_bytes: Of how much that is known.
    """

    ratio: float
    sample_bytes: int

    @property
    def helps(self) -> bool:
        """Whether compressing could pay on a link that is slow enough."""
        return self.ratio >= LEAST_RATIO

    def told(self) -> str:
        """Say it in a sentence."""
        if not self.sample_bytes:
            return "Compression: off, for nothing of the file could be read to see whether it shrinks."
        share = f"a sample of {size(self.sample_bytes)} shrinks by a ratio of {self.ratio:.2f} (deflate)"
        if self.helps:
            return (
                f"Compression: {share}; it pays only where the link is slower than the compressor times "
                f"{1 - 1 / self.ratio:.2f}."
            )
        return f"Compression: off, for {share}, less than {LEAST_RATIO:g}: it would only cost processor time."


def offsets(size_bytes: int) -> list[int]:
    """Return the numbers of the blocks of 64 KiB to look at, evenly spread over a file."""
    blocks = max(1, size_bytes // PIECE_BYTES)
    count = min(PIECES, blocks)
    return [number * blocks // count for number in range(count)]


def shrinking(pieces: Sequence[bytes]) -> Shrinking:
    """Return how far some pieces of a file shrink, each by itself."""
    whole = sum(len(piece) for piece in pieces)
    squeezed = sum(len(zlib.compress(piece, _LEVEL)) for piece in pieces if piece)
    return Shrinking(ratio=whole / squeezed if squeezed else 1.0, sample_bytes=whole)


def shrinking_of(size_bytes: int, piece: Callable[[int], bytes]) -> Shrinking:
    """Return how far a file shrinks.

    Args:
        size_bytes: Its size.
        piece: Returns the block of 64 KiB of that number.
    """
    return shrinking([piece(number) for number in offsets(size_bytes)])
