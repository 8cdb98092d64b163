"""Choose the attempt of a device that decides what became of its configuration. Pure.

An attempt that found the image there already touches nothing. Where an attempt before it had tuned the device, by a run
that died, say, and recovery restored it, then that is what became of the device: changed, restored, proven; not
"never changed".
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashferry.core.json_access import Node, parsed
from flashferry.model.states import ACCEPTED_LABEL, Restored
from flashferry.store.database import execute_all
from flashferry.store.tables import StatusRow, attempts_of, devices_of, has_summaries, status_rows
from inventory.transport_policy import USUAL


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSource:
    """Where it stands what became of a device's configuration.

    Attributes:
        account: The JSON object that has `restored`, `restore` and the failure: a record, or what recovery said.
        record: The record of that attempt.
        by_recovery: Whether it was recovery that restored the device.
        ago: How many attempts back that was; 0 for the latest.
    """

    account: dict[str, Any]
    record: dict[str, Any]
    by_recovery: bool
    ago: int = 0

    @property
    def restored(self) -> str | None:
        """Return whether the configuration is what it was, or None where that is not recorded."""
        return Node(self.account).text("restored")

    @property
    def is_accepted(self) -> bool:
        """Return whether the operator accepted the configuration as it is: it is not proven to be what it was."""
        return bool(Node(self.account).flag("is_accepted"))

    @property
    def label(self) -> str | None:
        """Return what became of the configuration in the word for people, or None where the run did not say."""
        if self.is_accepted:
            return ACCEPTED_LABEL
        return Restored(self.restored).label if self.restored in set(Restored) else self.restored


def restore_source(record: dict[str, Any], attempts: Sequence[dict[str, Any]] = ()) -> RestoreSource:
    """Return the last account of a device that had been changed; of one that never was, that of its latest attempt.

    Args:
        record: Record of the latest attempt.
        attempts: Records of those before, the first one first.
    """
    latest = _source(record, 0)
    if latest.restored not in (None, Restored.UNTOUCHED.value):
        return latest
    for ago, earlier in enumerate(reversed(attempts), 1):
        found = _source(earlier, ago)
        if found.restored not in (None, Restored.UNTOUCHED.value):
            return found
    return latest


def _source(record: dict[str, Any], ago: int) -> RestoreSource:
    recovery = Node(record).at("recovery").value
    by_recovery = isinstance(recovery, dict) and bool(recovery)
    return RestoreSource(account=recovery if by_recovery else record, record=record, by_recovery=by_recovery, ago=ago)


TABLE = """
CREATE TABLE IF NOT EXISTS summaries (
    run_id TEXT NOT NULL,
    host TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    summary TEXT NOT NULL,
    PRIMARY KEY (run_id, host)
) WITHOUT ROWID;
"""

_FUNCTION = "flashferry_summary"

_ATTEMPTS = (
    "(SELECT json_group_array(record) FROM "
    "(SELECT record FROM attempts WHERE run_id = NEW.run_id AND host = NEW.host ORDER BY attempt))"
)

_IS_OTHER = "NEW.record IS NOT OLD.record OR NEW.attempt IS NOT OLD.attempt"

_TRIGGERS = f"""
CREATE TEMP TRIGGER summary_of_record AFTER UPDATE OF record ON main.devices WHEN {_IS_OTHER} BEGIN
    INSERT OR REPLACE INTO summaries VALUES (
        NEW.run_id, NEW.host, NEW.updated_at, {_FUNCTION}(NEW.record, CASE WHEN NEW.attempt > 1 THEN {_ATTEMPTS} END)
    );
END;
CREATE TEMP TRIGGER summary_stays AFTER UPDATE OF updated_at ON main.devices WHEN NOT ({_IS_OTHER}) BEGIN
    UPDATE summaries SET updated_at = NEW.updated_at WHERE run_id = NEW.run_id AND host = NEW.host;
END;
"""  # noqa: S608 -- our own words


def keep_summaries(database: sqlite3.Connection) -> None:
    """Make every write of a connection keep the summaries of the devices that it changes."""
    database.create_function(_FUNCTION, 2, _summary_text, deterministic=True)
    execute_all(database, _TRIGGERS)


def summary_of(record: dict[str, Any], attempts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return what a summary holds: the fields of `DeviceStatus` that come from records, as JSON types.

    Args:
        record: The record of the latest attempt; empty where there is none.
        attempts: The records of earlier attempts, the first one first.
    """
    node, source = Node(record), restore_source(record, attempts)
    # Where transports were compared the last copy is one of several; the record names the one that was the fastest.
    best = next((row.at("arm") for row in node.list("probe", "by_transport") if row.flag("is_best")), None)
    return {
        "outcome": node.text("outcome"),
        "restored": source.restored,
        "configuration": source.label,
        "is_accepted": source.is_accepted,
        "rate_bytes_per_s": best.number("server_bytes_per_s") if best else node.number("transfer", "rate_bytes_per_s"),
        "verdict": best.text("verdict", "kind") if best else node.text("transfer", "verdict", "kind"),
        "reason": node.text("failure", "reason"),
        "transport": node.text("transport") or (USUAL if record else None),
    }


_NOTHING = summary_of({})


def summarized_devices(database: sqlite3.Connection, run_id: str) -> list[tuple[StatusRow, dict[str, Any]]]:
    """Return the devices of a run in the order in which they were entered, each with its summary."""
    rows = status_rows(database, run_id, with_summaries=has_summaries(database))
    known = [_known(row, found) for row, found in zip(rows, _decoded(rows), strict=True)]
    if None not in known:
        return [(row, one) for row, one in zip(rows, known, strict=True) if one is not None]
    records = {row.host: row.record for row in devices_of(database, run_id)}
    attempts: dict[str, list[str | None]] = {}
    for one in attempts_of(database, run_id):
        attempts.setdefault(one.host, []).append(one.record)
    return [
        (row, _from_records(records[row.host], attempts.get(row.host, ())) if one is None else one)
        for row, one in zip(rows, known, strict=True)
    ]


def _decoded(rows: Sequence[StatusRow]) -> list[Any]:
    """Return the summaries as JSON types. All at once: one by one they take five times as long."""
    try:
        found = json.loads(f"[{','.join(row.summary or 'null' for row in rows)}]")
    except ValueError:
        found = []
    return found if len(found) == len(rows) else [parsed(row.summary) if row.summary else None for row in rows]


def _known(row: StatusRow, summary: Any) -> dict[str, Any] | None:
    """Return the summary of a device that is that of its record; None where there is no such summary."""
    if row.summary is None:
        return None if row.has_record or row.attempt > 1 else _NOTHING
    if row.summarized_at != row.updated_at or not isinstance(summary, dict) or summary.keys() != _NOTHING.keys():
        return None
    return summary


def _from_records(record: str | None, attempts: Sequence[str | None]) -> dict[str, Any]:
    return summary_of(parsed(record) or {}, [parsed(one) or {} for one in attempts])


def _summary_text(record: str | None, attempts: str | None) -> str:
    """Return the summary as the table has it; a trigger's function, so nothing is raised for a damaged record."""
    return json.dumps(_from_records(record, json.loads(attempts) if attempts else ()))
