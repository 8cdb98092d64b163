"""Figures of the sites and of the whole run, from the reports of the devices. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from flashferry.reports.model import Count, DeviceReport, Severity, SiteReport, Summary, TransferReport

Interval = tuple[float, float]

_SHARES = re.compile(r"1 of (\d+) shares of: ")
"""Text of `flashferry.fileserver.rate_limits` for a share of a site's cap."""


def site_reports(devices: Sequence[DeviceReport]) -> tuple[SiteReport, ...]:
    """Return the sites in the order of the inventory; devices without a site form the last one."""
    names = dict.fromkeys(device.site for device in devices)
    ordered = [name for name in names if name is not None] + [name for name in names if name is None]
    return tuple(_site(name, [device for device in devices if device.site == name]) for name in ordered)


def summary_of(devices: Sequence[DeviceReport], wall_s: float | None) -> Summary:
    """Return the figures of the run."""
    transfers = [one for device in devices for one in device.transfers]
    again = [one.retransmitted_bytes for one in transfers if one.retransmitted_bytes is not None]
    saved = [device.saved_s for device in devices if device.saved_s is not None]
    return Summary(
        devices=len(devices),
        outcomes=counts(device.outcome for device in devices),
        proofs=counts(device.restore.proof.value for device in devices),
        good=sum(device.standing is Severity.GOOD for device in devices),
        needing_attention=sum(device.needs_attention for device in devices),
        hashes_proven=sum(device.hash_proof is not None for device in devices),
        copies=len(transfers),
        acked_bytes=sum(one.acked_bytes or 0 for one in transfers),
        retransmitted_bytes=sum(again) if again else None,
        wall_s=wall_s,
        saved_s=sum(saved) if saved else None,
        saved_devices=len(saved),
    )


def counts(words: Iterable[str]) -> tuple[Count, ...]:
    """Count words, the most frequent first."""
    return tuple(Count(word=word, devices=found) for word, found in Counter(words).most_common())


def _site(name: str | None, devices: Sequence[DeviceReport]) -> SiteReport:
    transfers = [one for device in devices for one in device.transfers]
    times = [time for one in transfers if (time := _time(one)) is not None]
    span_s = max(end for _, end in times) - min(begin for begin, _ in times) if times else None
    acked = sum(one.acked_bytes or 0 for one in transfers)
    copying_s = covered_s(times)
    timed = sum(one.acked_bytes or 0 for one in transfers if _time(one) is not None)
    # Only the time with a copy counts: gaps between waves would make a full link look empty.
    rate = timed / copying_s if copying_s and timed else None
    cap = site_cap(transfers) if name is not None else None
    return SiteReport(
        name=name,
        devices=len(devices),
        outcomes=counts(device.outcome for device in devices),
        good=sum(device.standing is Severity.GOOD for device in devices),
        needing_attention=sum(device.needs_attention for device in devices),
        acked_bytes=acked,
        copies=len(transfers),
        span_s=span_s,
        copying_share=copying_s / span_s if span_s else None,
        rate_bytes_per_s=rate,
        cap_bytes_per_s=cap,
        cap_share=rate / cap if rate and cap else None,
        link_bytes_per_s=_link(devices) if name is not None else None,
    )


def _link(devices: Sequence[DeviceReport]) -> float | None:
    return next((device.link_bytes_per_s for device in devices if device.link_bytes_per_s is not None), None)


def site_cap(transfers: Iterable[TransferReport]) -> float | None:
    """Return the rate limit of a site's copies together, from the share in each record."""
    whole = []
    for one in transfers:
        if one.cap_bytes_per_s is not None:
            shares = _SHARES.match(one.cap_source or "")
            whole.append(one.cap_bytes_per_s * (int(shares[1]) if shares else 1))
    return max(whole, default=None)


def _time(transfer: TransferReport) -> Interval | None:
    if transfer.at is None or not transfer.duration_s:
        return None
    begin = epoch_s(transfer.at)
    return None if begin is None else (begin, begin + transfer.duration_s)


def epoch_s(stamp: str | None) -> float | None:
    """Convert a time of the journal (ISO 8601, UTC) to seconds since 1970; None if it is invalid."""
    try:
        found = datetime.fromisoformat(stamp or "")
    except ValueError:
        return None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def covered_s(times: Iterable[Interval]) -> float:
    """Return the time in seconds that is covered by at least one interval."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(times):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
