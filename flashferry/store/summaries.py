"""Summarise a device's record for lists, including the attempt that decided the state of its configuration.

An attempt that finds the image in place changes nothing. If an earlier attempt tuned the device, for example in a run
that died, and recovery restored it, then "restored" is the device's result and not "never changed".
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from flashferry.core.json_access import Node, parsed
from flashferry.model.states import ACCEPTED_LABEL, Restored
from flashferry.store.database import execute_all
from flashferry.store.tables import StatusRow, attempts_of, devices_of, has_summaries, status_rows
from inventory.transport_policy import USUAL


class RestoreSource(Struct, frozen=True, kw_only=True):
    """The record that states whether a device's configuration is restored.

    Attributes:
        account: JSON object with `restored`, `restore` and the failure: a record, or recovery's part of it.
        record: Record of that attempt.
        by_recovery: Whether recovery restored the device.
        ago: How many attempts back; 0 for the latest.
    """

    account: dict[str, Any]
    record: dict[str, Any]
    by_recovery: bool
    ago: int = 0

    @property
    def restored(self) -> str | None:
        """Return a value of `Restored`; None if not recorded."""
        return Node(self.account).text("restored")

    @property
    def is_accepted(self) -> bool:
        """Return whether the operator accepted the configuration as it is, without proof."""
        return bool(Node(self.account).flag("is_accepted"))

    @property
    def label(self) -> str | None:
        """Return the state of the configuration as shown to users; None if not recorded."""
        if self.is_accepted:
            return ACCEPTED_LABEL
        return Restored(self.restored).label if self.restored in set(Restored) else self.restored


def restore_source(record: dict[str, Any], attempts: Sequence[dict[str, Any]] = ()) -> RestoreSource:
    """Return the record of the last attempt that changed the device, else of the latest.

    Args:
        record: Record of the latest attempt.
        attempts: Records of earlier attempts, the oldest first.
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
    """Register triggers on a connection that update the summaries of changed devices."""
    database.create_function(_FUNCTION, 2, _summary_text, deterministic=True)
    execute_all(database, _TRIGGERS)


def summary_of(record: dict[str, Any], attempts: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Return a device's summary: the fields of `DeviceStatus` that come from records, as JSON types.

    Args:
        record: Record of the latest attempt; empty if there is none.
        attempts: Records of earlier attempts, the oldest first.
    """
    node, source = Node(record), restore_source(record, attempts)
    # If transports were compared, the record names the fastest, which may not be the last copy.
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
    """Return the devices of a run with their summaries, in the order of entry."""
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
    """Parse the summaries; all at once takes a fifth of the time."""
    try:
        found = json.loads(f"[{','.join(row.summary or 'null' for row in rows)}]")
    except ValueError:
        found = []
    return found if len(found) == len(rows) else [parsed(row.summary) if row.summary else None for row in rows]


def _known(row: StatusRow, summary: Any) -> dict[str, Any] | None:
    """Return a device's stored summary if it matches the record; else None."""
    if row.summary is None:
        return None if row.has_record or row.attempt > 1 else _NOTHING
    if row.summarized_at != row.updated_at or not isinstance(summary, dict) or summary.keys() != _NOTHING.keys():
        return None
    return summary


def _from_records(record: str | None, attempts: Sequence[str | None]) -> dict[str, Any]:
    return summary_of(parsed(record) or {}, [parsed(one) or {} for one in attempts])


def _summary_text(record: str | None, attempts: str | None) -> str:
    """Return the summary as stored. Called by a trigger, so a damaged record must not raise."""
    return json.dumps(_from_records(record, json.loads(attempts) if attempts else ()))


def held_phase(activation: str | None) -> str | None:
    """Return the phase of a lease's activation; None for none."""
    return Node(parsed(activation)).text("phase")


def held_applet(changes: str | None) -> str | None:
    """Return the name of the last applet among a lease's changes; None for none."""
    # Imported only for a held device (start time): it loads the modules of devices.
    from tasks.applet import applet_of, is_applet

    try:
        lines = [Node(one).text("ours") or "" for one in json.loads(changes or "[]")]
    except (ValueError, TypeError):
        return None
    return next((applet_of(line) for line in reversed(lines) if is_applet(line)), None)
