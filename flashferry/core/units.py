"""Figures for people: rates, sizes and lengths of time in words, each kind in one place. Pure.

Values come in base units (bytes, bytes per second, bits per second, seconds) and leave with their unit. Where a figure
may be missing, the caller says what stands in its place: missing is never 0.
"""

from __future__ import annotations


def rate(bytes_per_s: float, *, finest: int = 3) -> str:
    """Return the rate of a copy, always in one unit, for rates are compared at a glance: `5.43 MB/s`, `0.083 MB/s`.

    Args:
        bytes_per_s: Payload, from 0.
        finest: Decimals of what is below 10 kB/s, 3 or 4.
    """
    decimals = 2 if bytes_per_s >= 995_000 else 3 if bytes_per_s >= 9_950 else finest
    return f"{bytes_per_s / 1e6:.{decimals}f} MB/s"


def coarse_rate(bytes_per_s: float) -> str:
    """Return a rate that changes while it is read, to two decimals: `5.43 MB/s`, `0.08 MB/s`."""
    return f"{bytes_per_s / 1e6:.2f} MB/s"


def exact_rate(bytes_per_s: float) -> str:
    """Return a rate in a sentence that argues with it, in three figures: `5.43 MB/s`, `0.0832 MB/s`, `1,250 MB/s`."""
    found = bytes_per_s / 1e6
    return f"{found:,.0f} MB/s" if found >= 1000 else f"{found:.3g} MB/s"


def bound_rate(bytes_per_s: float) -> str:
    """Return a rate that bounds others, in two or three figures and the unit that fits it: `82 kB/s`, `5.9 MB/s`."""
    if bytes_per_s < 999_500:
        return f"{bytes_per_s / 1e3:.0f} kB/s" if bytes_per_s >= 9_950 else f"{bytes_per_s / 1e3:.1f} kB/s"
    return f"{bytes_per_s / 1e6:.1f} MB/s" if bytes_per_s < 99.95e6 else f"{bytes_per_s / 1e6:,.0f} MB/s"


def link_rate(bits_per_s: float) -> str:
    """Return the rate of a link as it is stated: `50 Mbit/s`, `0.512 Mbit/s`."""
    return f"{bits_per_s / 1e6:g} Mbit/s"


def learned_link_rate(bits_per_s: float) -> str:
    """Return the rate of a link as it was measured, in three figures: `48.7 Mbit/s`."""
    return f"{bits_per_s / 1e6:.3g} Mbit/s"


def megabytes(count_bytes: float) -> str:
    """Return an amount of bytes to the megabyte: `1,204 MB`."""
    return f"{count_bytes / 1e6:,.0f} MB"


def rough_megabytes(count_bytes: float) -> str:
    """Return the size of a speed test's copy in two figures: `0.066 MB`, `25 MB`."""
    return f"{count_bytes / 1e6:.2g} MB"


def size(count_bytes: float) -> str:
    """Return an amount of bytes in the unit that fits it: `25.0 MB`, `1.20 GB`."""
    for divisor, unit, decimals in ((1e12, "TB", 2), (1e9, "GB", 2), (1e6, "MB", 1), (1e3, "kB", 1)):
        if count_bytes >= 0.9995 * divisor:
            return f"{count_bytes / divisor:.{decimals}f} {unit}"
    return f"{count_bytes:.0f} B"


def duration(seconds: float) -> str:
    """Return how long something took: `13.6 s`, `5 min 10 s`, `2 h 05 min`."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rough_duration(seconds: float) -> str:
    """Return how long something will take by a forecast: `48 s`, `12 min`, `3 h 05 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def short_duration(seconds: float) -> str:
    """Return the same in one unit, where a column is narrow or several are compared: `48 s`, `12 min`, `3.1 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def milliseconds(seconds: float) -> str:
    """Return a round-trip time to the millisecond: `99 ms`."""
    return f"{seconds * 1e3:.0f} ms"


def exact_milliseconds(seconds: float) -> str:
    """Return a round-trip time in three figures: `99.4 ms`."""
    return f"{seconds * 1e3:.3g} ms"
