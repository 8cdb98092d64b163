"""What waits to be sent on a connection, in little room: most of the time nothing does.

An empty `collections.deque`, which the library uses, takes 0.7 kB; a session has two of them, and there may be
thousands of sessions.
"""

from typing import Any


class Fifo(list[Any]):
    """A list with the two methods of a deque that `asynchat` calls; a handful of replies at most is in it."""

    __slots__ = ()

    def appendleft(self, item: Any) -> None:
        """Put something before all the rest."""
        self.insert(0, item)

    def popleft(self) -> Any:
        """Take the first out."""
        return self.pop(0)
