"""The database of a site's agent: its tables, and its name of itself.

An order is on disk before it is taken off the broker, so that one that comes twice, from whatever end it was sent
again, is known; a word is on disk before it is sent, and until the centre says that it has it.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from flashferry.core.json_access import Node
from flashferry.store.database import OwnDatabase

FILE = "agent.sqlite3"

_TABLES = """
CREATE TABLE agent (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    name TEXT NOT NULL,
    site TEXT NOT NULL
);
CREATE TABLE orders (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    job TEXT NOT NULL,
    run TEXT NOT NULL,
    work TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'started', 'ended', 'refused')),
    received_at TEXT NOT NULL,
    ended_at TEXT,
    tries INTEGER NOT NULL DEFAULT 0,
    answer TEXT NOT NULL DEFAULT '{}',
    run_id TEXT
);
CREATE INDEX orders_by_state ON orders (state, number);
CREATE INDEX orders_by_work ON orders (work, number);
CREATE TABLE words (
    run TEXT NOT NULL,
    offset INTEGER NOT NULL,
    kind TEXT NOT NULL,
    at TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run, offset)
) WITHOUT ROWID;
CREATE TABLE offsets (
    run TEXT PRIMARY KEY,
    said INTEGER NOT NULL DEFAULT 0,
    acknowledged INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE tails (
    job TEXT PRIMARY KEY,
    position INTEGER NOT NULL
);
CREATE TABLE sent_records (
    job TEXT NOT NULL,
    host TEXT NOT NULL,
    digest TEXT NOT NULL,
    PRIMARY KEY (job, host)
);
"""

_FORGOTTEN = """
CREATE TABLE forgotten (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    valid_until TEXT NOT NULL
);
"""

STEPS = (_TABLES, _FORGOTTEN)

"""Each a script; a database takes those that it lacks."""


class AgentDatabase(OwnDatabase):
    """An agent's tables in its state folder."""

    file, steps = FILE, STEPS
    called = "the agent's database"
    kept = "the journal is untouched, and orders that are sent again find devices as they are"


def agent_name(database: sqlite3.Connection, site: str) -> tuple[str, str]:
    """Return the agent's name of itself, made with the first question, and the site for which that was.

    Args:
        database: A connection that writes.
        site: The site that it is for now.
    """
    database.execute(
        "INSERT OR IGNORE INTO agent (one, name, site) VALUES (1, ?, ?)", (f"agent-{uuid.uuid4().hex[:16]}", site)
    )
    row = database.execute("SELECT name, site FROM agent").fetchone()
    return str(row["name"]), str(row["site"])


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentBeat:
    """What an agent says of itself.

    Attributes:
        site: Its site.
        agent: Its name of itself, made once for its state folder.
        instance: Of its process; empty where it does not say.
        release: Its release.
        last_message_at: When it lived for sure, by our clock.
        clock_ahead_s: How far its clock is ahead of ours; negative: it is late; None: unknown.
        clock_within_s: By so much at most that is wrong.
        said_at: When it was said, by the agent's clock; empty: as `last_message_at`.
    """

    site: str
    agent: str
    instance: str
    release: str
    last_message_at: str
    clock_ahead_s: float | None = None
    clock_within_s: float = 0.0
    said_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetching:
    """An image that comes into a site's depot, as its agent reported last.

    Attributes:
        image: Its name.
        phase: What is done, by the words of `flashferry depot sync`: `asking`, `copying`, `waiting`, `proving`.
        done_bytes: How much of it is there; while it is proven, how much was read. From 0 to its size.
        size_bytes: Its size; 0 where the source has not reported it yet.
    """

    image: str
    phase: str
    done_bytes: int
    size_bytes: int

    @property
    def percent(self) -> int:
        """Return how far it is, 0 to 100; 100 only when all is done."""
        return 100 * self.done_bytes // self.size_bytes if self.size_bytes else 0

    @property
    def in_words(self) -> str:
        """Return the same for people: `image.bin: copying, 43%`."""
        return f"{self.image}: {self.phase}, {self.percent}%"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """What is known of the agent of a site.

    Attributes:
        site: The site.
        agent: Its name of itself.
        instance: Of its process; empty where it does not say.
        release: Its release.
        last_message_at: When its last message came.
        clock_ahead_s: How far its clock is ahead of ours; None where unknown.
        clock_within_s: By so much at most that is wrong; None where unknown.
        images: What its depot has proven: names, as it reported last.
        other: The process, or agent, that spoke for the site before this one, with the same key; empty: none did.
        contested_at: When the two last spoke by turns, so that both are there; None: they never did.
        fetching: The image that came into its depot when it said so last; None: none did.
        said_at: What of it was taken last was said then, by its clock.
        other_said_at: The same of the other one.
    """

    site: str
    agent: str
    instance: str
    release: str
    last_message_at: str
    clock_ahead_s: float | None
    clock_within_s: float | None = None
    images: tuple[str, ...] = ()
    other: str = ""
    contested_at: str | None = None
    fetching: Fetching | None = None
    said_at: str = ""
    other_said_at: str = ""

    @property
    def clock_off_s(self) -> float:
        """Return by how much its clock is off for sure, 0 or more."""
        return max(0.0, abs(self.clock_ahead_s or 0.0) - (self.clock_within_s or 0.0))


def fetching_in(data: object) -> Fetching | None:
    """Return what a beat says about an image that is being fetched; None where it says nothing valid."""
    node = Node(data)
    image, phase = node.text("image"), node.text("phase")
    if not image or not phase:
        return None
    size_bytes = max(0, node.whole("size_bytes") or 0)
    done_bytes = min(max(0, node.whole("done_bytes") or 0), size_bytes)
    return Fetching(image=image, phase=phase, done_bytes=done_bytes, size_bytes=size_bytes)


def take_beat(database: sqlite3.Connection, beat: AgentBeat, *, clock_bound_s: float = 0.0) -> bool:
    """Keep what an agent says of itself, where it is news; return whether it was.

    A process that was started anew is another one than before, and stays so. Two at once show by their turns: the one
    before the last speaks again. What is not younger than what was taken of the same process is said again, by
    anyone with access to the broker: it changes nothing, and keeps no agent alive.

    Args:
        database: A connection with a transaction open for writing.
        beat: What it says.
        clock_bound_s: What another process than the last said may be older by so much: clocks of two hosts differ.
    """
    row = database.execute("SELECT * FROM agents WHERE site = ?", (beat.site,)).fetchone()
    if row is not None and row["agent"] == beat.agent and not beat.instance:
        # An answer that does not say of which process it is says nothing new about that.
        beat = replace(beat, instance=row["instance"])
    beat = replace(beat, said_at=beat.said_at or beat.last_message_at)
    if row is not None and not _is_news(_state(row), beat, clock_bound_s):
        return False
    other, other_said_at, contested_at = None, None, None
    if row is not None and (row["agent"], row["instance"]) != (beat.agent, beat.instance):
        other, other_said_at = _called(row["agent"], row["instance"]), row["said_at"]
        contested_at = beat.last_message_at if row["other"] == _called(beat.agent, beat.instance) else None
    values = {name: getattr(beat, name) for name in _BEAT} | {"contested_at": contested_at}
    _write(database, values | {"other": other, "other_said_at": other_said_at}, is_new=row is None)
    if beat.clock_ahead_s is not None:
        take_clock(database, beat.site, beat.clock_ahead_s, beat.clock_within_s)
    return True


_BEAT = ("site", "agent", "instance", "release", "last_message_at", "said_at")


def _is_news(known: AgentState, beat: AgentBeat, clock_bound_s: float) -> bool:
    """Return whether a beat is younger than what was taken of its process, and not of long before another one's."""
    who = _called(beat.agent, beat.instance)
    if who == _called(known.agent, known.instance):
        return beat.said_at > known.said_at
    if who == known.other and beat.said_at <= known.other_said_at:
        return False
    if not known.said_at:
        return True
    age_s = (datetime.fromisoformat(known.said_at) - datetime.fromisoformat(beat.said_at)).total_seconds()
    return age_s <= clock_bound_s


def _write(database: sqlite3.Connection, values: Mapping[str, Any], *, is_new: bool) -> None:
    """Write what is not None; the time of its last message never goes back."""
    found = {name: value for name, value in values.items() if value is not None}
    if is_new:
        names, places = ", ".join(found), ", ".join(f":{name}" for name in found)
        database.execute(f"INSERT INTO agents ({names}) VALUES ({places})", found)  # noqa: S608 -- our own names
        return
    sets = ", ".join(f"{name} = :{name}" for name in found if name not in ("site", "last_message_at"))
    database.execute(
        f"UPDATE agents SET {sets}, last_message_at = MAX(last_message_at, :last_message_at) WHERE site = :site",  # noqa: S608 -- our own
        found,
    )


def take_clock(database: sqlite3.Connection, site: str, ahead_s: float, within_s: float) -> None:
    """Keep how far the clock of a site's agent is ahead of ours, and by how much at most that is wrong."""
    database.execute(
        "UPDATE agents SET clock_ahead_s = ?, clock_within_s = ? WHERE site = ?", (ahead_s, within_s, site)
    )


def _called(agent: str, instance: str) -> str:
    return f"{agent} {instance}".strip()


def take_sign(database: sqlite3.Connection, site: str, at: str) -> None:
    """Record that a message of an agent came."""
    database.execute("UPDATE agents SET last_message_at = MAX(last_message_at, ?) WHERE site = ?", (at, site))


def take_depot(database: sqlite3.Connection, site: str, images: Sequence[str]) -> None:
    """Keep which images the depot of a site has proven."""
    database.execute("UPDATE agents SET depot = ? WHERE site = ?", (json.dumps(list(images)), site))


def take_fetching(database: sqlite3.Connection, site: str, fetching: Fetching | None) -> None:
    """Keep which image comes into the depot of a site; None: none does."""
    kept = None if fetching is None else json.dumps(asdict(fetching))
    database.execute("UPDATE agents SET fetching = ? WHERE site = ?", (kept, site))


def agents_by_site(database: sqlite3.Connection) -> dict[str, AgentState]:
    """Return what is known of the agent of each site that ever sent a message."""
    return {row["site"]: _state(row) for row in database.execute("SELECT * FROM agents ORDER BY site")}


def _state(row: sqlite3.Row) -> AgentState:
    values: dict[str, Any] = dict(row)
    depot, fetching = values.pop("depot"), values.pop("fetching")
    return AgentState(
        **values,
        images=tuple(json.loads(depot or "[]")),
        fetching=None if fetching is None else Fetching(**json.loads(fetching)),
    )
