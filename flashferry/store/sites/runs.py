"""Runs that were given to sites, the part of each site, and what people wanted of them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.store.control_requests import Asker, SteerRequest
from flashferry.store.database import moment, moment_of
from flashferry.store.sites.database import FILE, SitesDatabase


class PartState(StrEnum):
    """How far the part of a site is; HELD: it waits for what others find out, and was not given yet."""

    HELD = "held"
    GIVEN = "given"
    ACCEPTED = "accepted"
    RUNNING = "running"
    REFUSED = "refused"
    ENDED = "ended"


RANK = {state: rank for rank, state in enumerate(PartState)}

"""A part only goes on: a word that comes late does not take it back. One that was refused may be given again."""

OPEN = frozenset({PartState.HELD, PartState.GIVEN, PartState.ACCEPTED, PartState.RUNNING})

"""States in which messages of a part are still expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRun:
    """A run that was given to sites.

    Attributes:
        run: Its identifier, the same at all sites.
        digest: Of the plan.
        plan: The text of the plan's file.
        started_at: When it was given.
        started_by: By whom; empty where unknown.
        valid_until: After that no site begins its part.
        approved_wave: Up to which wave sites may begin; None: all waves.
        stopped: Why nothing new is started, or None.
        ended_at: When all its parts were seen to have ended; None: not yet.
        left_out: Devices of the plan that were left out when it was given, by name.
        is_offered: Whether the centre put the plan's file where agents fetch it, and has not removed it yet.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What a site has to do of a run, in one round.

    Attributes:
        run: The run.
        site: The site.
        round: 0 for canaries, 1 for the others.
        from_wave: The first wave that a device of it is in: it is held until that may begin.
        agent: The key identifier of the agent that it was given to; messages of others are ignored.
        state: How far it is.
        sentence: Why it was refused, or how it ended; else empty.
        exit_code: With what its run ended; None: not yet.
        is_interrupted: Whether it was stopped.
        whole: All words up to this offset are here.
        end_offset: The offset of its last word; None while that is not here.
        changed_at: When its state changed last.
        last_message_at: When its last message came; None: none did.
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
        """Return whether nothing of it is still to come: it was refused, or ended and every word of it is here."""
        if self.state is PartState.REFUSED:
            return True
        return self.end_offset is not None and self.whole >= self.end_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDevice:
    """A device of a run, as it is entered.

    Attributes:
        host: Inventory name.
        site: The site whose part it is in.
        round: That part's round.
        wave: Number of its wave.
    """

    host: str
    site: str
    round: int
    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOrder:
    """An order that is sent until its agent says that it has it.

    Attributes:
        order_id: Its name, the same each time.
        run: The run.
        site: The site.
        round: The part's round.
        job: What is wanted.
        wave: Up to which wave, with what has one.
        valid_from: From when it holds.
        valid_until: Until when.
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

_ORDER = tuple(field.name for field in fields(KeptOrder))

_RUN = tuple(field.name for field in fields(SiteRun))

_PART = tuple(field.name for field in fields(Part))


def add_run(database: sqlite3.Connection, run: SiteRun, parts: Sequence[Part], devices: Iterable[PartDevice]) -> None:
    """Enter a run with all its parts and devices.

    Raises:
        sqlite3.IntegrityError: The run is there already, or a device is in two parts.
    """
    _insert(database, "runs", _RUN, [asdict(run) | {"left_out": json.dumps(run.left_out)}])
    _insert(database, "parts", _PART, [asdict(part) for part in parts])
    rows = [{"run": run.run} | asdict(one) for one in devices]
    _insert(database, "devices", ("run", "host", "site", "round", "wave"), rows)


def run_of(database: sqlite3.Connection, run: str) -> SiteRun | None:
    """Return a run; None where there is none of that identifier."""
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
    """Return the run that ended last, or None where none did."""
    row = database.execute("SELECT run FROM runs WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, rowid DESC LIMIT 1")
    found = row.fetchone()
    return None if found is None else str(found["run"])


def plans_no_longer_needed(database: sqlite3.Connection) -> list[str]:
    """Return the digests of plans that the centre offers though all their runs have ended, the oldest first."""
    statement = (
        "SELECT digest FROM runs GROUP BY digest HAVING MAX(is_offered) AND COUNT(*) = COUNT(ended_at) ORDER BY "
        "MIN(started_at)"
    )
    return [str(row["digest"]) for row in database.execute(statement)]


def set_not_offered(database: sqlite3.Connection, digest: str) -> None:
    """Keep that the file of a plan was removed."""
    database.execute("UPDATE runs SET is_offered = 0 WHERE digest = ?", (digest,))


def parts_of(database: sqlite3.Connection, run: str) -> list[Part]:
    """Return the parts of a run, by site and round."""
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE run = ? ORDER BY site, round"  # noqa: S608 -- our columns
    return [_part(row) for row in database.execute(statement, (run,))]


def part_of(database: sqlite3.Connection, run: str, site: str, number: int) -> Part | None:
    """Return the part of a site in a round; None where the run gave it none."""
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE run = ? AND site = ? AND round = ?"  # noqa: S608 -- ours
    row = database.execute(statement, (run, site, number)).fetchone()
    return None if row is None else _part(row)


def open_parts_at(database: sqlite3.Connection, site: str) -> list[Part]:
    """Return the parts of a site that are not over, of whichever run."""
    marks = ", ".join("?" * len(OPEN))
    statement = f"SELECT {', '.join(_PART)} FROM parts WHERE site = ? AND state IN ({marks})"  # noqa: S608 -- ours
    return [_part(row) for row in database.execute(statement, (site, *OPEN))]


def add_orders(database: sqlite3.Connection, orders: Sequence[KeptOrder]) -> None:
    """Keep orders; they are sent from here on until they are taken."""
    _insert(database, "orders", _ORDER, [asdict(order) for order in orders])


def orders_to_send(database: sqlite3.Connection, run: str) -> list[KeptOrder]:
    """Return the orders of a run that no agent has said to have, the oldest first."""
    statement = f"SELECT {', '.join(_ORDER)} FROM orders WHERE run = ? AND NOT is_taken ORDER BY rowid"  # noqa: S608 -- ours
    return [KeptOrder(**dict(row)) for row in database.execute(statement, (run,))]


def send_later(database: sqlite3.Connection, order_id: str, at: str) -> bool:
    """Have an order that was refused sent again in a while, under another name; return whether it is.

    A run that has not started, for images are being fetched, refuses what steers it. What a later order of the part
    took back, and what was refused again and again, is not.

    Args:
        database: A connection.
        order_id: The order that was refused.
        at: What time it is.
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
    """Keep that an order needs no more sending: it is on an agent's disk, or refused."""
    database.execute("UPDATE orders SET is_taken = 1 WHERE order_id = ?", (order_id,))


def hosts_of(database: sqlite3.Connection, run: str, site: str, number: int) -> tuple[str, ...]:
    """Return the devices of a part, in the order in which they were entered."""
    where = "SELECT host FROM devices WHERE run = ? AND site = ? AND round = ? ORDER BY rowid"
    return tuple(row["host"] for row in database.execute(where, (run, site, number)))


def waves_of(database: sqlite3.Connection, part: Part) -> tuple[int, ...]:
    """Return the numbers of the waves that devices of a part are in, ascending."""
    where = "SELECT DISTINCT wave FROM devices WHERE run = ? AND site = ? AND round = ? ORDER BY wave"
    return tuple(row["wave"] for row in database.execute(where, (part.run, part.site, part.round)))


def give(database: sqlite3.Connection, part: Part, *, at: str) -> None:
    """Keep that a part that was held is given now."""
    database.execute(
        "UPDATE parts SET state = 'given', changed_at = ? WHERE run = ? AND site = ? AND round = ? AND state = 'held'",
        (at, part.run, part.site, part.round),
    )


def end_held(database: sqlite3.Connection, run: str, why: str, *, at: str, site: str | None = None) -> None:
    """End the parts that are held: they are never given, so no message of them is expected.

    Args:
        database: A connection.
        run: The run.
        why: Why, in a sentence.
        at: What time it is.
        site: Of this site alone; None: of all.
    """
    database.execute(
        "UPDATE parts SET state = 'ended', end_offset = 0, sentence = ?1, changed_at = ?2 "
        "WHERE run = ?3 AND state = 'held' AND (?4 IS NULL OR site = ?4)",
        (why, at, run, site),
    )


def end_run(database: sqlite3.Connection, run: str, *, at: str) -> None:
    """Keep that all parts of a run have ended, the first time."""
    database.execute("UPDATE runs SET ended_at = ? WHERE run = ? AND ended_at IS NULL", (at, run))


def set_approved(database: sqlite3.Connection, run: str, wave: int | None) -> None:
    """Keep up to which wave sites may begin; None: all."""
    database.execute("UPDATE runs SET approved_wave = ? WHERE run = ?", (wave, run))


def set_stopped(database: sqlite3.Connection, run: str, why: str) -> None:
    """Keep why a run begins nothing new, the first reason."""
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
    """Record a request to steer a run.

    Args:
        database: A connection.
        run: The run.
        what: What, by the words of `flashferry.store.control_requests.SteerKind`.
        asker: Who, and why.
        at: What time it is.
        site: Of which site alone; None: of all.
        wave: With `approve`: up to which wave.
    """
    row = {"run": run, "site": site, "at": at, "what": what, "wave": wave} | asdict(asker)
    _insert(database, "steer_requests", tuple(row), [row])


def steer_requests_of(database: sqlite3.Connection, run: str) -> list[tuple[str | None, SteerRequest]]:
    """Return what people wanted of a run, the oldest first, each with the site that was meant; None: all."""
    rows = database.execute("SELECT * FROM steer_requests WHERE run = ? ORDER BY rowid", (run,))
    names = tuple(field.name for field in fields(SteerRequest))
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

"""So many rows in one transaction."""

_OF_RUN = ("events", "orders", "early", "steer_requests", "devices", "parts", "runs")

"""Tables with rows of a run, those that refer to others before these."""

_ENDED = (
    "SELECT run FROM runs WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM devices WHERE devices.run = runs.run "
    "AND is_held) AND NOT EXISTS (SELECT 1 FROM parts WHERE parts.run = runs.run AND state <> 'refused' "
    "AND (end_offset IS NULL OR whole < end_offset))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """What went with one look.

    Attributes:
        runs: The runs that have no events any more, the oldest first.
        events: How many events went.
        is_all: Whether nothing that may go is left.
    """

    runs: tuple[str, ...] = ()
    events: int = 0
    is_all: bool = True


def ended_before(database: sqlite3.Connection, before: str) -> list[str]:
    """Return the runs that ended before a time, all of them, and left no device in hand; the oldest first."""
    return [str(row[0]) for row in database.execute(f"{_ENDED} ORDER BY ended_at, rowid", (before,))]


def drop_events(ledger: SitesDatabase, before: str, *, most: int, piece: int = PIECE) -> Dropped:
    """Drop events of runs that ended before a time, the oldest first; all else of these runs stays.

    Args:
        ledger: The ledger.
        before: ISO 8601 in UTC, as the ledger keeps times.
        most: About so many events at most; what is left belongs to the next time.
        piece: So many of them in one transaction.

    Raises:
        sqlite3.Error: The ledger cannot be written; what went before is gone, and it is whole.
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
    """Remove runs that ended before a time and left no device in hand, with all that the ledger has of them.

    Args:
        directory: The state folder; nothing is made where it has no ledger.
        before: As for `drop_events`.
        is_dry: Whether they are only counted.

    Returns:
        The runs, the oldest first.

    Raises:
        ConfigInvalid: The ledger cannot be used, or written; of each run all is gone, or nothing but events.
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
            f"the ledger of sites in {directory}: {error}", hint="Check the room on its disk, and do it again"
        ) from None
    return tuple(found)


def _has_events(database: sqlite3.Connection, run: str) -> bool:
    return database.execute("SELECT 1 FROM events WHERE run = ? LIMIT 1", (run,)).fetchone() is not None


def _drop_piece(ledger: SitesDatabase, run: str, before: str, piece: int) -> int:
    """Drop some events of a run, unless it is not to be touched any more; return how many."""
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
        # Asked again with the lock in hand.
        if run in ended_before(database, before):
            for table in _OF_RUN:
                database.execute(f"DELETE FROM {table} WHERE run = ?", (run,))  # noqa: S608 -- our own words
