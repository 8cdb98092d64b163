"""The audit is a chain, and its times never go back but where an entry says that the clock did."""

from __future__ import annotations

import json
import sqlite3

import pytest

from flashferry.store.service.audit import FIRST, AuditEntry, append, entries, hash_of
from flashferry.store.service.database import ServiceDatabase


@pytest.fixture
def database(tmp_path):
    with ServiceDatabase(tmp_path).writing() as opened:
        yield opened


def said(at, action="plan.made"):
    return AuditEntry(at=f"2026-11-22T02:00:{at}Z", actor="anna", via="session", address="", action=action, object="x")


def test_each_entry_has_the_hash_of_the_one_before(database):
    """From zeros on, over number, entry and the hash before."""
    for second in ("00.000", "01.000", "02.000"):
        append(database, said(second))
    found = list(entries(database))
    assert [one.seq for one in found] == [1, 2, 3]
    assert [one.previous for one in found] == [FIRST, found[0].hash, found[1].hash]
    assert [one.hash for one in found] == [hash_of(one.seq, one.entry, one.previous) for one in found]


def test_a_clock_put_back_is_told_in_the_audit(database):
    """In front of the first entry behind it, with both times; the entry keeps the time that it has."""
    append(database, said("30.000"))
    append(database, said("10.000"))
    append(database, said("11.000"))
    found = [one.entry for one in entries(database)]
    assert [one.action for one in found] == ["plan.made", "clock.back", "plan.made", "plan.made"]
    assert [one.at[17:23] for one in found] == ["30.000", "10.000", "10.000", "11.000"]
    assert (json.loads(found[1].before), json.loads(found[1].after)) == (found[0].at, found[1].at)


def test_a_small_step_back_is_no_event(database):
    """Time servers put clocks back by parts of a second: such an entry has the time of the one before it."""
    append(database, said("30.000"))
    append(database, said("29.000"))
    assert [one.entry.at[17:23] for one in entries(database)] == ["30.000", "30.000"]


@pytest.mark.parametrize("change", ["UPDATE audit SET actor = 'eve'", "DELETE FROM audit"])
def test_nothing_in_it_is_changed(database, change):
    """The table refuses it."""
    append(database, said("00.000"))
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        database.execute(change)
