"""The ledger rid of what is old: first the events of runs that ended long ago, on request these runs as a whole.

Events are most of the ledger, and of use while a run is followed; what became of each device stands in records, which
stay until `flashferry state prune` takes the run, as it does in the journal. A run that has not ended, or that left a
device in hand, is not touched whatever its age.

Rows go in pieces, a transaction each: words of agents wait for one piece at most, and who is killed between two leaves
a ledger with less of the events, which the next one goes on with. What is freed stays in the file and is used for the
next events (sqlite.org/fileformat2.html, "The Freelist"), so that it is as large as the busiest time within the days
that are kept; no VACUUM is waited for, which would write all of it anew.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from flashferry.core.errors import ConfigInvalid
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.schema import FILE

PIECE = 2000
"""So many rows in one transaction."""
_OF_RUN = ("events", "orders", "early", "wishes", "devices", "parts", "runs")
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
