"""Summarise a run: figures of its sites and of the whole, and two or three sentences. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from flashferry.model.states import Phase, RunState
from flashferry.reports.model import (
    NOT_STARTED,
    Count,
    DeviceReport,
    Proof,
    Report,
    Severity,
    SiteReport,
    Summary,
    TransferReport,
)
from flashferry.reports.words import devices, duration

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


_MOST_REASONS = 3
_LEFT = frozenset({Proof.NOT_PROVEN.value, Proof.IN_PROGRESS.value, Proof.UNKNOWN.value})
_FINE = frozenset({Proof.PROVEN.value, Proof.UNTOUCHED.value})
_DONE = {
    "stage": ("has the image, proven by its hash", "have the image, proven by its hash"),
    "activate": ("runs its image as it should", "run their image as they should"),
    "probe": ("was tested for speed", "were tested for speed"),
}
"""For one device, and for other numbers."""


def headline(report: Report) -> str:
    """Return the outcomes of the devices."""
    found = report.summary
    done = _DONE.get(report.verb, ("is done", "are done"))[found.good != 1]
    of = f"{found.good:,} of {devices(found.devices)}"
    others = [f"{count.devices:,} {count.word}" for count in counts(_not_good(report))]
    rest = f"; {', '.join(others)}" if others else ""
    return f"{of} {done}{rest}."


def _not_good(report: Report) -> Iterator[str]:
    return (one.label for one in report.devices if one.phase is not Phase.DONE)


def state_line(report: Report) -> str:
    """Return the state of the run if it has not finished; else empty."""
    if report.standing is RunState.ALIVE:
        return "The run is under way: this is how it stood when the report was written."
    if report.standing is RunState.DIED:
        return f"The run was killed: no process works on it. {_what_next(report)}"
    return _why_not_started(report)


def _what_next(report: Report) -> str:
    """Return what to do about a dead run, which may have been recovered since."""
    is_left = any(one.restore.proof in _LEFT and not one.restore.is_accepted for one in report.devices)
    left = "Run 'flashferry recover' for what it left" if is_left else "Nothing of it is left on a device"
    resume = f"'flashferry stage --resume {report.run_id}'"
    on = f", then {resume} to go on" if is_left else f"; {resume} goes on"
    return f"{left}{on if report.verb == 'stage' else ''}."


def _why_not_started(report: Report) -> str:
    """Return why devices of a finished run never started, with their number; empty if all did."""
    found = Counter(one.reason for one in report.devices if one.outcome == NOT_STARTED and one.reason)
    reasons = [
        f"{devices(count)} {Phase.NOT_STARTED.label}: {reason}" for reason, count in found.most_common(_MOST_REASONS)
    ]
    return f"{'; '.join(reasons)}." if reasons else ""


def configuration_line(report: Report) -> str:
    """Return what is proven about the configurations."""
    found = {count.word: count.devices for count in report.summary.proofs}
    total = report.summary.devices
    fine = sum(number for word, number in found.items() if word in _FINE)
    proven = found.get(Proof.PROVEN.value, 0)
    if fine == total:
        parts = (
            f"{proven:,} changed, restored and proven equal to the start" if proven else "",
            f"{total - proven:,} never changed" if total > proven else "",
        )
        # In bundle mode the running image is first in the saved boot order.
        order = " but for the boot order of what was activated" if report.verb == "activate" else ""
        return f"Every configuration is what it was{order}: {'; '.join(part for part in parts if part)}."
    others = counts(one.restore.label for one in report.devices if one.restore.proof.value not in _FINE)
    left = ", ".join(f"{one.devices:,} {one.word}" for one in others)
    word = "configuration is what it was" if total == 1 else "configurations are what they were"
    return f"{fine:,} of {total:,} {word}; {left}."


def saved_line(report: Report) -> str:
    """Return the time that tuning saved; empty if not measured."""
    found = report.summary
    if found.saved_s is None:
        return ""
    who = devices(found.saved_devices)
    if found.saved_s < 0:
        return f"Against the devices' own TCP settings the copies of {who} took {duration(-found.saved_s)} longer."
    return f"Tuning saved {duration(found.saved_s)} of copy time, over the {who} whose speed before is known."
