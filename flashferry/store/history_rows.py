"""Timed copies out of the journal: those kept by themselves, and those that records of earlier releases tell of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashferry.core.json_access import Node, parsed
from flashferry.store.legacy import StoredTransfer, transfers_in
from flashferry.store.measurement import Measurement
from flashferry.store.reader import reading
from flashferry.store.tables import RecordRow, TransferRow, all_transfers, probe_rows, records_with_a_transfer
from flashferry.store.transfer_row import NULL
from flashferry.tcp.worth import nothing_to_tune
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
            for row in records_with_a_transfer(database):
                _read_legacy(row, found)
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


def _read_legacy(row: RecordRow, found: HistoryRows) -> None:
    record = parsed(row.record)
    if record is None:
        found.damaged += 1
    else:
        found.measurements.extend(_legacy(row, record))


def _legacy(row: RecordRow, record: dict[str, Any]) -> Iterator[Measurement]:
    transfers = transfers_in(record, updated_at=row.updated_at)
    for one in transfers:
        account = Node(one.record)
        size_bytes, duration_s = account.whole("bytes_acked"), account.number("duration_s")
        if size_bytes is None or duration_s is None:
            continue
        yield Measurement(
            host=row.host,
            at=one.at,
            run_id=row.run_id,
            kind=one.kind,
            tuned=one.tuned,
            to_null=one.target == NULL,
            size_bytes=size_bytes,
            duration_s=duration_s,
            rate_bytes_per_s=account.number("rate_bytes_per_s") or 0.0,
            steady_bytes_per_s=_steady(record, one),
            rtt_s=account.number("min_rtt_s"),
            window_bytes=account.whole("max_window_bytes"),
            congestion_control=account.text("sender", "congestion_control"),
            verdict=account.text("verdict", "kind") or "unknown",
            outcome=account.text("outcome") or "unknown",
            device_s=Node(record).number("pull", "device", "duration_s") if one is transfers[-1] else None,
            identity=row.identity,
            model=Node(record).text("check", "facts", "model"),
        )


def _steady(record: dict[str, Any], one: StoredTransfer) -> float | None:
    """Return the rate behind the start, which only a speed test of that time had worked out."""
    if one.target == NULL:
        return Node(record).number("probe", "tuned" if one.tuned else "as_is", "steady_bytes_per_s")
    return None
