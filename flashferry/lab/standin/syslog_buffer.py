"""The notices in `show version`, as every capture has them."""

from __future__ import annotations

from collections import deque

XE_LICENCE = """\
Cisco IOS-XE software, Copyright (c) 2005-{year} by cisco Systems, Inc.
All rights reserved.  Certain components of Cisco IOS-XE software are
licensed under the GNU General Public License ("GPL") Version 2.0.  The
software code licensed under GPL Version 2.0 is free software that comes
with ABSOLUTELY NO WARRANTY.  You can redistribute and/or modify such
GPL code under the terms of GPL Version 2.0.  For more details, see the
documentation or "License Notice" file accompanying the IOS-XE software,
or the applicable URL provided on the flyer accompanying the IOS-XE
software."""

"""Behind the compile line of IOS-XE; the year is filled in."""

CRYPTOGRAPHY = """\
This product contains cryptographic features and is subject to United
States and local country laws governing import, export, transfer and
use. Delivery of Cisco cryptographic products does not imply
third-party authority to import, export, distribute or use encryption.
Importers, exporters, distributors and users are responsible for
compliance with U.S. and local country laws. By using this product you
agree to comply with applicable laws and regulations. If you are unable
to comply with U.S. and local laws, return this product immediately.

A summary of U.S. laws governing Cisco cryptographic products may be found at:
http://www.cisco.com/wwl/export/crypto/tool/stqrg.html

If you require further assistance please contact us by sending email to
export@cisco.com."""

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
