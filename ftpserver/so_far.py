"""When the verdict on a transfer under way is worth forming anew: rarely, for it takes a millisecond or two."""

from zlib import crc32

from flashferry.tcp.verdict import VerdictKind

FIRST_AFTER_S = 5.0
"""Before that few readings are in, and a short transfer has its final verdict soon."""

_GROWTH = 1.4
_SPREAD = 0.2


class SoFar:
    """The verdict so far, and when to look again.

    It is about the whole transfer, so it changes ever more slowly, and each pause is longer than the one before: an
    hour takes about fifteen looks. Transfers that began together do not look together.

    Args:
        ticket_id: Any text that differs from transfer to transfer.
    """

    __slots__ = ("_growth", "_next_s", "kind")

    def __init__(self, ticket_id: str) -> None:
        self.kind: VerdictKind | None = None
        self._growth = _GROWTH + _SPREAD * (crc32(ticket_id.encode()) % 100) / 100
        self._next_s = FIRST_AFTER_S * self._growth / _GROWTH

    def is_due(self, elapsed_s: float) -> bool:
        """Tell whether to look now, and plan the next look.

        Args:
            elapsed_s: Seconds since the transfer began.
        """
        if elapsed_s < self._next_s:
            return False
        self._next_s = elapsed_s * self._growth
        return True
