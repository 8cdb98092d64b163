"""The notices in `show version`, as every capture has them."""

from __future__ import annotations

from collections import deque

from flashferry.lab.standin.texts_data import printed

XE_LICENCE = printed("licence of IOS-XE")
"""Behind the compile line of IOS-XE; the year is filled in."""

CRYPTOGRAPHY = printed("cryptography")
"""In front of the hardware lines."""

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

    def clear(self) -> None:
        """Forget the messages."""
        self._lines.clear()

    def lines(self) -> list[str]:
        """Return the messages, the oldest first."""
        return list(self._lines)

    def _fit(self) -> None:
        while self._lines and sum(len(line) + 1 for line in self._lines) > self.size_bytes:
            self._lines.popleft()
