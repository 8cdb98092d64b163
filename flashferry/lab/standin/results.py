"""The line that ends every copy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PullResult:
    """What came, by the device's own monotonic clock."""

    size_bytes: int
    seconds: float


def result_line(result: PullResult) -> str:
    """Return the ``bytes copied`` line; the rate is that of the printed seconds, rounded to nearest (17 captures)."""
    seconds = round(result.seconds, 3)
    rate = int(result.size_bytes / seconds + 0.5) if seconds else 0
    return f"{result.size_bytes} bytes copied in {seconds:.3f} secs ({rate} bytes/sec)"
