"""Timed copies out of the journal: those kept by themselves, and those that records of earlier releases tell of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flashferry.core.json_access import number, parsed, text, whole
from flashferry.store.legacy import StoredTransfer, transfers_in
from flashferry.store.measurement import Measurement
from flashferry.store.reader import reading
from flashferry.store.transfer_row import NULL
from flashferry.tcp.worth import nothing_to_tune

_KEPT = (
    "SELECT host, at, run_id, kind, tuned, target = 'null:', bytes_acked, duration_s, rate_bytes_per_s, "
    "steady_bytes_per_s, rtt_s, window_bytes, congestion_control, verdict, outcome, device_s, identity, model "
    "FROM transfers"
)
# Only what has a verdict has a transfer: others need not be taken apart.
_EARLY = (
    "SELECT d.host, d.run_id, d.identity, d.updated_at, d.record FROM devices AS d "
    "WHERE instr(d.record, '\"verdict\"') > 0 AND NOT EXISTS "
    "(SELECT 1 FROM transfers AS t WHERE t.run_id = d.run_id AND t.host = d.host)"
)
_WORDS = (
    "SELECT host, updated_at, json_extract(record, '$.probe.worth.is_worth'), "
    "json_extract(record, '$.probe.worth.reason') FROM devices JOIN runs USING (run_id) "
    "WHERE verb = 'probe' AND CASE WHEN json_valid(record) THEN json_type(record, '$.probe.worth') END = 'object' "
    "ORDER BY updated_at"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeWord:
    """What the last speed test of a device said about tuning, and when (ISO 8601, UTC)."""

    at: str
    is_worth: bool
    reason: str

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
            found.measurements.extend(_measurement(row) for row in database.execute(_KEPT))
            _read_early(database, found)
            for host, when, is_worth, reason in database.execute(_WORDS):
                found.probes[host] = ProbeWord(at=when, is_worth=bool(is_worth), reason=str(reason))
    return found


def _measurement(row: tuple[Any, ...]) -> Measurement:
    names = Measurement.__slots__
    return Measurement(**dict(zip(names, row, strict=True)) | {"tuned": bool(row[4]), "to_null": bool(row[5])})


def _read_early(database: sqlite3.Connection, found: HistoryRows) -> None:
    for host, run_id, identity, updated_at, stored in database.execute(_EARLY):
        record = parsed(stored)
        if record is None:
            found.damaged += 1
            continue
        found.measurements.extend(_early(record, host=host, run_id=run_id, identity=identity, updated_at=updated_at))


def _early(
    record: dict[str, Any], *, host: str, run_id: str, identity: str | None, updated_at: str
) -> Iterator[Measurement]:
    transfers = transfers_in(record, updated_at=updated_at)
    for one in transfers:
        size_bytes, duration_s = whole(one.record, "bytes_acked"), number(one.record, "duration_s")
        if size_bytes is None or duration_s is None:
            continue
        yield Measurement(
            host=host,
            at=one.at,
            run_id=run_id,
            kind=one.kind,
            tuned=one.tuned,
            to_null=one.target == NULL,
            size_bytes=size_bytes,
            duration_s=duration_s,
            rate_bytes_per_s=number(one.record, "rate_bytes_per_s") or 0.0,
            steady_bytes_per_s=_steady(record, one),
            rtt_s=number(one.record, "min_rtt_s"),
            window_bytes=whole(one.record, "max_window_bytes"),
            congestion_control=text(one.record, "sender", "congestion_control"),
            verdict=text(one.record, "verdict", "kind") or "unknown",
            outcome=text(one.record, "outcome") or "unknown",
            device_s=number(record, "pull", "device", "duration_s") if one is transfers[-1] else None,
            identity=identity,
            model=text(record, "check", "facts", "model"),
        )


def _steady(record: dict[str, Any], one: StoredTransfer) -> float | None:
    """Return the rate behind the start, which only a speed test of that time had worked out."""
    if one.target == NULL:
        return number(record, "probe", "tuned" if one.tuned else "as_is", "steady_bytes_per_s")
    return None
