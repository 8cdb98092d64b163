"""The ledger rid of what is old: events first, runs on request; never of what is open or left a device in hand."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flashferry.api import check_state, prune
from flashferry.sites.centre.following import FleetFollower
from flashferry.sites.centre.merging import merged, run_report
from flashferry.store.control_requests import Asker
from flashferry.store.database import moment
from flashferry.store.sites.database import SitesDatabase
from flashferry.store.sites.runs import (
    Part,
    PartDevice,
    PartState,
    SiteRun,
    add_run,
    drop_events,
    end_run,
    open_runs,
    parts_of,
    remove_runs,
    run_of,
    runs_by_age,
)
from flashferry.store.sites.words import devices_of, news_of
from tests.patience import killed_at_end
from tests.unit.sites.centre.ground import RELEASE, Ground
from tests.unit.sites.centre.plans import device, plan

OLD, NEW, BEFORE = "2026-01-01T00:00:00.000Z", "2026-11-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z"
ALL = 1_000_000


def enter(
    ledger: SitesDatabase, name: str, *, ended_at: str | None = OLD, events: int = 10, is_held: bool = False
) -> None:
    """Enter a run of one device, through but for what is said."""
    is_over = ended_at is not None
    run = SiteRun(run=name, digest="d" * 64, plan="{}", started_at=OLD, valid_until=OLD)
    state = PartState.ENDED if is_over else PartState.RUNNING
    part = Part(run=name, site="ams", round=1, from_wave=0, agent="a", changed_at=OLD, state=state, whole=9)
    with ledger.writing() as database:
        add_run(database, run, [part], [PartDevice(host="r1", site="ams", round=1, wave=0)])
        rows = [(name, "ams", '{"host": "r1"}')] * events
        database.executemany("INSERT INTO events (run, site, line) VALUES (?, ?, ?)", rows)
        database.execute("UPDATE devices SET record = '{}', is_held = ? WHERE run = ?", (is_held, name))
        if ended_at is not None:
            database.execute("UPDATE parts SET end_offset = 9 WHERE run = ?", (name,))
            end_run(database, name, at=ended_at)


def events_of(ledger: SitesDatabase) -> dict[str, int]:
    with ledger.reading() as database:
        return {row[0]: row[1] for row in database.execute("SELECT run, count(*) FROM events GROUP BY run")}


def pages(ledger: SitesDatabase) -> int:
    with ledger.reading() as database:
        return int(database.execute("PRAGMA page_count").fetchone()[0])


@pytest.fixture
def ledger(tmp_path: Path) -> SitesDatabase:
    made = SitesDatabase(tmp_path)
    enter(made, "old")
    enter(made, "new", ended_at=NEW)
    enter(made, "open", ended_at=None)
    enter(made, "in-hand", is_held=True)
    enter(made, "older", ended_at="2025-01-01T00:00:00.000Z")
    return made


def test_events_of_runs_that_ended_long_ago_go_and_records_stay(ledger: SitesDatabase) -> None:
    """An open run and one that left a device in hand stay whole, whatever their age."""
    found = drop_events(ledger, BEFORE, most=ALL)
    assert (found.runs, found.events, found.is_all) == (("older", "old"), 20, True)
    assert events_of(ledger) == dict.fromkeys(("new", "open", "in-hand"), 10)
    with ledger.reading() as database:
        assert {run: len(devices_of(database, run)) for run in runs_by_age(database)} == dict.fromkeys(
            ("old", "new", "open", "in-hand", "older"), 1
        )
        assert news_of(database, "old").lines == ()
    assert drop_events(ledger, BEFORE, most=ALL) == type(found)()


def test_a_part_with_words_to_come_keeps_its_run(ledger: SitesDatabase) -> None:
    """It was seen to have ended, and yet a word before its last is missing: nothing of it goes."""
    with ledger.writing() as database:
        database.execute("UPDATE parts SET whole = 8 WHERE run = 'old'")
    assert drop_events(ledger, BEFORE, most=ALL).runs == ("older",)
    assert remove_runs(ledger.directory, BEFORE, is_dry=False) == ("older",)


def test_so_many_go_at_a_time_and_the_next_time_goes_on(ledger: SitesDatabase) -> None:
    """In pieces; each time says whether something is left."""
    told = [drop_events(ledger, BEFORE, most=6, piece=3) for _ in range(5)]
    assert sum(one.events for one in told) == 20
    assert max(one.events for one in told) < 6 + 3
    assert [one.is_all for one in told] == [False, False, False, True, True]


def test_many_rows_go_and_their_room_is_used_again(tmp_path: Path) -> None:
    """A hundred thousand events; the file is no larger behind a second season than behind the first."""
    ledger = SitesDatabase(tmp_path)
    enter(ledger, "run-1", events=100_000)
    first = pages(ledger)
    assert drop_events(ledger, BEFORE, most=ALL).events == 100_000
    enter(ledger, "run-2", ended_at=NEW, events=100_000)
    assert pages(ledger) <= first * 1.02
    assert events_of(ledger) == {"run-2": 100_000}


_KILLED = """
import sys
from pathlib import Path
from flashferry.store.sites import runs
from flashferry.store.sites.database import SitesDatabase

ledger = SitesDatabase(Path(sys.argv[1]))
runs.drop_events(ledger, sys.argv[2], most=3, piece=3)
with ledger.writing() as database:
    database.execute("DELETE FROM events WHERE run IN ('old', 'older')")
    print("in hand", flush=True)
    sys.stdin.read()
"""


def test_who_is_killed_in_the_midst_leaves_a_whole_ledger(ledger: SitesDatabase) -> None:
    """What went before is gone, what was in hand is there again, and the next one does the rest."""
    words = [sys.executable, "-c", _KILLED, str(ledger.directory), BEFORE]
    with killed_at_end(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "in hand\n"
        child.kill()
    assert check_state(state=ledger.directory).faults == ()
    assert events_of(ledger)["older"] == 7
    assert drop_events(ledger, BEFORE, most=ALL).events == 17
    assert check_state(state=ledger.directory).faults == ()


def test_a_run_goes_as_a_whole_with_those_of_the_journal(ledger: SitesDatabase) -> None:
    """Told first; then nothing of it is left, and nothing of another one is missing."""
    assert prune(30, is_dry=True, state=ledger.directory).site_runs == ("older", "old")
    assert len(events_of(ledger)) == 5
    assert prune(30, is_dry=False, state=ledger.directory).site_runs == ("older", "old")
    with ledger.reading() as database:
        assert set(runs_by_age(database)) == {"new", "open", "in-hand"}
        assert open_runs(database) == ["open"]
        assert (run_of(database, "old"), parts_of(database, "old"), devices_of(database, "old")) == (None, [], [])
        assert len(devices_of(database, "new")) == 1
    assert check_state(state=ledger.directory).faults == ()


def test_where_there_is_no_ledger_none_is_made(tmp_path: Path) -> None:
    """A host that is no centre of sites stays one that is none."""
    assert remove_runs(tmp_path, BEFORE, is_dry=False) == ()
    assert list(tmp_path.iterdir()) == []


def test_who_listens_has_old_events_go_once_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report of a run is the same behind it."""
    monkeypatch.setattr("flashferry.sites.centre.centre.our_release", lambda: RELEASE)
    ground = Ground(tmp_path, "ams")
    said: list[str] = []
    at_s = [0.0]
    run = ground.begin(plan([device("ams-r0", "ams")]))
    event = {"host": "ams-r0", "step": "pull", "status": "done", "text": "", "at_s": 1.0}
    ground.say("ams", f"{run}.ams", "event", {"events": [event] * 3})
    ground.do_all("ams", f"{run}.ams", ["ams-r0"])
    listener = FleetFollower(ground.centre, Asker(), said.append, clock=lambda: at_s[0])
    assert listener.check() == (run,)
    before = run_report(merged(ground.ledger, ground.centre.run_named(run)))
    with ground.ledger.writing() as database:
        database.execute("UPDATE runs SET ended_at = ?", (moment(datetime.now(UTC) - timedelta(days=91)),))
    listener.check()
    assert events_of(ground.ledger) == {run: 3}
    at_s[0] = 3600.0
    listener.check()
    assert events_of(ground.ledger) == {}
    assert said[-1] == "3 events of runs that ended over 90 days ago went; records stay"
    assert run_report(merged(ground.ledger, ground.centre.run_named(run))) == before
