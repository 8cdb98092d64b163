"""The schema of the staging service, as migration steps.

Times are ISO 8601 in UTC with milliseconds, so that they sort as text. Secrets are stored only as digests. The service
never deletes people, plans and runs, and a trigger prevents changes of the audit.
"""

from __future__ import annotations

import json

from flashferry.store.database import OwnDatabase, moment, moment_of

__all__ = ["ServiceDatabase", "moment", "moment_of", "names_in"]

FILE = "service.sqlite3"

_PEOPLE = """
CREATE TABLE people (
    name TEXT PRIMARY KEY,
    source TEXT NOT NULL CHECK (source IN ('local', 'oidc', 'header', 'system')),
    subject TEXT,
    display TEXT NOT NULL DEFAULT '',
    email TEXT NOT NULL DEFAULT '',
    password TEXT,
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'disabled')),
    created_at TEXT NOT NULL,
    failed_logins INTEGER NOT NULL DEFAULT 0,
    locked_until TEXT,
    UNIQUE (source, subject)
);
INSERT INTO people (name, source, created_at) VALUES ('system', 'system', '1970-01-01T00:00:00.000Z');
CREATE TABLE grants (
    person TEXT NOT NULL REFERENCES people,
    role TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'auditor', 'admin')),
    site TEXT NOT NULL DEFAULT '*',
    given_by TEXT NOT NULL,
    given_at TEXT NOT NULL,
    PRIMARY KEY (person, role, site)
);
CREATE TABLE tokens (
    token_id TEXT PRIMARY KEY,
    person TEXT NOT NULL REFERENCES people,
    name TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    grants TEXT,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    last_used_at TEXT,
    revoked_at TEXT
);
CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    person TEXT NOT NULL REFERENCES people,
    csrf TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT NOT NULL,
    seen_at TEXT NOT NULL,
    address TEXT NOT NULL
);
CREATE INDEX sessions_of ON sessions (person);
CREATE INDEX tokens_of ON tokens (person);
"""

_PLANS = """
CREATE TABLE plans (
    digest TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    sites TEXT NOT NULL,
    devices INTEGER NOT NULL,
    images TEXT NOT NULL DEFAULT '[]',
    duration_s REAL NOT NULL DEFAULT 0,
    made_by TEXT NOT NULL REFERENCES people (name),
    made_at TEXT NOT NULL,
    ends_at TEXT,
    state TEXT NOT NULL DEFAULT 'draft' CHECK (state IN ('draft', 'approved', 'denied', 'withdrawn')),
    decided_by TEXT REFERENCES people (name),
    decided_at TEXT,
    comment TEXT NOT NULL DEFAULT '',
    withdrawn_by TEXT REFERENCES people (name),
    withdrawn_at TEXT,
    withdrawn_because TEXT NOT NULL DEFAULT '',
    CHECK (decided_by IS NULL OR decided_by <> made_by),
    CHECK (state NOT IN ('approved', 'denied') OR decided_by IS NOT NULL),
    CHECK (state <> 'withdrawn' OR withdrawn_by IS NOT NULL)
);
CREATE INDEX plans_by_age ON plans (made_at);
CREATE TRIGGER what_was_read_stays BEFORE UPDATE OF digest, text, sites, images, made_by ON plans
BEGIN SELECT RAISE(ABORT, 'a plan never changes'); END;
CREATE TABLE wave_approvals (
    run_id TEXT NOT NULL,
    wave INTEGER NOT NULL,
    digest TEXT NOT NULL,
    by TEXT NOT NULL REFERENCES people (name),
    at TEXT NOT NULL,
    comment TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, wave)
);
CREATE TABLE waiting_waves (
    run_id TEXT NOT NULL,
    wave INTEGER NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (run_id, wave)
);
"""

_JOBS = """
CREATE TABLE jobs (
    job_id TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (
        kind IN ('stage', 'resume', 'recover', 'check', 'probe', 'dry-run', 'ready', 'plan', 'nightly')
    ),
    state TEXT NOT NULL CHECK (state IN ('queued', 'starting', 'running', 'ended', 'dead')),
    digest TEXT,
    run_id TEXT,
    parent TEXT REFERENCES jobs (job_id),
    attempt INTEGER NOT NULL DEFAULT 0,
    words TEXT NOT NULL,
    rules TEXT NOT NULL DEFAULT '',
    sites TEXT NOT NULL DEFAULT '[]',
    requested_by TEXT NOT NULL REFERENCES people (name),
    via TEXT NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    not_before TEXT,
    until TEXT,
    unit TEXT,
    pid INTEGER,
    process_started TEXT,
    created_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    exit_code INTEGER,
    sentence TEXT NOT NULL DEFAULT ''
);
CREATE INDEX jobs_by_state ON jobs (state, created_at);
CREATE UNIQUE INDEX one_resume_at_a_time ON jobs (parent, kind, attempt) WHERE parent IS NOT NULL;
CREATE TABLE answers (
    person TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    status INTEGER,
    answer TEXT,
    at TEXT NOT NULL,
    PRIMARY KEY (person, key)
);
CREATE TABLE schedules (
    schedule_id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('plan', 'nightly')),
    subject TEXT NOT NULL,
    calendar TEXT NOT NULL,
    time_zone TEXT NOT NULL,
    window_s INTEGER NOT NULL,
    sites TEXT NOT NULL DEFAULT '[]',
    owner TEXT NOT NULL REFERENCES people (name),
    made_by TEXT NOT NULL REFERENCES people (name),
    made_at TEXT NOT NULL,
    next_at TEXT,
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'held', 'ended')),
    sentence TEXT NOT NULL DEFAULT ''
);
CREATE TABLE occasions (
    schedule_id TEXT NOT NULL REFERENCES schedules,
    due_at TEXT NOT NULL,
    claimed_at TEXT NOT NULL,
    claimed_by TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('claimed', 'started', 'missed', 'refused')),
    job_id TEXT,
    sentence TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (schedule_id, due_at)
);
"""

_IMAGES = """
CREATE TABLE images (
    name TEXT PRIMARY KEY,
    size_bytes INTEGER NOT NULL,
    received_bytes INTEGER NOT NULL DEFAULT 0,
    md5 TEXT,
    sha512 TEXT,
    stated_sha512 TEXT,
    stated_by TEXT REFERENCES people (name),
    inside TEXT,
    file_state TEXT,
    source TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('arriving', 'published', 'unknown', 'vouched', 'mismatch', 'hidden')),
    state_before_hidden TEXT,
    state_reason TEXT NOT NULL DEFAULT '',
    uploaded_by TEXT NOT NULL REFERENCES people (name),
    created_at TEXT NOT NULL,
    completed_at TEXT,
    approved_by TEXT REFERENCES people (name),
    hidden_by TEXT REFERENCES people (name),
    hidden_at TEXT,
    CHECK (state <> 'vouched' OR approved_by IS NOT NULL),
    CHECK (state <> 'hidden' OR (hidden_at IS NOT NULL AND state_before_hidden IS NOT NULL)),
    CHECK (state NOT IN ('published', 'unknown', 'vouched') OR sha512 IS NOT NULL)
);
CREATE TABLE published (
    name TEXT NOT NULL,
    md5 TEXT NOT NULL DEFAULT '',
    sha512 TEXT NOT NULL,
    source TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (name, sha512)
) WITHOUT ROWID;
CREATE INDEX published_by_content ON published (sha512);
CREATE TABLE golden (
    model TEXT NOT NULL,
    site TEXT NOT NULL DEFAULT '*',
    image TEXT NOT NULL REFERENCES images (name),
    by TEXT NOT NULL REFERENCES people (name),
    at TEXT NOT NULL,
    PRIMARY KEY (model, site)
);
"""

_AUDIT = """
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at TEXT NOT NULL,
    actor TEXT NOT NULL,
    via TEXT NOT NULL,
    address TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('asked', 'done', 'refused', 'failed')),
    reason TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE
);
CREATE INDEX audit_by_action ON audit (action, seq);
CREATE INDEX audit_by_object ON audit (object, seq);
CREATE INDEX audit_by_actor ON audit (actor, seq);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'append only'); END;
CREATE TABLE hooks (
    hook_id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    form TEXT NOT NULL CHECK (form IN ('webhook', 'slack', 'teams', 'mail', 'syslog')),
    target TEXT NOT NULL,
    secret_name TEXT,
    kinds TEXT NOT NULL,
    sites TEXT NOT NULL DEFAULT '[]',
    state TEXT NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'paused')),
    audit_seq INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE outbox (
    notice_id TEXT PRIMARY KEY,
    hook_id TEXT NOT NULL REFERENCES hooks ON DELETE CASCADE,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    at TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    next_at TEXT,
    delivered_at TEXT,
    sentence TEXT NOT NULL DEFAULT ''
);
CREATE TABLE reminders (
    key TEXT PRIMARY KEY,
    reminded_at TEXT NOT NULL
);
CREATE INDEX outbox_due ON outbox (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX outbox_by_hook ON outbox (hook_id, at);
"""

_FIGURES = """
CREATE TABLE counted (
    what TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
"""

_ZONES = "ALTER TABLE people ADD COLUMN time_zone TEXT NOT NULL DEFAULT 'UTC';"

STEPS = (_PEOPLE + _PLANS + _JOBS + _IMAGES + _AUDIT + _FIGURES, _ZONES)
"""Each a script; a database takes those that it lacks."""

SCHEMA_VERSION = len(STEPS)


class ServiceDatabase(OwnDatabase):
    """The service's database in a state folder."""

    file, steps = FILE, STEPS
    called = "the service's database"
    kept = "runs and their journal are untouched"


def names_in(text: str) -> tuple[str, ...]:
    """Parse the names in a JSON column.

    A lone surrogate, which was accepted once, is escaped: no response can contain it.
    """
    return tuple(name.encode("utf-8", "backslashreplace").decode() for name in json.loads(text))
