"""Queries of the journal's tables, and a dataclass for the rows of each.

Rows have JSON as text. A connection is the writer's, or a read-only one of `flashferry.store.reader`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from flashferry.core.errors import Kind
from flashferry.core.values import field_names
from flashferry.store.control_requests import SteerRequest
from flashferry.store.schema import TABLES, sound


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run: how it was started, its state, and what operators requested."""

    TABLE: ClassVar = "runs"
    run_id: str
    verb: str
    started_at: str
    finished_at: str | None
    resumed: int
    paused: int
    stopping: int
    approved_wave: int
    waiting_wave: int | None
    request: str | None
    job: str | None
    events: str | None
    plan_digest: str | None
    actor: str | None


@dataclass(frozen=True, slots=True)
class ControlRow:
    """What operators requested of a run, without the run's request, which grows with the fleet."""

    TABLE: ClassVar = "runs"
    paused: int
    stopping: int
    approved_wave: int
    waiting_wave: int | None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device of a run, without its JSON columns."""

    TABLE: ClassVar = "devices"
    run_id: str
    host: str
    address: str
    port: int
    platform: str
    site: str | None
    wave: int
    image: str | None
    state: str
    attempt: int
    touched: int
    identity: str | None
    members: str | None
    updated_at: str


@dataclass(frozen=True, slots=True)
class RecordRow(DeviceRow):
    """A device of a run with its record, its changed lines and its activation."""

    record: str | None
    changes: str | None
    activation: str | None


@dataclass(frozen=True, slots=True)
class StatusRow:
    """A device of a run as lists show it, with its summary and the `updated_at` for which the summary was made."""

    run_id: str
    host: str
    address: str
    state: str
    touched: int
    updated_at: str
    site: str | None
    wave: int
    attempt: int
    activation: str | None
    changes: str | None
    has_record: int
    summary: str | None
    summarized_at: str | None


@dataclass(frozen=True, slots=True)
class LeaseRow(DeviceRow):
    """A device of a run with what recovery needs; `is_sound` is 0 if the row's checksum does not match."""

    snapshot: str | None
    changes: str | None
    target: str | None
    activation: str | None
    is_sound: int


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An earlier attempt of a run at a device, with its record."""

    TABLE: ClassVar = "attempts"
    run_id: str
    host: str
    attempt: int
    state: str
    record: str | None
    ended_at: str


@dataclass(frozen=True, slots=True)
class TransferRow:
    """The figures of a transfer."""

    TABLE: ClassVar = "transfers"
    run_id: str
    host: str
    at: str
    identity: str
    kind: str
    tuned: int
    target: str
    image: str
    ticket_id: str
    outcome: str
    size_bytes: int
    bytes_acked: int
    duration_s: float
    rate_bytes_per_s: float
    steady_bytes_per_s: float | None
    rtt_s: float | None
    window_bytes: int | None
    congestion_control: str | None
    verdict: str
    device_s: float | None
    model: str | None
    transport: str


@dataclass(frozen=True, slots=True)
class SampledRow(TransferRow):
    """A transfer with the server's complete record of it, compressed."""

    record: bytes


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """Result of a device's last speed test: whether tuning is useful."""

    host: str
    updated_at: str
    is_useful: int
    reason: str | None
    transport: str | None


@dataclass(frozen=True, slots=True)
class EndedCopy:
    """The figures of a transfer that metrics count; `number` increases from one transfer to the next."""

    number: int
    site: str
    transport: str
    tuned: int
    outcome: str
    verdict: str
    bytes_acked: int
    duration_s: float
    rate_bytes_per_s: float


Row = TypeVar(
    "Row", RunRow, ControlRow, SteerRequest, DeviceRow, RecordRow, LeaseRow, AttemptRow, TransferRow, SampledRow
)

_THIS_DEVICE = "WHERE run_id = ? AND host = ?"


def _rows(
    database: sqlite3.Connection, kind: type[Row], clauses: str = "", values: tuple[Any, ...] = (), **computed: str
) -> list[Row]:
    columns = ", ".join(computed.get(name, name) for name in field_names(kind))
    found = database.execute(f"SELECT {columns} FROM {kind.TABLE} {clauses}", values)  # noqa: S608 -- our own words
    return [kind(*row) for row in found]


# Runs.


def runs_by_age(database: sqlite3.Connection) -> list[tuple[str, str]]:
    """Return identifier and verb of all runs, the oldest first."""
    return database.execute("SELECT run_id, verb FROM runs ORDER BY started_at, rowid").fetchall()


def run_row(database: sqlite3.Connection, run_id: str) -> RunRow | None:
    """Return a run."""
    return next(iter(_rows(database, RunRow, "WHERE run_id = ?", (run_id,))), None)


def control_row(database: sqlite3.Connection, run_id: str) -> ControlRow | None:
    """Return what operators requested of a run."""
    return next(iter(_rows(database, ControlRow, "WHERE run_id = ?", (run_id,))), None)


def latest_runs(database: sqlite3.Connection, latest: int) -> list[RunRow]:
    """Return the latest runs, the newest first, and every older run that still holds a device."""
    return _rows(
        database,
        RunRow,
        "WHERE run_id IN (SELECT run_id FROM runs ORDER BY started_at DESC, rowid DESC LIMIT ?) "
        "OR run_id IN (SELECT run_id FROM devices WHERE touched = 1) ORDER BY started_at DESC, rowid DESC",
        (latest,),
    )


def waiting_runs(database: sqlite3.Connection) -> list[RunRow]:
    """Return the unfinished runs with a wave that waits for approval, the oldest first."""
    return _rows(database, RunRow, "WHERE waiting_wave IS NOT NULL AND finished_at IS NULL ORDER BY started_at, rowid")


def run_of_job(database: sqlite3.Connection, job: str) -> str | None:
    """Return the newest run of a service's job; None if the job started none."""
    query = "SELECT run_id FROM runs WHERE job = ? ORDER BY started_at DESC, rowid DESC LIMIT 1"
    found = database.execute(query, (job,)).fetchone()
    return None if found is None else str(found[0])


def steer_requests_of(database: sqlite3.Connection, run_id: str) -> list[SteerRequest]:
    """Return the requests to steer a run, the oldest first."""
    return _rows(database, SteerRequest, "WHERE run_id = ? ORDER BY rowid", (run_id,))


# Devices and their attempts.


def devices_of(database: sqlite3.Connection, run_id: str, host: str | None = None) -> list[RecordRow]:
    """Return the devices of a run with their records in the order of entry; with `host`, that device alone."""
    where = "WHERE run_id = ?1 AND (?2 IS NULL OR host = ?2) ORDER BY rowid"
    return _rows(database, RecordRow, where, (run_id, host))


def has_summaries(database: sqlite3.Connection) -> bool:
    """Return whether the journal has the table of summaries, which earlier versions did not have."""
    return database.execute("SELECT 1 FROM sqlite_master WHERE name = 'summaries'").fetchone() is not None


def status_rows(database: sqlite3.Connection, run_id: str, *, with_summaries: bool) -> list[StatusRow]:
    """Return the devices of a run in the order of entry, without their records."""
    of_summary = "s.summary, s.updated_at" if with_summaries else "NULL, NULL"
    joined = "LEFT JOIN summaries AS s ON s.run_id = d.run_id AND s.host = d.host " if with_summaries else ""
    query = (
        "SELECT d.run_id, d.host, d.address, d.state, d.touched, d.updated_at, d.site, d.wave, d.attempt, "  # noqa: S608 -- our own words
        "CASE WHEN d.touched THEN d.activation END, CASE WHEN d.touched THEN d.changes END, d.record IS NOT NULL, "
        f"{of_summary} FROM devices AS d {joined}WHERE d.run_id = ? ORDER BY d.rowid"
    )
    return [StatusRow(*row) for row in database.execute(query, (run_id,))]


def newest_devices(database: sqlite3.Connection) -> list[RecordRow]:
    """Return the newest row of each device of any run, by host name."""
    return _rows(database, RecordRow, "WHERE rowid IN (SELECT max(rowid) FROM devices GROUP BY host) ORDER BY host")


def runs_of(database: sqlite3.Connection, host: str) -> list[RecordRow]:
    """Return the rows of a device in all runs, the newest first."""
    return _rows(database, RecordRow, "WHERE host = ? ORDER BY rowid DESC", (host,))


def rows_with_facts(database: sqlite3.Connection, hosts: Collection[str]) -> list[RecordRow]:
    """Return the newest row of each of some devices whose record names a model."""
    return _rows(
        database,
        RecordRow,
        "WHERE rowid IN (SELECT max(rowid) FROM devices WHERE host IN (SELECT value FROM json_each(?)) "
        "AND CASE WHEN json_valid(record) THEN json_extract(record, '$.check.facts.model') END IS NOT NULL "
        "GROUP BY host)",
        (json.dumps(tuple(hosts)),),
    )


def staged_rows(database: sqlite3.Connection) -> list[RecordRow]:
    """Return the rows that have an image and a record, the oldest first."""
    return _rows(database, RecordRow, "WHERE image IS NOT NULL AND record IS NOT NULL ORDER BY rowid")


def image_rows(database: sqlite3.Connection, names: Collection[str], image: str) -> list[RecordRow]:
    """Return the rows of an image on some devices, given by inventory names or identities, the oldest first."""
    marks = ", ".join("?" * len(names))
    where = f"WHERE image = ? AND (host IN ({marks}) OR identity IN ({marks})) ORDER BY rowid"
    return _rows(database, RecordRow, where, (image, *names, *names))


def doubtful_devices(database: sqlite3.Connection, names: Collection[str] = ()) -> list[tuple[str, str]]:
    """Return device (by each of its names) and image for every record that may hold a doubt about the image.

    Args:
        database: The journal.
        names: Inventory names and identities of the devices to read; empty for all.
    """
    marks = ", ".join("?" * len(names))
    meant = f"(host IN ({marks}) OR identity IN ({marks}))" if names else "1"
    kinds = " OR ".join(f"record LIKE '%{kind.value}%'" for kind in (Kind.NOT_DELIVERED, Kind.INSTALL_FAILED))
    query = (
        f"SELECT host, identity, image FROM devices WHERE image IS NOT NULL AND {meant} AND ({kinds} OR (run_id, host) "  # noqa: S608 -- our own words
        f"IN (SELECT run_id, host FROM attempts WHERE {kinds}))"
    )
    rows = database.execute(query, (*names, *names))
    found = ((name, image) for host, identity, image in rows for name in (host, identity) if name)
    return [one for one in dict.fromkeys(found) if not names or one[0] in names]


def held_devices(database: sqlite3.Connection, *, besides: str | None = None) -> list[DeviceRow]:
    """Return the devices that runs hold or left unrestored; `besides` leaves out one run."""
    return _rows(database, DeviceRow, "WHERE touched = 1 AND run_id IS NOT ?", (besides,))


def lease_rows(database: sqlite3.Connection) -> list[LeaseRow]:
    """Return the held devices with what recovery needs, the oldest first. Needs `know_seals` on the connection."""
    return _rows(database, LeaseRow, "WHERE touched = 1 ORDER BY updated_at", is_sound=sound(database, "devices"))


def lease_row(database: sqlite3.Connection, run_id: str, host: str) -> LeaseRow | None:
    """Return a device of a run, held or not. Needs `know_seals` on the connection."""
    found = _rows(database, LeaseRow, _THIS_DEVICE, (run_id, host), is_sound=sound(database, "devices"))
    return next(iter(found), None)


def device_row(database: sqlite3.Connection, run_id: str, host: str) -> DeviceRow | None:
    """Return a device of a run."""
    return next(iter(_rows(database, DeviceRow, _THIS_DEVICE, (run_id, host))), None)


def columns_of(database: sqlite3.Connection, run_id: str, host: str, columns: Sequence[str]) -> tuple[Any, ...] | None:
    """Return some columns of a device of a run; None if the run has no such device."""
    query = f"SELECT {', '.join(columns)} FROM devices WHERE run_id = ? AND host = ?"  # noqa: S608 -- our own words
    found: tuple[Any, ...] | None = database.execute(query, (run_id, host)).fetchone()
    return found


def unsound_devices(database: sqlite3.Connection) -> list[DeviceRow]:
    """Return the devices whose row does not match its checksum. Needs `know_seals` on the connection."""
    return _rows(database, DeviceRow, f"WHERE NOT {sound(database, 'devices')}")


def other_identities(database: sqlite3.Connection, host: str) -> frozenset[str]:
    """Return the identities that devices of other inventory names had in any run. Reads all rows."""
    query = "SELECT DISTINCT identity FROM devices WHERE identity IS NOT NULL AND host != ?"
    return frozenset(str(found) for (found,) in database.execute(query, (host,)))


def attempts_of(database: sqlite3.Connection, run_id: str) -> list[AttemptRow]:
    """Return the earlier attempts of a run at its devices, the oldest first."""
    return _rows(database, AttemptRow, "WHERE run_id = ? ORDER BY attempt", (run_id,))


# Transfers, and what records say about them.


def transfers_of(database: sqlite3.Connection, run_id: str, host: str | None = None) -> list[SampledRow]:
    """Return the transfers of a run, or of one of its devices, with their samples, the oldest first."""
    where = "WHERE run_id = ?1 AND (?2 IS NULL OR host = ?2) ORDER BY at, rowid"
    return _rows(database, SampledRow, where, (run_id, host))


def all_transfers(database: sqlite3.Connection) -> list[TransferRow]:
    """Return the figures of all transfers."""
    return _rows(database, TransferRow)


def verified_copies(database: sqlite3.Connection) -> dict[str, str]:
    """Return by host when its newest delivered copy began whose device ended as done, so that it was verified."""
    query = (
        "SELECT t.host, max(t.at) FROM transfers AS t JOIN devices AS d ON d.run_id = t.run_id AND d.host = t.host "
        "WHERE t.kind = 'stage' AND t.outcome = 'delivered' AND d.state = 'done' GROUP BY t.host"
    )
    return dict(database.execute(query).fetchall())


def ended_copies(database: sqlite3.Connection, after: int, most: int) -> list[EndedCopy]:
    """Return at most `most` transfers with a number greater than `after`, in the order in which they were stored."""
    query = (
        "SELECT t.rowid, coalesce(d.site, ''), t.transport, t.tuned, t.outcome, t.verdict, t.bytes_acked, "
        "t.duration_s, t.rate_bytes_per_s FROM transfers AS t "
        "LEFT JOIN devices AS d ON d.run_id = t.run_id AND d.host = t.host WHERE t.rowid > ? ORDER BY t.rowid LIMIT ?"
    )
    return [EndedCopy(*row) for row in database.execute(query, (after, most))]


def newest_copy(database: sqlite3.Connection) -> int:
    """Return the number of the transfer stored last; 0 for none."""
    return int(database.execute("SELECT coalesce(max(rowid), 0) FROM transfers").fetchone()[0])


def damaged_records(database: sqlite3.Connection) -> int:
    """Return how many device records are not valid JSON."""
    query = "SELECT count(*) FROM devices WHERE record IS NOT NULL AND NOT json_valid(record)"
    return int(database.execute(query).fetchone()[0])


def probe_rows(database: sqlite3.Connection) -> list[ProbeRow]:
    """Return the results of speed tests on the use of tuning, the oldest first."""
    query = (
        "SELECT host, updated_at, json_extract(record, '$.probe.worth.is_worth'), "
        "json_extract(record, '$.probe.worth.reason'), json_extract(record, '$.transport') "
        # Of the index: by a join all records of all runs would be parsed first.
        "FROM devices WHERE run_id IN (SELECT run_id FROM runs WHERE verb = 'probe') "
        "AND CASE WHEN json_valid(record) THEN json_type(record, '$.probe.worth') END = 'object' "
        "ORDER BY updated_at"
    )
    return [ProbeRow(*row) for row in database.execute(query)]


def last_figures(
    database: sqlite3.Connection, *keys: str, unless: tuple[str, ...] = (), transport: str | None = None
) -> dict[str, float]:
    """Return by host the newest number at a JSON path of its records.

    Args:
        database: The journal.
        keys: The path.
        unless: Path of a text that makes the number invalid if present.
        transport: Only records of this transport; None for all.
    """
    query = (
        "SELECT host, CASE WHEN json_valid(record) THEN json_extract(record, ?) END AS figure "
        "FROM devices JOIN runs USING (run_id) WHERE typeof(figure) IN ('real', 'integer') "
        "AND CASE WHEN json_valid(record) THEN coalesce(json_extract(record, ?), '') = '' END "
        "AND ? IN ('', CASE WHEN json_valid(record) THEN json_extract(record, '$.transport') END) "
        "ORDER BY started_at"
    )
    places = ("$." + ".".join(keys), "$." + ".".join(unless or ("none",)))
    given = (*places, transport or "")
    return {host: float(figure) for host, figure in database.execute(query, given)}


# All tables.


def runs_ended_before(database: sqlite3.Connection, before: str) -> list[str]:
    """Return the runs that ended before a time (ISO 8601, UTC) and hold no device, the oldest first."""
    query = (
        "SELECT run_id FROM runs WHERE finished_at < ? "
        "AND run_id NOT IN (SELECT run_id FROM devices WHERE touched = 1) ORDER BY started_at, rowid"
    )
    return [str(row[0]) for row in database.execute(query, (before,))]


def unsound_rows(database: sqlite3.Connection) -> dict[str, int]:
    """Return the number of rows that do not match their checksum by table, without tables that have none."""
    found = {}
    for table in TABLES:
        query = f"SELECT count(*) FROM {table} WHERE NOT {sound(database, table)}"  # noqa: S608 -- our own words
        if count := database.execute(query).fetchone()[0]:
            found[table] = int(count)
    return found
