"""The schema of the centre's database of distributed runs, as migration steps.

Times are ISO 8601 in UTC with milliseconds, so that they sort as text. A part is the work of one site in one round (0:
canaries, 1: the others) of a run; each device is in exactly one part. `whole` is the offset up to which all messages of
a part are stored; later ones are in `early` until the gap is closed.
"""

from __future__ import annotations

from flashferry.store.database import OwnDatabase

FILE = "sites.sqlite3"

_LEDGER = """
CREATE TABLE runs (
    run TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    plan TEXT NOT NULL,
    started_at TEXT NOT NULL,
    started_by TEXT NOT NULL DEFAULT '',
    valid_until TEXT NOT NULL,
    approved_wave INTEGER,
    stopped TEXT,
    ended_at TEXT
);
CREATE TABLE parts (
    run TEXT NOT NULL REFERENCES runs,
    site TEXT NOT NULL,
    round INTEGER NOT NULL,
    from_wave INTEGER NOT NULL,
    agent TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('held', 'given', 'accepted', 'running', 'refused', 'ended')),
    sentence TEXT NOT NULL DEFAULT '',
    exit_code INTEGER,
    is_interrupted INTEGER NOT NULL DEFAULT 0,
    whole INTEGER NOT NULL DEFAULT 0,
    end_offset INTEGER,
    changed_at TEXT NOT NULL,
    last_message_at TEXT,
    PRIMARY KEY (run, site, round)
);
CREATE TABLE orders (
    order_id TEXT PRIMARY KEY,
    run TEXT NOT NULL,
    site TEXT NOT NULL,
    round INTEGER NOT NULL,
    job TEXT NOT NULL,
    wave INTEGER,
    valid_from TEXT NOT NULL,
    valid_until TEXT NOT NULL,
    is_taken INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (run, site, round) REFERENCES parts
);
CREATE INDEX orders_open ON orders (run, is_taken);
CREATE TABLE early (
    run TEXT NOT NULL,
    site TEXT NOT NULL,
    round INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (run, site, round, offset),
    FOREIGN KEY (run, site, round) REFERENCES parts
) WITHOUT ROWID;
CREATE TABLE devices (
    run TEXT NOT NULL,
    host TEXT NOT NULL,
    site TEXT NOT NULL,
    round INTEGER NOT NULL,
    wave INTEGER NOT NULL,
    record TEXT,
    record_offset INTEGER NOT NULL DEFAULT 0,
    is_held INTEGER NOT NULL DEFAULT 0,
    progress TEXT,
    progress_offset INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0,
    updated_at TEXT,
    PRIMARY KEY (run, host),
    FOREIGN KEY (run, site, round) REFERENCES parts
);
CREATE INDEX devices_changed ON devices (run, changed);
CREATE TABLE events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL REFERENCES runs,
    site TEXT NOT NULL,
    line TEXT NOT NULL
);
CREATE INDEX events_of ON events (run, seq);
CREATE TABLE agents (
    site TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    instance TEXT NOT NULL DEFAULT '',
    release TEXT NOT NULL DEFAULT '',
    last_message_at TEXT NOT NULL,
    clock_ahead_s REAL,
    depot TEXT,
    other TEXT NOT NULL DEFAULT '',
    contested_at TEXT
);
CREATE TABLE steer_requests (
    run TEXT NOT NULL REFERENCES runs,
    site TEXT,
    at TEXT NOT NULL,
    actor TEXT NOT NULL DEFAULT '',
    via TEXT NOT NULL DEFAULT '',
    what TEXT NOT NULL CHECK (what IN ('pause', 'continue', 'stop', 'approve')),
    wave INTEGER,
    reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX steer_requests_of ON steer_requests (run);
"""

_LEFT_OUT_AND_FETCHING = """
ALTER TABLE runs ADD COLUMN left_out TEXT NOT NULL DEFAULT '[]';
ALTER TABLE agents ADD COLUMN fetching TEXT;
"""

_BEATS = """
ALTER TABLE agents ADD COLUMN clock_within_s REAL;
ALTER TABLE agents ADD COLUMN said_at TEXT NOT NULL DEFAULT '';
ALTER TABLE agents ADD COLUMN other_said_at TEXT NOT NULL DEFAULT '';
"""

_OFFERED = """
ALTER TABLE runs ADD COLUMN is_offered INTEGER NOT NULL DEFAULT 0;
"""

STEPS = (_LEDGER, _LEFT_OUT_AND_FETCHING, _BEATS, _OFFERED)
"""Migration scripts, in order."""

SCHEMA_VERSION = len(STEPS)


class SitesDatabase(OwnDatabase):
    """The centre's database in a state folder."""

    file, steps = FILE, STEPS
    called = "the ledger of sites"
    kept = "what sites have in hand goes on there, and each has its own journal of it"
