"""Times as the device prints them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """Return the device's wall clock; its zone is UTC."""
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Format as in ``! Last configuration change at 14:23:07 UTC Wed Jan 6 2021``."""
    return f"{moment:%H:%M:%S} UTC {moment:%a %b} {moment.day} {moment.year}"


def clock_line(moment: datetime) -> str:
    """Format as `show clock` does; the asterisk says that no time source has set the clock."""
    return f"*{moment:%H:%M:%S}.{moment.microsecond // 1000:03d} UTC {moment:%a %b} {moment.day} {moment.year}"


def syslog_stamp(moment: datetime) -> str:
    """Format as in front of a syslog line with `service timestamps log datetime msec`."""
    return f"*{moment:%b} {moment.day:2d} {moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def file_stamp(moment: datetime) -> str:
    """Format as in a row of `dir` on IOS-XE."""
    day = f"{moment:%b} {moment.day} {moment.year}"
    return f"{day:>11} {moment:%H:%M:%S} +00:00"


def duration(seconds: float) -> str:
    """Format an uptime: ``1 week, 2 days, 3 hours, 4 minutes``; less than a minute is ``0 minutes``."""
    minutes = int(seconds // 60)
    parts = []
    for name, size in (("week", 10080), ("day", 1440), ("hour", 60)):
        count, minutes = divmod(minutes, size)
        if count:
            parts.append(f"{count} {name}{'s' if count != 1 else ''}")
    if minutes or not parts:
        parts.append(f"{minutes} minute{'s' if minutes != 1 else ''}")
    return ", ".join(parts)


def ago(seconds: float) -> str:
    """Format an age as tables do: ``01:02:03`` within a day, then ``2d03h``, then ``5w4d``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days >= 7:
        return f"{days // 7}w{days % 7}d"
    return f"{days}d{hour:02d}h" if days else f"{hour:02d}:{minute:02d}:{second:02d}"
