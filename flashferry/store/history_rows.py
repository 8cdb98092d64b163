"""Timed copies out of the journal, and what speed tests found."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flashferry.store.measurement import Measurement
from flashferry.store.reader import reading
from flashferry.store.tables import TransferRow, all_transfers, damaged_records, probe_rows
from flashferry.store.transfer_row import NULL
from flashferry.tcp.tuning_benefit import nothing_to_tune
from inventory.transport_policy import USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWord:
    """What the last speed test of a device said about tuning, when (ISO 8601, UTC), and of which transport."""

    at: str
    is_worth: bool
    reason: str
    transport: str = USUAL

    @property
    def has_nothing_to_tune(self) -> bool:
        """Whether the device's settings are enough as they are."""
        return not self.is_worth and self.reason.startswith(nothing_to_tune().reason)


@dataclass(slots=True, kw_only=True)
class HistoryRows:
    """What was read; `damaged` counts the rows that could not be."""

    measurements: list[Measurement] = field(default_factory=list)
    probes: dict[str, ProbeWord] = field(default_factory=dict)
    damaged: int = 0


def read_rows(directory: Path) -> HistoryRows:
    """Return all timed copies of a state directory.

    Raises:
        ConfigInvalid: There is a journal and it cannot be read.
    """
    found = HistoryRows()
    with reading(directory) as database:
        if database is not None:
            found.measurements.extend(map(_measurement, all_transfers(database)))
            found.damaged = damaged_records(database)
            for word in probe_rows(database):
                found.probes[word.host] = ProbeWord(
                    at=word.updated_at,
                    is_worth=bool(word.is_worth),
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
