"""Formatting of rates, sizes, durations and counts for display. Pure.

Arguments are in base units (bytes, bytes per second, bits per second, seconds); results include the unit. A caller that
may have no value shows a placeholder instead: a missing value is never shown as 0.
"""

from __future__ import annotations


def rate(bytes_per_s: float, *, finest: int = 3) -> str:
    """Format the rate of a copy, always in MB/s so that rates are easy to compare: `5.43 MB/s`, `0.083 MB/s`.

    Args:
        bytes_per_s: Payload rate, >= 0.
        finest: Decimals below 10 kB/s, 3 or 4.
    """
    decimals = 2 if bytes_per_s >= 995_000 else 3 if bytes_per_s >= 9_950 else finest
    return f"{bytes_per_s / 1e6:.{decimals}f} MB/s"


def coarse_rate(bytes_per_s: float) -> str:
    """Format a rate in a live display, with two decimals: `5.43 MB/s`, `0.08 MB/s`."""
    return f"{bytes_per_s / 1e6:.2f} MB/s"


def exact_rate(bytes_per_s: float) -> str:
    """Format a rate as evidence in a sentence, with three digits: `5.43 MB/s`, `0.0832 MB/s`, `1,250 MB/s`."""
    found = bytes_per_s / 1e6
    return f"{found:,.0f} MB/s" if found >= 1000 else f"{found:.3g} MB/s"


def bound_rate(bytes_per_s: float) -> str:
    """Format a rate that is a bound, with two or three digits and the unit that fits: `82 kB/s`, `5.9 MB/s`."""
    if bytes_per_s < 999_500:
        return f"{bytes_per_s / 1e3:.0f} kB/s" if bytes_per_s >= 9_950 else f"{bytes_per_s / 1e3:.1f} kB/s"
    return f"{bytes_per_s / 1e6:.1f} MB/s" if bytes_per_s < 99.95e6 else f"{bytes_per_s / 1e6:,.0f} MB/s"


def link_rate(bits_per_s: float) -> str:
    """Format a configured link rate: `50 Mbit/s`, `0.512 Mbit/s`."""
    return f"{bits_per_s / 1e6:g} Mbit/s"


def learned_link_rate(bits_per_s: float) -> str:
    """Format a measured link rate, with three digits: `48.7 Mbit/s`."""
    return f"{bits_per_s / 1e6:.3g} Mbit/s"


def megabytes(count_bytes: float) -> str:
    """Format a number of bytes in whole megabytes: `1,204 MB`."""
    return f"{count_bytes / 1e6:,.0f} MB"


def rough_megabytes(count_bytes: float) -> str:
    """Format the size of a speed test's copy, with two digits: `0.066 MB`, `25 MB`."""
    return f"{count_bytes / 1e6:.2g} MB"


def size(count_bytes: float) -> str:
    """Format a number of bytes in the unit that fits: `25.0 MB`, `1.20 GB`."""
    for divisor, unit, decimals in ((1e12, "TB", 2), (1e9, "GB", 2), (1e6, "MB", 1), (1e3, "kB", 1)):
        if count_bytes >= 0.9995 * divisor:
            return f"{count_bytes / divisor:.{decimals}f} {unit}"
    return f"{count_bytes:.0f} B"


def duration(seconds: float) -> str:
    """Format a measured duration: `13.6 s`, `5 min 10 s`, `2 h 05 min`."""
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def rough_duration(seconds: float) -> str:
    """Format a forecast duration: `48 s`, `12 min`, `3 h 05 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def short_duration(seconds: float) -> str:
    """Format a duration in a single unit, for narrow columns and comparisons: `48 s`, `12 min`, `3.1 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def milliseconds(seconds: float) -> str:
    """Format a round-trip time in whole milliseconds: `99 ms`."""
    return f"{seconds * 1e3:.0f} ms"


def exact_milliseconds(seconds: float) -> str:
    """Format a round-trip time, with three digits: `99.4 ms`."""
    return f"{seconds * 1e3:.3g} ms"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 device`, `2 devices`, `12,000 copies`.

    Args:
        number: The number.
        one: The noun in the singular.
        many: The plural, if it is not the singular with an s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
