"""Timed copies of devices and results of speed tests, as the journal has them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from msgspec import Struct

from flashferry.core.units import counted, rate
from flashferry.store.reader import reading
from flashferry.store.tables import TransferRow, all_transfers, damaged_records, probe_rows
from flashferry.store.transfer_row import NULL, PROBE_AS_IS, PROBE_TUNED, STAGE
from flashferry.tcp.speed_test_size import too_short
from flashferry.tcp.tuning_benefit import nothing_to_tune
from flashferry.tcp.verdict_rules import VerdictKind
from inventory.transport_policy import USUAL

DELIVERED = "delivered"

LEAST_BYTES = 1_000_000
"""A copy that broke off earlier was mostly slow start."""

_STALLED = ("nothing acknowledged", "no progress")

_NOT_THE_WINDOW = frozenset(
    {
        VerdictKind.SLOW_RECEIVER,
        VerdictKind.BANDWIDTH,
        VerdictKind.POLICER,
        VerdictKind.CAP,
        VerdictKind.SERVER,
    }
)

_LATE_SHARE = 1.2

_LATE_S = 2.0
"""If the device's copy ends later than our last byte by more than both, its flash was the limit."""

_LIKE_SHARE = 0.1

_LIKE_S = 30.0
"""A copy shorter than both is mostly slow start; an older, longer one predicts better."""

_DONE = {STAGE: "staged", PROBE_AS_IS: "probed as it is", PROBE_TUNED: "probed tuned"}


class Measurement(Struct, frozen=True, kw_only=True):
    """One timed copy.

    Attributes:
        at: Start, ISO 8601, UTC.
        kind: `stage`, `probe as it is` or `probe tuned`.
        tuned: Whether our TCP settings were in force.
        to_null: Whether the target was `null:`, which writes no flash.
        size_bytes: Bytes that the client acknowledged.
        duration_s: First byte to last acknowledgement, measured by the server.
        rate_bytes_per_s: `size_bytes` over `duration_s`.
        steady_bytes_per_s: Rate after slow start; None if the copy was too short.
        rtt_s: Least round-trip time; None if unknown.
        window_bytes: Largest receive window; None if unknown.
        congestion_control: Of the sender; None if unknown.
        verdict: What limited the copy, a `VerdictKind`.
        outcome: `delivered`, or why not.
        device_s: Duration by the device's clock, flash writing included; None if it printed none.
        identity: Serial number and host name; None if unknown.
        model: None if unknown.
    """

    host: str
    at: str
    run_id: str
    kind: str
    tuned: bool
    to_null: bool
    size_bytes: int
    duration_s: float
    rate_bytes_per_s: float
    steady_bytes_per_s: float | None
    rtt_s: float | None
    window_bytes: int | None
    congestion_control: str | None
    verdict: str
    outcome: str = DELIVERED
    device_s: float | None = None
    identity: str | None = None
    model: str | None = None
    transport: str = USUAL

    @property
    def counts(self) -> bool:
        """Whether it predicts anything: delivered, or broken off late and not by a stall.

        The short pilot copy of a speed test does not count.
        """
        if self.rate_bytes_per_s <= 0:
            return False
        if self.to_null and too_short(size_bytes=self.size_bytes, duration_s=self.duration_s, rtt_s=self.rtt_s):
            return False
        stalled = any(word in self.outcome for word in _STALLED)
        return self.outcome == DELIVERED or (self.size_bytes > LEAST_BYTES and not stalled)

    @property
    def whole_bytes_per_s(self) -> float:
        """Rate of the whole copy by the device's clock, which includes flash writing; else by the server's."""
        if self.outcome == DELIVERED and self.device_s:
            return self.size_bytes / self.device_s
        return self.rate_bytes_per_s

    @property
    def bytes_per_s(self) -> float:
        """Rate to show: after slow start for a speed test, of the whole copy for one to flash."""
        return (self.steady_bytes_per_s if self.to_null else None) or self.whole_bytes_per_s

    @property
    def is_limited_by_device(self) -> bool:
        """Whether the device was the limit: its receive buffer filled up, or it kept writing after the last byte."""
        if self.verdict == VerdictKind.SLOW_RECEIVER:
            return True
        if self.to_null or not self.device_s or self.size_bytes < LEAST_BYTES:
            return False
        return self.device_s > _LATE_SHARE * self.duration_s and self.device_s - self.duration_s > _LATE_S

    def says_much_of(self, size_bytes: int) -> bool:
        """Whether it was long enough to predict a copy of this size, and not mostly slow start."""
        return self.size_bytes >= _LIKE_SHARE * size_bytes or self.duration_s >= _LIKE_S

    @property
    def is_beyond_tuning(self) -> bool:
        """Whether its limit cannot be moved by the device's TCP settings."""
        return self.is_limited_by_device or self.verdict in _NOT_THE_WINDOW

    def described(self, now: datetime) -> str:
        """Describe it: `staged 3 days ago, 1.60 MB/s`."""
        return f"{_DONE.get(self.kind, self.kind)} {age(self.at, now)}, {rate(self.bytes_per_s)}"


def age(at: str, now: datetime) -> str:
    """Describe how long ago a time (ISO 8601 with time zone) is."""
    try:
        minutes = (now - datetime.fromisoformat(at)).total_seconds() / 60
    except (ValueError, TypeError):
        return "at an unknown time"
    if minutes < 1:
        return "just now"
    for unit, length in (("day", 1440), ("hour", 60), ("minute", 1)):
        if minutes >= (2 * length if unit == "day" else length):
            count = int(minutes // length)
            return f"{counted(count, unit)} ago"
    return "just now"


class ProbeWord(Struct, frozen=True, kw_only=True):
    """Result of a device's last speed test on the use of tuning; `at` is ISO 8601, UTC."""

    at: str
    is_useful: bool
    reason: str
    transport: str = USUAL

    @property
    def has_nothing_to_tune(self) -> bool:
        """Whether the device's own settings are sufficient."""
        return not self.is_useful and self.reason.startswith(nothing_to_tune().reason)


@dataclass(slots=True, kw_only=True)
class HistoryRows:
    """Rows read from the journal; `damaged` counts unreadable ones."""

    measurements: list[Measurement] = field(default_factory=list)
    probes: dict[str, ProbeWord] = field(default_factory=dict)
    damaged: int = 0


def read_rows(directory: Path, *, counts_damaged: bool = True) -> HistoryRows:
    """Read all timed copies of a state directory.

    Args:
        directory: The state directory.
        counts_damaged: Whether to count unreadable rows, for which all records of all runs are parsed.

    Raises:
        ConfigInvalid: The journal cannot be read.
    """
    found = HistoryRows()
    with reading(directory) as database:
        if database is not None:
            found.measurements.extend(map(_measurement, all_transfers(database)))
            found.damaged = damaged_records(database) if counts_damaged else 0
            for word in probe_rows(database):
                found.probes[word.host] = ProbeWord(
                    at=word.updated_at,
                    is_useful=bool(word.is_useful),
                    reason=str(word.reason),
                    transport=word.transport or USUAL,
                )
    return found


def _measurement(row: TransferRow) -> Measurement:
    return Measurement(
        host=row.host,
        at=row.at,
        run_id=row.run_id,
        kind=row.kind,
        tuned=bool(row.tuned),
        to_null=row.target == NULL,
        size_bytes=row.bytes_acked,
        duration_s=row.duration_s,
        rate_bytes_per_s=row.rate_bytes_per_s,
        steady_bytes_per_s=row.steady_bytes_per_s,
        rtt_s=row.rtt_s,
        window_bytes=row.window_bytes,
        congestion_control=row.congestion_control,
        verdict=row.verdict,
        outcome=row.outcome,
        device_s=row.device_s,
        identity=row.identity,
        model=row.model,
        transport=row.transport,
    )
