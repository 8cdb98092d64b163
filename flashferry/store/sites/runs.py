"""Distributed runs at the centre: the part of each site, the orders for it, and requests to steer."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import as_dict, field_names
from flashferry.store.control_requests import Asker, SteerRequest
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.database import FILE, SitesDatabase


class PartState(StrEnum):
    """State of a site's part. HELD: not given yet, because it waits for the result of other devices."""

    HELD = "held"
    GIVEN = "given"
    ACCEPTED = "accepted"
    RUNNING = "running"
    REFUSED = "refused"
    ENDED = "ended"


RANK = {state: rank for rank, state in enumerate(PartState)}
"""A part only advances: a late message does not move it back. A refused part can be given again."""

OPEN = frozenset({PartState.HELD, PartState.GIVEN, PartState.ACCEPTED, PartState.RUNNING})
"""States in which messages of a part are still expected."""


class SiteRun(Struct, frozen=True, kw_only=True):
    """A distributed run.

    Attributes:
        run: Its identifier, the same at all sites.
        digest: Of the plan.
        plan: Text of the plan's file.
        started_by: Who started it; empty if unknown.
        valid_until: No site starts its part after that.
        approved_wave: Highest wave that sites can start; None for all.
        stopped: Why nothing new is started; None if it is not stopped.
        ended_at: When all its parts had ended; None before.
        left_out: Devices of the plan that were excluded at the start, by name.
        is_offered: Whether the plan's file is offered to agents.
    """

    run: str
    digest: str
    plan: str
    started_at: str
    started_by: str = ""
    valid_until: str
    approved_wave: int | None = None
    stopped: str | None = None
    ended_at: str | None = None
    left_out: tuple[str, ...] = ()
    is_offered: bool = False


class Part(Struct, frozen=True, kw_only=True):
    """The work of a site in one round of a run.

    Attributes:
        round: 0 for canaries, 1 for the others.
        from_wave: Lowest wave of its devices; the part is held until that can start.
        agent: Key identifier of its agent; messages of others are ignored.
        sentence: Why it was refused, or how it ended; else empty.
        exit_code: Of its run; None before the end.
        is_interrupted: Whether it was stopped.
        whole: All messages up to this offset were received.
        end_offset: Offset of the last message; None if that was not received.
        changed_at: Last change of its state.
        last_message_at: When its last message was received; None for none.
    """

    run: str
    site: str
    round: int
    from_wave: int
    agent: str
    state: PartState = PartState.GIVEN
    sentence: str = ""
    exit_code: int | None = None
    is_interrupted: bool = False
    whole: int = 0
    end_offset: int | None = None
    changed_at: str
    last_message_at: str | None = None

    @property
    def is_over(self) -> bool:
        """Return whether nothing is missing: it was refused, or it ended and all its messages were received."""
        if self.state is PartState.REFUSED:
            return True
        return self.end_offset is not None and self.whole >= self.end_offset


class PartDevice(Struct, frozen=True, kw_only=True):
    """A device to be added to a distributed run.

    Attributes:
        site: Site of its part.
        round: Round of its part.
        wave: Number of its wave.
    """

    host: str
    site: str
    round: int
    wave: int


class KeptOrder(Struct, frozen=True, kw_only=True):
    """An order that is sent until its agent confirms it.

    Attributes:
        order_id: The same at each sending.
        round: Round of the part.
        job: What to do.
        wave: Highest wave, for jobs that have one; else None.
        valid_from: Start of its validity.
        valid_until: End of its validity.
    """

    order_id: str
    run: str
    site: str
    round: int
    job: str
    wave: int | None = None
    valid_from: str
    valid_until: str


_AGAIN = frozenset({"pause", "continue", "approve"})

_LATER_S, _MOST_TRIES = 20.0, 30

_ORDER = tuple(field_names(KeptOrder))

_RUN = tuple(field_names(SiteRun))

_PART = tuple(field_names(Part))


def add_run(database: sqlite3.Connection, run: SiteRun, parts: Sequence[Part], devices: Iterable[PartDevice]) -> None:
    """Add a run with its parts and devices.

    Raises:
        sqlite3.IntegrityError: The run exists, or a device is in two parts.
    """
    _insert(database, "runs", _RUN, [as_dict(run) | {"left_out": json.dumps(run.left_out)}])
    _insert(database, "parts", _PART, [as_dict(part) for part in parts])
    rows = [{"run": run.run} | as_dict(one) for one in devices]
    _insert(database, "devices", ("run", "host", "site", "round", "wave"), rows)


def run_of(database: sqlite3.Connection, run: str) -> SiteRun | None:
    """Return a run by its identifier; None if there is none."""
    row = database.execute(f"SELECT {', '.join(_RUN)} FROM runs WHERE run = ?", (run,)).fetchone()  # noqa: S608 -- ours
    if row is None:
        return None
    return SiteRun(
        **dict(row) | {"left_out": tuple(json.loads(row["left_out"])), "is_offered": bool(row["is_offered"])}
    )


def runs_by_age(database: sqlite3.Connection) -> list[str]:
    """Return the identifiers of all runs, the oldest first."""
    return [row["run"] for row in database.execute("SELECT run FROM runs ORDER BY started_at, rowid")]


def open_runs(database: sqlite3.Connection) -> list[str]:
    """Return the runs that have not ended, the oldest first."""
    statement = "SELECT run FROM runs WHERE ended_at IS NULL ORDER BY started_at, rowid"
    return [row["run"] for row in database.execute(statement)]


def last_ended(database: sqlite3.Connection) -> str | None:
    """Return the run that ended last; None for none."""
    row = database.execute("SELECT run FROM runs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, rowid DESC LIMIT 1")
    found = row.fetchone()
    return None if found is None else str(found["run"])


def plans_no_longer_needed(database: sqlite3.Connection) -> list[str]:
    """Return the digests of offered plans whose runs have all ended, the oldest first."""
    statement = (
        "SELECT digest FROM runs GROUP BY digest HAVING MAX(is_offered) AND COUNT(*) = COUNT(ended_at) ORDER BY "
        "MIN(started_at)"
    )
    return [str(row["digest"]) for row in database.execute(statement)]


def set_not_offered(database: sqlite3.Connection, digest: str) -> None:
    """Record that a plan's file was removed."""
    database.execute("UPDATE runs SET is_offered = 0 WHERE digest = ?", (digest,))


def parts_of(database: sqlite3.Connection, run: str) -> list[Part]:
    """Return the parts of a run, by site and round."""
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE run = ? ORDER BY site, round"  # noqa: S608 -- our columns
    return [_part(row) for row in database.execute(statement, (run,))]


def part_of(database: sqlite3.Connection, run: str, site: str, number: int) -> Part | None:
    """Return the part of a site in a round; None for none."""
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE run = ? AND site = ? AND round = ?"  # noqa: S608 -- ours
    row = database.execute(statement, (run, site, number)).fetchone()
    return None if row is None else _part(row)


def open_parts_at(database: sqlite3.Connection, site: str) -> list[Part]:
    """Return the parts of a site that are not over, of all runs."""
    marks = ", ".join("?" * len(OPEN))
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE site = ? AND state IN ({marks})"  # noqa: S608 -- ours
    return [_part(row) for row in database.execute(statement, (site, *OPEN))]


def add_orders(database: sqlite3.Connection, orders: Sequence[KeptOrder]) -> None:
    """Store orders to be sent until they are confirmed."""
    _insert(database, "orders", _ORDER, [as_dict(order) for order in orders])


def orders_to_send(database: sqlite3.Connection, run: str) -> list[KeptOrder]:
    """Return the unconfirmed orders of a run, the oldest first."""
    statement = f"SELECT {', '.join(_ORDER)} FROM orders WHERE run = ? AND NOT is_taken ORDER BY rowid"  # noqa: S608 -- ours
    return [KeptOrder(**dict(row)) for row in database.execute(statement, (run,))]


def send_later(database: sqlite3.Connection, order_id: str, at: str) -> bool:
    """Queue a refused order again with a delay and a new identifier; return whether it was queued.

    A run that is still fetching images refuses to be steered. An order that a later one revoked, or that was refused
    too often, is not queued.

    Args:
        database: A connection.
        order_id: The refused order.
        at: Current time.
    """
    row = database.execute(f"SELECT {', '.join(_ORDER)} FROM orders WHERE order_id = ?", (order_id,)).fetchone()  # noqa: S608 -- ours
    if row is None or row["job"] not in _AGAIN:
        return False
    one = KeptOrder(**dict(row))
    where = (
        "SELECT order_id FROM orders WHERE run = ? AND site = ? AND round = ? AND job <> 'stage' ORDER BY rowid DESC"
    )
    latest = database.execute(f"{where} LIMIT 1", (one.run, one.site, one.round)).fetchone()
    base, _, tries = one.order_id.partition(".")
    if latest["order_id"] != order_id or int(tries or 0) >= _MOST_TRIES:
        return False
    later = moment(moment_of(at) + timedelta(seconds=_LATER_S))
    add_orders(database, [replace(one, order_id=f"{base}.{int(tries or 0) + 1}", valid_from=later)])
    return True


def take_order(database: sqlite3.Connection, order_id: str) -> None:
    """Record that an order need not be sent any more: it was stored by its agent, or refused."""
    database.execute("UPDATE orders SET is_taken = 1 WHERE order_id = ?", (order_id,))


def hosts_of(database: sqlite3.Connection, run: str, site: str, number: int) -> tuple[str, ...]:
    """Return the devices of a part in the order of entry."""
    where = "SELECT host FROM devices WHERE run = ? AND site = ? AND round = ? ORDER BY rowid"
    return tuple(row["host"] for row in database.execute(where, (run, site, number)))


def waves_of(database: sqlite3.Connection, part: Part) -> tuple[int, ...]:
    """Return the numbers of a part's waves, ascending."""
    where = "SELECT DISTINCT wave FROM devices WHERE run = ? AND site = ? AND round = ? ORDER BY wave"
    return tuple(row["wave"] for row in database.execute(where, (part.run, part.site, part.round)))


def give(database: sqlite3.Connection, part: Part, *, at: str) -> None:
    """Record that a held part is given to its agent."""
    database.execute(
        "UPDATE parts SET state = 'given', changed_at = ? WHERE run = ? AND site = ? AND round = ? AND state = 'held'",
        (at, part.run, part.site, part.round),
    )


def end_held(database: sqlite3.Connection, run: str, why: str, *, at: str, site: str | None = None) -> None:
    """End the held parts of a run, which are then never given.

    Args:
        database: A connection.
        run: The run.
        why: Reason, in a sentence.
        at: Current time.
        site: Only this site; None for all.
    """
    database.execute(
        "UPDATE parts SET state = 'ended', end_offset = 0, sentence = ?1, changed_at = ?2 "
        "WHERE run = ?3 AND state = 'held' AND (?4 IS NULL OR site = ?4)",
        (why, at, run, site),
    )


def end_run(database: sqlite3.Connection, run: str, *, at: str) -> None:
    """Record the end of a run once all its parts have ended."""
    database.execute("UPDATE runs SET ended_at = ? WHERE run = ? AND ended_at IS NULL", (at, run))


def set_approved(database: sqlite3.Connection, run: str, wave: int | None) -> None:
    """Store the highest wave that sites can start; None for all."""
    database.execute("UPDATE runs SET approved_wave = ? WHERE run = ?", (wave, run))


def set_stopped(database: sqlite3.Connection, run: str, why: str) -> None:
    """Store the first reason why a run starts nothing new."""
    database.execute("UPDATE runs SET stopped = COALESCE(stopped, ?) WHERE run = ?", (why, run))


def add_steer_request(
    database: sqlite3.Connection,
    run: str,
    what: str,
    asker: Asker,
    *,
    at: str,
    site: str | None = None,
    wave: int | None = None,
) -> None:
    """Store a request to steer a run.

    Args:
        database: A connection.
        run: The run.
        what: A value of `flashferry.store.control_requests.SteerKind`.
        asker: Who, and why.
        at: Current time.
        site: Only this site; None for all.
        wave: With `approve`: the highest approved wave.
    """
    row = {"run": run, "site": site, "at": at, "what": what, "wave": wave} | as_dict(asker)
    _insert(database, "steer_requests", tuple(row), [row])


def steer_requests_of(database: sqlite3.Connection, run: str) -> list[tuple[str | None, SteerRequest]]:
    """Return the requests to steer a run, the oldest first, each with its site; None for all sites."""
    rows = database.execute("SELECT * FROM steer_requests WHERE run = ? ORDER BY rowid", (run,))
    names = tuple(field_names(SteerRequest))
    return [(row["site"], SteerRequest(**{name: row[name] for name in names})) for row in rows]


def _insert(
    database: sqlite3.Connection, table: str, columns: Sequence[str], rows: Sequence[dict[str, object]]
) -> None:
    marks = ", ".join(f":{name}" for name in columns)
    database.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)  # noqa: S608 -- ours


def _part(row: sqlite3.Row) -> Part:
    values = dict(row)
    return Part(**values | {"state": PartState(values["state"]), "is_interrupted": bool(values["is_interrupted"])})


PIECE = 2000
"""Rows per transaction."""

_OF_RUN = ("events", "orders", "early", "steer_requests", "devices", "parts", "runs")
"""Tables with rows of a run, in an order that satisfies foreign keys."""

_ENDED = (
    "SELECT run FROM runs WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM devices WHERE devices.run = runs.run "
    "AND is_held) AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.run = runs.run AND state <> 'refused' "
    "AND (end_offset IS NULL OR whole < end_offset))"
)


class Dropped(Struct, frozen=True, kw_only=True):
    """Result of one pruning of events.

    Attributes:
        runs: Runs that have no events any more, the oldest first.
        events: Number of deleted events.
        is_all: Whether nothing is left to delete.
    """

    runs: tuple[str, ...] = ()
    events: int = 0
    is_all: bool = True


def ended_before(database: sqlite3.Connection, before: str) -> list[str]:
    """Return the runs that ended before a time and left no device held, the oldest first."""
    return [str(row[0]) for row in database.execute(f"{_ENDED} ORDER BY ended_at, rowid", (before,))]


def drop_events(ledger: SitesDatabase, before: str, *, most: int, piece: int = PIECE) -> Dropped:
    """Delete events of runs that ended before a time, the oldest first; other data of the runs stays.

    Args:
        ledger: The database.
        before: ISO 8601, UTC.
        most: Approximate maximum number of events; the rest is left to the next call.
        piece: Events per transaction.

    Raises:
        sqlite3.Error: The database cannot be written; earlier transactions are complete.
    """
    with ledger.reading() as database:
        waiting = [run for run in ended_before(database, before) if _has_events(database, run)]
    through, gone = list[str](), 0
    for run in waiting:
        while gone < most and (count := _drop_piece(ledger, run, before, piece)):
            gone += count
        if gone >= most:
            break
        through.append(run)
    return Dropped(runs=tuple(through), events=gone, is_all=len(through) == len(waiting))


def remove_runs(directory: Path, before: str, *, is_dry: bool) -> tuple[str, ...]:
    """Remove runs that ended before a time and left no device held; return them, the oldest first.

    Args:
        directory: The state folder; no database is created.
        before: As for `drop_events`.
        is_dry: Only count them.

    Raises:
        ConfigInvalid: The database cannot be used or written; of each run all is removed, or only events.
    """
    if not (directory / FILE).is_file():
        return ()
    ledger = SitesDatabase(directory)
    try:
        with ledger.reading() as database:
            found = ended_before(database, before)
        for run in () if is_dry else found:
            _remove(ledger, run, before)
    except sqlite3.Error as error:
        raise ConfigInvalid(
            f"the ledger of sites in {directory}: {error}", hint="Check free space on its disk, then try again"
        ) from None
    return tuple(found)


def _has_events(database: sqlite3.Connection, run: str) -> bool:
    return database.execute("SELECT 1 FROM events WHERE run = ? LIMIT 1", (run,)).fetchone() is not None


def _drop_piece(ledger: SitesDatabase, run: str, before: str, piece: int) -> int:
    """Delete some events of a run, unless it must be kept; return how many."""
    with ledger.writing() as database:
        done = database.execute(
            f"DELETE FROM events WHERE run IN ({_ENDED} AND run = ?) AND seq IN "  # noqa: S608 -- our own words
            "(SELECT seq FROM events WHERE run = ? ORDER BY seq LIMIT ?)",
            (before, run, run, piece),
        )
    return done.rowcount


def _remove(ledger: SitesDatabase, run: str, before: str) -> None:
    while _drop_piece(ledger, run, before, PIECE):
        pass
    with ledger.writing() as database:
        # Checked again within the transaction.
        if run in ended_before(database, before):
            for table in _OF_RUN:
                database.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 -- our own words
