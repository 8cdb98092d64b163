"""Bars, rates, amounts and times for a live view, each no wider than its column."""

from __future__ import annotations

_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


def bar(share: float, width: int, *, plain: bool) -> tuple[str, str]:
    """Return the done and the undone part of a bar.

    Args:
        share: How much is done, 0 to 1.
        width: Columns of both parts together.
        plain: Whether only ASCII can be shown.
    """
    # Full only when all is done: rounding must not promise an end.
    filled = width if share >= 1 else min(width - 1, int(share * width))
    done, undone = ("#", ".") if plain else ("━", "─")
    return done * filled, undone * (width - filled)


def percent(share: float) -> str:
    """Return a share; 100 % only when all is done."""
    return f"{min(int(share * 100), 99 if share < 1 else 100)}%"


def rate(bytes_per_s: float) -> str:
    """Return a rate in MB/s with three figures or so, without its unit; a dash for none."""
    found = bytes_per_s / 1e6
    if found < 0.000_5:
        return "-"
    return f"{found:.3f}" if found < 1 else f"{found:.2f}" if found < 100 else f"{found:,.0f}"


def amount(done_bytes: float, all_bytes: float) -> str:
    """Return how much of how much in the unit that fits the whole."""
    for size, unit in _UNITS:
        if all_bytes >= size:
            return f"{done_bytes / size:,.1f} of {all_bytes / size:,.1f} {unit}"
    return f"{done_bytes / 1e6:.2f} of {all_bytes / 1e6:.2f} MB"


def clock(seconds: float) -> str:
    """Return a time as `4:05` or `1:02:03`."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 1000:
        return f"{hours // 24} days"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def left(seconds: float | None) -> str:
    """Return a time that is left; nothing where nobody can tell."""
    return "" if seconds is None else f"{clock(seconds)} left"
