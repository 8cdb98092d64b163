"""Names of the service's metrics, and counters of ended copies."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from flashferry.monitor.metrics import (
    COPY_SECONDS,
    COPY_SECONDS_BUCKETS,
    TRANSFERS,
    TRANSPORT_TRANSFERS,
    MetricKind,
    MetricName,
)
from flashferry.store.tables import EndedCopy
from inventory.transport_policy import NAMES

MOST_NAMED = 50
"""Unrestored devices with a series each; the gauge beside it counts all."""
COPY_RATE_BUCKETS = (31_250, 62_500, 125_000, 250_000, 625_000, 1_250_000, 2_500_000, 6_250_000, 12_500_000, 62_500_000)
"""A quarter of 1 Mbit/s, a half, 1, 2, 5, 10, 20, 50, 100, 500."""


def _gauge(name: str, says: str, *labels: str) -> MetricName:
    return MetricName(name=name, says=says, labels=labels)


def _counter(name: str, says: str, *labels: str) -> MetricName:
    return MetricName(name=name, says=says, labels=labels, kind=MetricKind.COUNTER)


def _histogram(name: str, says: str, *labels: str) -> MetricName:
    return MetricName(name=name, says=says, labels=labels, kind=MetricKind.HISTOGRAM)


OF_RUNS = (
    _gauge("devices", "devices, each as the last of the latest thirty runs has it", "site", "state"),
    _gauge("unrestored_devices", "changed, not proven restored, and without a run that restores them", "site"),
    _gauge("unrestored_device", f"1 for each of these, {MOST_NAMED} at most", "site", "device", "run_id"),
    _gauge("runs", "runs of the last twelve hours, alive, or not restored: alive, finished, died", "state"),
    _gauge("run_info", "1 for each run under way", "run_id", "verb"),
    _gauge("last_event_timestamp_seconds", "time of the last event of a running run", "run_id"),
    _gauge("run_window_end_timestamp_seconds", "when a run under way must end; missing without an end", "run_id"),
    _gauge("run_forecast_end_timestamp_seconds", "its expected end", "run_id"),
    _gauge("run_held", "1 where a run under way is paused, waiting for approval, or stopping", "run_id", "reason"),
    _gauge("copies_running", "copies that flow now", "site"),
    _gauge("acknowledged_bytes_per_second", "what they make together, smoothed over a few seconds", "site"),
    _gauge("site_cap_bytes_per_second", "what they may take together, as the plan says; else missing", "site"),
    _gauge("remaining_bytes", "still to be copied by runs under way", "site"),
    _gauge("journal_readable", "1 as long as the journal and the service's tables can be read"),
    _gauge("journal_read_timestamp_seconds", "when they were read last"),
)

OF_COPIES = (
    TRANSFERS,
    # Only the journal says whether a copy was tuned; events do not.
    TRANSPORT_TRANSFERS.split_by("tuned"),
    _counter("copied_bytes", "bytes acknowledged of copies that ended, failed ones too", "site", "transport"),
    COPY_SECONDS,
    _histogram("copy_rate_bytes_per_second", "mean rate of each delivered copy", "site", "transport"),
)

OF_TABLES = (
    _gauge("jobs", "jobs that have not ended: queued, starting, running", "kind", "state"),
    _counter("jobs_ended", "jobs by how they ended: done, failed, cancelled, dead", "kind", "outcome"),
    _gauge("oldest_queued_job_timestamp_seconds", "since when the job waits that has waited longest"),
    _gauge("plans", "plans: draft, approved, denied, withdrawn", "state"),
    _gauge("plans_waiting", "plans that can still be approved"),
    _gauge("oldest_waiting_plan_timestamp_seconds", "since when the first of these waits"),
    _gauge("waiting_plan_latest_start_timestamp_seconds", "when the first of these must begin to end in its window"),
    _gauge("schedules", "schedules: active, held, ended", "state"),
    _counter("occasions", "due times of schedules: started, missed, refused", "outcome"),
    _gauge("notices_waiting", "notices that are to be sent", "hook"),
    _gauge("oldest_waiting_notice_timestamp_seconds", "when the first of these was put out", "hook"),
    _gauge("notices_given_up", "notices given up, and not sent again", "hook"),
    _gauge("images", "images: arriving, published, unknown, vouched, mismatch, hidden", "state"),
    _gauge("image_bytes", "what has arrived of all of them"),
    _counter("audit_entries", "entries of the audit"),
)

OF_HOST = (
    _gauge("disk_free_bytes", "room on the disk of the folder: state, images", "folder"),
    _gauge("disk_size_bytes", "size of that disk", "folder"),
    _gauge("keeper_last_look_timestamp_seconds", "end of a background task's last pass", "keeper"),
    _gauge("keeper_failures", "failed passes since the last good one", "keeper"),
    _gauge("keeper_good", "0 if the last pass failed, or one hangs", "keeper"),
    _gauge("state_backup_timestamp_seconds", "when the newest backup in `[metrics] backups` was made"),
    _gauge("depot_up", "1 where the depot that runs would use answers"),
    _gauge("depot_start_timestamp_seconds", "when it began"),
    _gauge("depot_runs", "runs that use it"),
    _gauge("depot_copies", "slots held there", "site"),
    _gauge("depot_copies_waiting", "slots that are waited for", "site"),
    _gauge("night_end_timestamp_seconds", "when the last night in the lab ended"),
    _gauge("night_exit_code", "what it left with: 0 where it went well"),
    _gauge("night_series", "its series of copies, by what each was judged to be", "colour"),
    _gauge("service_build_info", "1, with the release", "version"),
)

METRICS = {one.name: one for one in (*OF_RUNS, *OF_COPIES, *OF_TABLES, *OF_HOST)}
"""All, by name; besides those of the process, as Prometheus' client has them (`process_start_time_seconds`, ...)."""
DELIVERED = "delivered"


@dataclass(slots=True)
class Spread:
    """A histogram; the last count is of values above all buckets."""

    counts: list[int]
    total: float = 0.0

    def add(self, value: float, buckets: tuple[float, ...]) -> None:
        """Add a value; a bucket includes its upper bound."""
        self.counts[bisect_left(buckets, value)] += 1
        self.total += value


@dataclass(slots=True)
class Copies:
    """Number and acknowledged bytes of a site's copies with the same result."""

    number: int = 0
    acked_bytes: int = 0


Alike = tuple[str, str, bool, str, str]
"""Site, transport, whether tuned, outcome, verdict."""


@dataclass(slots=True)
class Counted:
    """Totals of ended copies.

    Attributes:
        rates: Rates of delivered copies, bytes per second, by site and transport.
        durations: Durations of delivered copies, seconds, by site.
    """

    last: int = 0
    copies: dict[Alike, Copies] = field(default_factory=dict)
    rates: dict[tuple[str, str], Spread] = field(default_factory=dict)
    durations: dict[str, Spread] = field(default_factory=dict)

    def take(self, ended: Iterable[EndedCopy]) -> None:
        """Add ended copies to the totals."""
        for one in ended:
            self.last = one.number
            # Transport names come from a stored file; accept only known ones as labels.
            transport = one.transport if one.transport in NAMES else "other"
            outcome = DELIVERED if one.outcome == DELIVERED else "failed"
            alike = (one.site, transport, bool(one.tuned), outcome, one.verdict)
            sums = self.copies.setdefault(alike, Copies())
            sums.number += 1
            sums.acked_bytes += one.bytes_acked
            if outcome == DELIVERED:
                rates = self.rates.setdefault((one.site, transport), _empty(COPY_RATE_BUCKETS))
                rates.add(one.rate_bytes_per_s, COPY_RATE_BUCKETS)
                durations = self.durations.setdefault(one.site, _empty(COPY_SECONDS_BUCKETS))
                durations.add(one.duration_s, COPY_SECONDS_BUCKETS)

    def begin_anew(self) -> None:
        """Restart at the first transfer, because the journal was replaced; totals stay."""
        self.last = 0

    def as_text(self) -> str:
        """Return the totals as JSON for the table."""
        return msgspec.json.encode(
            _Kept(
                last=self.last,
                copies=[(*alike, one.number, one.acked_bytes) for alike, one in self.copies.items()],
                rates=[(*key, one.counts, one.total) for key, one in self.rates.items()],
                durations=[(site, one.counts, one.total) for site, one in self.durations.items()],
            )
        ).decode()


class _Kept(msgspec.Struct):
    """JSON form of the totals."""

    last: int
    copies: list[tuple[str, str, bool, str, str, int, int]]
    rates: list[tuple[str, str, list[int], float]]
    durations: list[tuple[str, list[int], float]]


def counted_of(text: str) -> Counted:
    """Parse stored totals. Raises `ValueError` if they are damaged or of another release."""
    try:
        kept = msgspec.json.decode(text, type=_Kept)
    except msgspec.DecodeError as error:
        raise ValueError(f"damaged: {error}") from None
    spreads: list[tuple[list[int], tuple[float, ...]]] = [(counts, COPY_RATE_BUCKETS) for _, _, counts, _ in kept.rates]
    spreads += [(counts, COPY_SECONDS_BUCKETS) for _, counts, _ in kept.durations]
    if any(len(counts) != len(buckets) + 1 for counts, buckets in spreads):
        raise ValueError("expected the buckets of this release, found others")
    return Counted(
        last=kept.last,
        copies={one[:5]: Copies(one[5], one[6]) for one in kept.copies},
        rates={(site, transport): Spread(counts, total) for site, transport, counts, total in kept.rates},
        durations={site: Spread(counts, total) for site, counts, total in kept.durations},
    )


def _empty(buckets: tuple[float, ...]) -> Spread:
    return Spread([0] * (len(buckets) + 1))
