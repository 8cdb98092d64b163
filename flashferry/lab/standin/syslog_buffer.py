"""The log buffer of a device: what `show logging` prints."""

from __future__ import annotations

from collections import deque

DEFAULT_BYTES = 4096
"""`logging buffered` without a size (Cisco command reference)."""


class LogBuffer:
    """The last messages, as many as fit in the buffer.

    Attributes:
        size_bytes: How much it holds.
        count: Messages since the device booted.
        monitored: How many of them a session saw by `terminal monitor`.
    """

    def __init__(self, size_bytes: int = DEFAULT_BYTES) -> None:
        self.size_bytes = size_bytes
        self.count = 0
        self.monitored = 0
        self._lines: deque[str] = deque()

    def add(self, line: str, *, monitored: bool) -> None:
        """Take a message; the oldest give way."""
        self.count += 1
        self.monitored += monitored
        self._lines.append(line)
        self._fit()

    def resize(self, size_bytes: int) -> None:
        """Hold more, or less."""
        self.size_bytes = size_bytes
        self._fit()

    def lines(self) -> list[str]:
        """Return the messages, the oldest first."""
        return list(self._lines)

    def _fit(self) -> None:
        while self._lines and sum(len(line) + 1 for line in self._lines) > self.size_bytes:
            self._lines.popleft()
