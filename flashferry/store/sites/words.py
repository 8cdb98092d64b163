"""Messages of a part at the centre, by their offsets: duplicates, gaps, and messages out of order.

An agent numbers its messages of a part from 1. The transport delivers at least once, in any order, and a message may be
lost if a centre crashes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from flashferry.core.json_access import Node
from flashferry.store.sites.runs import RANK, Part, PartState, part_of, send_later, take_order


class Received(Struct, frozen=True, kw_only=True):
    """The received messages of a part.

    Attributes:
        whole: All messages up to this offset were received; 0 for none.
        early: Offsets beyond it that were received.
    """

    whole: int = 0
    early: frozenset[int] = frozenset()

    @property
    def has_gap(self) -> bool:
        """Return whether a message before the newest one is missing."""
        return bool(self.early)

    def has(self, offset: int) -> bool:
        """Return whether the message of an offset was received."""
        return offset <= self.whole or offset in self.early


def receive(received: Received, offset: int) -> tuple[Received, bool]:
    """Add the offset of a message to those received; return the result, and whether the message is new.

    An offset below 1 is invalid and not new.
    """
    if offset < 1 or received.has(offset):
        return received, False
    return joined(received.whole, {*received.early, offset}), True


def joined(whole: int, early: Collection[int]) -> Received:
    """Return what was received, with early messages counted as whole as far as no message before them is missing."""
    left = set(early)
    while whole + 1 in left:
        whole += 1
        left.discard(whole)
    return Received(whole=whole, early=frozenset(offset for offset in left if offset > whole))


PROGRESS = "progress"
"""Status of progress events, of which only the latest per device is stored."""


class Taken(StrEnum):
    """What was done with a message: stored, known already, or ignored."""

    NEWS = "news"
    REPEAT = "repeat"
    UNKNOWN_PART = "of a part that the centre did not give"
    OTHER_AGENT = "of an agent to which this part was not given"


class PartWord(Struct, frozen=True, kw_only=True):
    """A message about a part, with a verified signature.

    Attributes:
        agent: The sender.
        offset: Its number among the agent's messages of this part, from 1.
        kind: `accepted`, `refused`, `event`, `record`, `ended` or `depot`.
        at: When it was sent, ISO 8601, UTC.
        data: Its content.
    """

    run: str
    site: str
    round: int
    agent: str
    offset: int
    kind: str
    at: str
    data: Mapping[str, Any]


def take_word(database: sqlite3.Connection, word: PartWord, *, at: str) -> Taken:
    """Store a message, unless it is known.

    Args:
        database: A connection with an open write transaction.
        word: The message.
        at: Current time.
    """
    part = part_of(database, word.run, word.site, word.round)
    if part is None:
        return Taken.UNKNOWN_PART
    if word.agent != part.agent:
        return Taken.OTHER_AGENT
    received, is_news = receive(received_of(database, part), word.offset)
    if not is_news:
        return Taken.REPEAT
    _keep_received(database, part, received, at)
    if (order := Node(dict(word.data)).text("order")) is not None:
        take_order(database, order)
    if (write := _WRITERS.get(word.kind)) is not None:
        write(database, part, word, at)
    return Taken.NEWS


def received_of(database: sqlite3.Connection, part: Part) -> Received:
    """Return the received offsets of a part."""
    where = "SELECT offset FROM early WHERE run = ? AND site = ? AND round = ?"
    rows = database.execute(where, (part.run, part.site, part.round))
    return joined(part.whole, {row["offset"] for row in rows})


def _keep_received(database: sqlite3.Connection, part: Part, received: Received, at: str) -> None:
    key = (part.run, part.site, part.round)
    which = "WHERE run = ? AND site = ? AND round = ?"
    database.execute(f"UPDATE parts SET whole = ?, last_message_at = ? {which}", (received.whole, at, *key))  # noqa: S608 -- ours
    database.execute(f"DELETE FROM early {which} AND offset <= ?", (*key, received.whole))  # noqa: S608 -- our own words
    rows = [(*key, offset) for offset in received.early]
    database.executemany("INSERT OR IGNORE INTO early (run, site, round, offset) VALUES (?, ?, ?, ?)", rows)


def _accepted(database: sqlite3.Connection, part: Part, word: PartWord, at: str) -> None:  # noqa: ARG001 -- as all
    _go_on(database, part, PartState.ACCEPTED, at)


def _refused(database: sqlite3.Connection, part: Part, word: PartWord, at: str) -> None:
    node = Node(dict(word.data))
    if (node.text("job") or "stage") != "stage":
        # An order to steer was refused, not the part; if it was too early it is sent again.
        if not send_later(database, node.text("order") or "", at):
            why = node.text("sentence") or "it did not say why"
            _keep_note(database, part, f"{node.text('job')} refused: {why}", at)
        return
    sentence = ". ".join(text.rstrip(". ") for text in (node.text("sentence"), node.text("hint")) if text)
    _go_on(database, part, PartState.REFUSED, at, sentence=sentence or "it did not say why")


def _event(database: sqlite3.Connection, part: Part, word: PartWord, at: str) -> None:
    _go_on(database, part, PartState.RUNNING, at)
    latest: dict[str, str] = {}
    lines = []
    for event in events_in(word.data):
        text = json.dumps(dict(event), separators=(",", ":"))
        if event.get("status") == PROGRESS and isinstance(event.get("host"), str):
            latest[event["host"]] = text
        else:
            lines.append((part.run, part.site, text))
    database.executemany("INSERT INTO events (run, site, line) VALUES (?, ?, ?)", lines)
    rows = [
        (text, word.offset, _next(database, part.run), at, part.run, host, part.site) for host, text in latest.items()
    ]
    database.executemany(
        "UPDATE devices SET progress = ?1, progress_offset = ?2, changed = ?3, updated_at = ?4 "
        "WHERE run = ?5 AND host = ?6 AND site = ?7 AND progress_offset < ?2",
        rows,
    )


def events_in(data: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the events in a message."""
    found = data.get("events")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _record(database: sqlite3.Connection, part: Part, word: PartWord, at: str) -> None:
    record = word.data.get("record")
    host = word.data.get("host") or (record.get("host") if isinstance(record, dict) else None)
    if not isinstance(host, str) or not isinstance(record, dict):
        return
    _go_on(database, part, PartState.RUNNING, at)
    # Each attempt has a record: the one sent last counts, in whatever order they are received.
    database.execute(
        "UPDATE devices SET record = ?1, record_offset = ?2, changed = ?3, updated_at = ?4, is_held = ?8 "
        "WHERE run = ?5 AND host = ?6 AND site = ?7 AND record_offset < ?2",
        (
            *(json.dumps(record), word.offset, _next(database, part.run), at, part.run, host, part.site),
            word.data.get("is_held") is True,
        ),
    )


def _ended(database: sqlite3.Connection, part: Part, word: PartWord, at: str) -> None:
    node = Node(dict(word.data))
    if (node.text("job") or "stage") != "stage":
        return
    database.execute(
        "UPDATE parts SET exit_code = ?, is_interrupted = ?, end_offset = ? WHERE run = ? AND site = ? AND round = ?",
        (node.whole("exit_code"), bool(node.flag("interrupted")), word.offset, part.run, part.site, part.round),
    )
    key = (part.run, part.site, part.round)
    held = [(*key, host) for host in node.texts("held")]
    database.executemany("UPDATE devices SET is_held = 1 WHERE run = ? AND site = ? AND round = ? AND host = ?", held)
    _go_on(database, part, PartState.ENDED, at, sentence=node.text("sentence") or "")


def _go_on(database: sqlite3.Connection, part: Part, state: PartState, at: str, sentence: str = "") -> None:
    """Advance a part to a state; a late message never moves it back."""
    if RANK[state] > RANK[part.state]:
        database.execute(
            "UPDATE parts SET state = ?, sentence = ?, changed_at = ? WHERE run = ? AND site = ? AND round = ?",
            (state, sentence, at, part.run, part.site, part.round),
        )


def _keep_note(database: sqlite3.Connection, part: Part, text: str, at: str) -> None:
    event = {"host": None, "step": "site", "status": "note", "text": f"{part.site}: {text}", "at_s": 0.0, "at": at}
    line = json.dumps(event, separators=(",", ":"))
    database.execute("INSERT INTO events (run, site, line) VALUES (?, ?, ?)", (part.run, part.site, line))


def _next(database: sqlite3.Connection, run: str) -> int:
    """Return the next change number of a run's devices, by which followers poll."""
    row = database.execute("SELECT MAX(changed) FROM devices WHERE run = ?", (run,)).fetchone()
    return int(row[0] or 0) + 1


_WRITERS = {"accepted": _accepted, "refused": _refused, "event": _event, "record": _record, "ended": _ended}


class News(Struct, frozen=True, kw_only=True):
    """Changes of a run since the last poll.

    Attributes:
        lines: Site and JSON object of each event, in order of receipt.
        event_seq: Number of the last event.
        changed: Number of the last device change.
    """

    lines: tuple[tuple[str, dict[str, Any]], ...]
    event_seq: int
    changed: int


def news_of(database: sqlite3.Connection, run: str, *, event_seq: int = 0, changed: int = 0, most: int = 5000) -> News:
    """Return the events and the device progress of a run since the given numbers.

    Args:
        database: A connection.
        run: The run.
        event_seq: From the last `News`; 0 for all.
        changed: Likewise.
        most: Maximum number of events; the rest is left to the next call.
    """
    rows = database.execute(
        "SELECT seq, site, line FROM events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", (run, event_seq, most)
    ).fetchall()
    moved = database.execute(
        "SELECT site, progress, changed FROM devices WHERE run = ? AND changed > ? AND record IS NULL ORDER BY changed",
        (run, changed),
    ).fetchall()
    lines = [(row["site"], json.loads(row["line"])) for row in rows]
    lines += [(row["site"], json.loads(row["progress"])) for row in moved if row["progress"] is not None]
    return News(
        lines=tuple(lines),
        event_seq=rows[-1]["seq"] if rows else event_seq,
        changed=moved[-1]["changed"] if moved else changed,
    )


class DeviceState(Struct, frozen=True, kw_only=True):
    """A device of a distributed run.

    Attributes:
        round: Round of its part.
        wave: Number of its wave.
        record: JSON of its record; empty for none.
        is_held: Whether its agent holds it; if its part is over, it is not proven restored.
        updated_at: Time of its last message; None for none.
    """

    host: str
    site: str
    round: int
    wave: int
    record: dict[str, Any]
    is_held: bool
    updated_at: str | None


def devices_of(database: sqlite3.Connection, run: str) -> list[DeviceState]:
    """Return the devices of a run in the order of entry."""
    rows = database.execute(
        "SELECT host, site, round, wave, record, is_held, updated_at FROM devices WHERE run = ? ORDER BY rowid", (run,)
    )
    return [
        DeviceState(**dict(row) | {"record": json.loads(row["record"] or "{}"), "is_held": bool(row["is_held"])})
        for row in rows
    ]


def left_in_hand(database: sqlite3.Connection, run: str) -> list[tuple[str, str]]:
    """Return site and host of each device that an ended part left held: it is not proven restored."""
    rows = database.execute(
        "SELECT devices.site, host FROM devices JOIN parts USING (run, site, round) WHERE devices.run = ? AND is_held "
        "AND (state = 'refused' OR (end_offset IS NOT NULL AND whole >= end_offset)) ORDER BY devices.rowid",
        (run,),
    )
    return [(row["site"], row["host"]) for row in rows]


class DeviceOutcome(Struct, frozen=True, kw_only=True):
    """Result of a device of a distributed run.

    Attributes:
        round: Round of its part.
        wave: Number of its wave.
        outcome: A value of `flashferry.model.states.Outcome`; None before the end.
    """

    host: str
    site: str
    round: int
    wave: int
    outcome: str | None


def outcomes_of(database: sqlite3.Connection, run: str) -> list[DeviceOutcome]:
    """Return the result of each device of a run, without reading whole records.

    A record counts when the device or its part has ended. A device of an ended part without a record is an error,
    because its end is unknown.
    """
    rows = database.execute(
        "SELECT host, devices.site, devices.round, wave, CASE "
        "WHEN json_extract(record, '$.state') IN ('done', 'failed') OR (record IS NOT NULL AND state = 'ended') "
        "THEN json_extract(record, '$.outcome') "
        "WHEN state = 'refused' OR (state = 'ended' AND whole >= end_offset AND end_offset > 0) THEN 'error' "
        "END AS outcome "
        "FROM devices JOIN parts USING (run, site, round) WHERE devices.run = ? ORDER BY devices.rowid",
        (run,),
    )
    return [DeviceOutcome(**dict(row)) for row in rows]
