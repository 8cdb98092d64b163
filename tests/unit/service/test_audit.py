"""The audit looked at: every tampering is found, what is whole is told so, heads kept elsewhere count."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.service.audit import (
    COLUMNS,
    ExportForm,
    Head,
    announce_head,
    audit_filter,
    exported,
    parsed_head,
    verify,
)
from flashferry.service.notices import NoticeKind
from flashferry.service.principal import SYSTEM
from flashferry.service.service import Service
from flashferry.service.settings import ServiceSettings
from flashferry.store.service.audit import AuditEntry, append, entries, hash_of, last
from flashferry.store.service.database import FILE, ServiceDatabase
from flashferry.store.service.hooks import HookRow, add_hook, notices_of


@pytest.fixture
def kept(tmp_path):
    """A database with ten entries."""
    database = ServiceDatabase(tmp_path)
    with database.writing() as writing:
        for number in range(10):
            append(writing, said(number))
    return database


def said(number, **more):
    values = {
        "actor": "anna",
        "via": "token",
        "address": "192.0.2.1",
        "action": "plan.made",
        "object": f"plan:{number}",
    }
    return AuditEntry(at=f"2026-11-22T02:00:{number:02}.000Z", **values | more)


def found(database, *heads):
    with database.reading() as reading:
        return verify(reading, heads)


def tampered(database, *statements):
    """Change the database as somebody would who can write its file."""
    with closing(sqlite3.connect(database.directory / FILE, isolation_level=None)) as other:
        triggers = other.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit'")
        kept = triggers.fetchall()
        for name, _ in kept:
            other.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            other.execute(statement)
        for _, sql in kept:
            other.execute(sql)


def test_what_is_whole_is_told_so(kept):
    """With its head, and of an empty one too."""
    whole = found(kept)
    assert (whole.is_whole, whole.count) == (True, 10)
    assert whole.head is not None
    assert parsed_head(str(whole.head)) == whole.head
    assert found(kept, whole.head).is_whole


def test_an_empty_one_is_whole(tmp_path):
    """Nothing is missing from nothing."""
    assert found(ServiceDatabase(tmp_path)).is_whole


TAMPERING = {
    "UPDATE audit SET actor = 'eve' WHERE seq = 5": "entry 5: its hash is not that of what it says",
    "UPDATE audit SET reason = 'as agreed' WHERE seq = 10": "entry 10: its hash is not that of what it says",
    "UPDATE audit SET hash = upper(hash) WHERE seq = 4": "entry 4: its hash is not that of what it says",
    "UPDATE audit SET hash = lower(hex(randomblob(32))) WHERE seq = 10": "entry 10: its hash is not that of",
    "DELETE FROM audit WHERE seq = 5": "entry 6: expected number 5; 1 before it are missing",
    "DELETE FROM audit WHERE seq = 1": "entry 2: expected number 1",
    "DELETE FROM audit": "there is no entry, although each change has one, and there are rows: 1 in people",
    "UPDATE audit SET seq = 4611686018427387905 WHERE seq = 10": "entry 4611686018427387905: expected number 10",
    "UPDATE audit SET seq = 0 WHERE seq = 1": "entry 0: expected number 1",
    "UPDATE audit SET at = '~' WHERE seq = 10": "entry 10: its hash is not that of what it says",
    "UPDATE audit SET previous = '' WHERE seq = 7": "entry 7: the hash of the one before it is another one",
    "UPDATE audit SET at = '2020-01-01T00:00:00.000Z' WHERE seq = 3": "entry 3: its time 2020",
    "UPDATE audit SET actor = CAST(actor AS BLOB) WHERE seq = 2": "entry 2: expected text in each column",
    "UPDATE audit SET at = x'00ff' WHERE seq = 1": "entry 1: expected text in each column, found that at is blob",
    "UPDATE audit SET hash = CAST(hash AS BLOB) WHERE seq = 10": "entry 10: expected text in each column",
    "UPDATE audit SET actor = CAST(x'c3' AS TEXT) WHERE seq = 6": "entry 6: its hash is not that of what it says",
    "UPDATE audit SET actor = actor || char(0) || 'x' WHERE seq = 6": "entry 6: its hash is not that of what it says",
    "INSERT INTO audit SELECT 11, at, 'eve', via, address, action, object, outcome, reason, before, after, hash, 'ab' "
    "FROM audit WHERE seq = 10": "entry 11: its hash is not that of what it says",
}
"""Changes of rows, with the triggers put back as they were, and what is found."""

_BOTH_EMPTY = """
DROP TRIGGER audit_is_never_changed; DROP TRIGGER audit_is_never_deleted;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit BEGIN SELECT 1; END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit BEGIN SELECT 1; END
"""
_SOMETIMES = """
DROP TRIGGER audit_is_never_deleted; CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
WHEN OLD.actor <> 'eve' BEGIN SELECT RAISE(ABORT, 'append only'); END
"""
_NO_CHECK = """
PRAGMA writable_schema = ON;
UPDATE sqlite_master SET sql = replace(sql, 'CHECK (outcome IN', 'CHECK (1 OR outcome IN') WHERE type = 'table'
"""
_VIEW = "ALTER TABLE audit RENAME TO entries; CREATE VIEW audit AS SELECT * FROM entries WHERE actor <> 'eve'"
REDEFINED = {
    "DROP TRIGGER audit_is_never_changed": ("trigger audit_is_never_changed", "missing"),
    _BOTH_EMPTY: ("trigger audit_is_never_changed", "changed"),
    _SOMETIMES: ("trigger audit_is_never_deleted", "changed"),
    "CREATE TRIGGER extra AFTER INSERT ON audit BEGIN SELECT 1; END": ("trigger extra", "not part of it"),
    "CREATE TRIGGER extra AFTER INSERT ON plans BEGIN DELETE FROM audit; END": ("trigger extra", "not part of it"),
    "DROP TABLE audit": ("table audit", "missing"),
    _VIEW: ("view audit", "not part of it"),
    "ALTER TABLE audit ADD COLUMN note TEXT": ("table audit", "changed"),
    "DROP INDEX audit_by_actor": ("index audit_by_actor", "missing"),
    _NO_CHECK: ("table audit", "changed"),
}
"""Changes of definitions, and what is found."""


@pytest.mark.parametrize("statement", TAMPERING)
def test_tampering_is_found(kept, statement):
    """A change, a gap, another chain, a time, a value of another type, a row that a filter would pass over."""
    with kept.writing() as writing:
        writing.execute("INSERT INTO people (name, source, created_at) VALUES ('anna', 'local', '2026-11-22')")
    tampered(kept, statement)
    faults = found(kept).faults
    assert any(fault.startswith(TAMPERING[statement]) for fault in faults), faults


@pytest.mark.parametrize("script", REDEFINED)
def test_another_definition_is_found(kept, script):
    """Of the table, its indexes and every trigger, also where a trigger of the same name stands there."""
    with closing(sqlite3.connect(kept.directory / FILE)) as other:
        other.executescript(script)
    faults = found(ServiceDatabase(kept.directory)).faults
    what, how = REDEFINED[script]
    assert any(fault.startswith(f"the definition of {what} is") and how in fault for fault in faults), faults


def test_a_replaced_row_is_refused(kept):
    """INSERT OR REPLACE deletes too, and the trigger refuses it."""
    with pytest.raises(sqlite3.IntegrityError, match="append only"), kept.writing() as writing:
        writing.execute("INSERT OR REPLACE INTO audit SELECT * FROM audit WHERE seq = 3")


def test_an_end_cut_off_is_found_by_a_head(kept):
    """The chain alone cannot know; the daily head that somebody keeps does."""
    head = found(kept).head
    tampered(kept, "DELETE FROM audit WHERE seq > 8")
    assert found(kept).is_whole
    assert found(kept, head).faults == ("entry 10: expected one, as a head that was kept says, found none",)


def test_a_chain_made_anew_is_found_by_a_head(kept):
    """All hashes right, and none the one that was kept."""
    head = found(kept).head
    with kept.reading() as reading:
        chain = list(entries(reading))
    statements, previous = [], chain[0].previous
    for one in chain:
        entry = said(one.seq - 1, actor="eve")
        digest = hash_of(one.seq, entry, previous)
        statements.append(
            f"UPDATE audit SET actor = 'eve', previous = '{previous}', hash = '{digest}' WHERE seq = {one.seq}"
        )
        previous = digest
    tampered(kept, *statements)
    assert found(kept).is_whole
    assert found(kept, head).faults[0].startswith("entry 10: expected the hash")


@pytest.mark.parametrize("text", ["", "1", "1:", "x:" + "0" * 64, "1:" + "g" * 64, "-1:" + "0" * 64])
def test_a_head_that_is_none(text):
    """Refused in a sentence."""
    with pytest.raises(ConfigInvalid, match="expected NUMBER:HASH"):
        parsed_head(text)


def test_json_lines_are_exact(kept):
    """From them the hashes can be reckoned again, elsewhere."""
    with kept.writing() as writing:
        append(writing, said(11, reason="=cmd|' \x1b[2J"))
    with kept.reading() as reading:
        lines = [json.loads(line) for line in exported(entries(reading), ExportForm.JSONL)]
    for line in lines:
        values = {name: line[name] for name in COLUMNS if name not in ("seq", "previous", "hash")}
        assert hash_of(line["seq"], AuditEntry(**values), line["previous"]) == line["hash"]


def test_csv_runs_nothing(kept):
    """No cell is a formula, none is obeyed."""
    with kept.writing() as writing:
        append(writing, said(11, reason="=cmd|' \x1b[2J"))
    with kept.reading() as reading:
        text = "".join(exported(entries(reading), ExportForm.CSV))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 11
    assert rows[-1]["reason"] == "'=cmd|' \\x1b[2J"


WANTED = {
    "since": ({"since": "2026-11-22T02:00:08Z"}, [9, 10]),
    "until": ({"until": "2026-11-22T02:00:02+00:00"}, [1, 2]),
    "a day": ({"since": "2026-11-22", "until": "2026-11-22"}, list(range(1, 11))),
    "another day": ({"since": "2026-11-23"}, []),
    "actor": ({"actor": "bert"}, []),
    "subject": ({"action": "plan"}, list(range(1, 11))),
    "action": ({"action": "plan.made", "object_": "plan:3"}, [4]),
    "kind of object": ({"object_": "plan", "outcome": "done"}, list(range(1, 11))),
    "part of a word": ({"action": "pla"}, []),
}


@pytest.mark.parametrize("case", WANTED)
def test_entries_are_found(kept, case):
    """By time, by whom, by subject, by object."""
    wanted, seqs = WANTED[case]
    with kept.reading() as reading:
        assert [one.seq for one in entries(reading, matching=audit_filter(**wanted))] == seqs


@pytest.mark.parametrize("given", [{"since": "yesterday"}, {"until": "1"}, {"outcome": "good"}])
def test_a_filter_that_is_none(given):
    """Refused in a sentence."""
    with pytest.raises(ConfigInvalid, match="expected"):
        audit_filter(**given)


def test_pages_of_entries(kept):
    """The newest first, and from there back."""
    with kept.reading() as reading:
        first = [one.seq for one in entries(reading, is_newest_first=True, most=4)]
        second = [one.seq for one in entries(reading, is_newest_first=True, before_seq=first[-1], most=4)]
    assert (first, second) == ([10, 9, 8, 7], [6, 5, 4, 3])


def test_the_head_is_told_once_a_day(tmp_path):
    """Where something happened since: in the audit, and to who keeps it elsewhere."""
    time = [datetime(2026, 11, 22, 23, 59, tzinfo=UTC)]
    service = Service(
        state=tmp_path, settings=ServiceSettings(), database=ServiceDatabase(tmp_path), now=lambda: time[0]
    )
    with service.database.writing() as database:
        kinds = (NoticeKind.AUDIT_HEAD,)
        add_hook(
            database, HookRow(hook_id="a", name="a", form="syslog", target="udp://x", secret_name=None, kinds=kinds)
        )

    def day(*objects, hours=0):
        time[0] += timedelta(hours=hours)
        for one in objects:
            with service.database.writing() as database:
                service.note(database, SYSTEM, "plan.made", one)
        announce_head(service)

    announce_head(service)
    day("plan:1")
    day("plan:2")
    day(hours=1)
    day(hours=24)
    with service.database.reading() as database:
        actions = [one.entry.action for one in entries(database)]
        notices = notices_of(database, "a", most=9)
        newest = last(database)
    assert actions == ["plan.made", "audit.head", "plan.made", "audit.head"], "a day without anything has none"
    heads = [json.loads(notice.body)["facts"] for notice in notices]
    assert [head["seq"] for head in heads] == [3, 1]
    assert newest is not None
    assert Head(seq=3, hash=heads[0]["hash"]) == Head(seq=3, hash=newest.previous)
