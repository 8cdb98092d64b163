"""Failed logins per address, and who is locked out for them. Time comes in as a number: no clock in here."""

from collections import OrderedDict

_MOST_ADDRESSES = 10_000


class FailureBook:
    """Counts failed logins of addresses and locks an address out after too many.

    Args:
        failures: So many within `ban_s` lock an address out.
        ban_s: How long, in seconds, counted from the last failure.
    """

    def __init__(self, failures: int, ban_s: float) -> None:
        self._failures = failures
        self._ban_s = ban_s
        # Address to (failures, time of the last one); oldest first, so that a flood of addresses cannot fill memory.
        self._seen: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, address: str, now_s: float) -> bool:
        """Count a failure and return whether the address is locked out now."""
        count, _ = self._recent(address, now_s)
        self._seen[address] = (count + 1, now_s)
        self._seen.move_to_end(address)
        self.prune(now_s)
        while len(self._seen) > _MOST_ADDRESSES:
            self._seen.popitem(last=False)
        return self.locked_out(address, now_s)

    def prune(self, now_s: float) -> None:
        """Forget the failures that no longer count."""
        while self._seen and now_s - next(iter(self._seen.values()))[1] > self._ban_s:
            self._seen.popitem(last=False)

    def __len__(self) -> int:
        return len(self._seen)

    def forgive(self, address: str) -> None:
        """Forget an address, after a login that succeeded."""
        self._seen.pop(address, None)

    def locked_out(self, address: str, now_s: float) -> bool:
        """Tell whether an address is locked out."""
        return self._recent(address, now_s)[0] >= self._failures

    def _recent(self, address: str, now_s: float) -> tuple[int, float]:
        count, last_s = self._seen.get(address, (0, now_s))
        return (0, now_s) if now_s - last_s > self._ban_s else (count, last_s)


class CommandBudget:
    """How many commands a session may still send: a bucket that fills at a steady rate.

    Args:
        burst: Commands it holds when full, as it is at the start.
        per_s: Commands it gains per second.
        now_s: The present time in seconds.
    """

    __slots__ = ("_burst", "_left", "_per_s", "_then_s")

    def __init__(self, burst: int, per_s: float, now_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._then_s = now_s

    def take(self, now_s: float) -> bool:
        """Take one command out; return False if there is none left."""
        self._left = min(float(self._burst), self._left + (now_s - self._then_s) * self._per_s)
        self._then_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
