"""A journal of an earlier release: brought up to date in place, or read as it is, without losing a word of it."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.devices.errors import DeviceRefused
from flashferry.store import schema
from flashferry.store.history import History
from flashferry.store.journal import Journal
from flashferry.store.schema import SCHEMA_VERSION
from flashferry.store.status import RunState, last_as_is, read_status
from flashferry.store.stored_run import read_run
from tests.patience import PATIENCE_S


def rows(directory, table, columns="*"):
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
        return database.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall()


def version(directory):
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


OLD_COLUMNS = (
    "run_id, host, address, port, platform, state, identity, touched, snapshot, changes, target, record, updated_at"
)


def test_nothing_of_an_old_journal_is_lost(old_journal):
    """Every old column of every row is what it was; the number tells the new schema."""
    runs, devices = rows(old_journal, "runs"), rows(old_journal, "devices", OLD_COLUMNS)
    with Journal(old_journal):
        pass
    assert version(old_journal) == SCHEMA_VERSION == 6
    assert rows(old_journal, "runs", "run_id, verb, started_at, finished_at") == runs
    assert rows(old_journal, "devices", OLD_COLUMNS) == devices


def test_a_device_in_hand_is_still_in_hand(old_journal, enter):
    """What an old run left tuned can be recovered, and its lease keeps others off."""
    with Journal(old_journal) as journal:
        (left,) = journal.leased_devices()
        assert (left.host, left.changes[0].before, left.target) == ("r1", "ip tcp window-size 65535", "flash:x.bin")
        run_id = journal.begin_run("stage")
        enter(journal, run_id, "other-name")
        same = {"identity": "SN1/r1", "snapshot": left.snapshot, "changes": left.changes, "target": "flash:x.bin"}
        with pytest.raises(DeviceRefused):
            journal.acquire_lease(run_id, "other-name", **same)
        journal.recovered(left.run_id, "r1", {"restored": "restored"})
        assert journal.leased_devices() == ()


def test_a_new_journal_equals_one_brought_up_to_date(old_journal, tmp_path):
    """Both have the same tables, columns and indexes."""
    with Journal(old_journal), Journal(tmp_path / "new"):
        pass
    query = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY name"
    found = []
    for directory in (old_journal, tmp_path / "new"):
        with closing(sqlite3.connect(directory / "journal.sqlite3")) as database:
            tables = [name for kind, name, _ in database.execute(query) if kind == "table"]
            columns = {table: database.execute(f"PRAGMA table_info({table})").fetchall() for table in tables}
            found.append((database.execute(query).fetchall(), columns))
    assert found[0] == found[1]


@pytest.mark.parametrize("statement", [1, 3, 5, 14, 15, 17, 18, 19])
def test_a_death_in_the_middle_leaves_one_schema_or_the_other(old_journal, statement):
    """Killed at its nth statement, the next one finds all of the old schema or all of the new, and the device."""
    code = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from flashferry.store import schema as journal_schema, journal_file\n"
        "seen = 0\n"
        "def count(statement):\n"
        "    global seen\n"
        "    seen += 1\n"
        "    if seen == int(sys.argv[2]):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "class Counted(sqlite3.Connection):\n"
        "    def __init__(self, *given, **named):\n"
        "        super().__init__(*given, **named)\n"
        "        self.set_trace_callback(count)\n"
        "connect = sqlite3.connect\n"
        "sqlite3.connect = lambda *given, **named: connect(*given, factory=Counted, **named)\n"
        "journal_file.open_database(Path(sys.argv[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(old_journal), str(statement)], check=False)
    assert done.returncode == -signal.SIGKILL
    tables = {name for (name,) in rows(old_journal, "sqlite_master", "name")}
    is_new = version(old_journal) == SCHEMA_VERSION
    assert ("transfers" in tables, "attempts" in tables) == (is_new, is_new)
    with Journal(old_journal) as journal:
        assert [device.host for device in journal.leased_devices()] == ["r1"]


@pytest.fixture
def sealed_journal(tmp_path, monkeypatch, kept):
    """A journal of schema 3, whose rows are sealed: two transfers, one of them changed behind its seal."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for number in range(2):
            journal.add_transfer(run_id, f"r{number}", kept(ticket_id=f"t{number}"))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        database.execute("ALTER TABLE transfers DROP COLUMN transport")
        database.execute("DROP TABLE wishes")
        for column in ("job", "events", "plan_digest", "actor"):
            database.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        database.execute("ALTER TABLE devices DROP COLUMN activation")
        schema.know_seals(database)
        for table in ("runs", "transfers"):
            columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})") if name != "seal"]
            database.execute(f"UPDATE {table} SET seal = flashferry_seal({', '.join(columns)})")
        database.execute("UPDATE transfers SET size_bytes = 1 WHERE host = 'r1'")
        database.execute("PRAGMA user_version = 3")
        database.commit()
    return tmp_path


def test_a_sealed_row_is_as_sound_as_it_was(sealed_journal):
    """One whose seal fits has one that fits with the new column; a changed one is told as before, both are of FTP."""
    with Journal(sealed_journal) as journal:
        assert journal.damaged_rows() == 1
    with closing(sqlite3.connect(sealed_journal / "journal.sqlite3")) as database:
        schema.know_seals(database)
        sound = schema.sound(database, "transfers")
        found = database.execute(f"SELECT host, transport, {sound} FROM transfers ORDER BY host").fetchall()
        runs = database.execute(f"SELECT job, {schema.sound(database, 'runs')} FROM runs").fetchall()
    assert found == [("r0", "ftp", 1), ("r1", "ftp", 0)]
    assert runs == [(None, 1)]


def test_a_change_behind_the_seal_of_a_run_stays_told(sealed_journal):
    """New columns make no changed row a sound one."""
    with closing(sqlite3.connect(sealed_journal / "journal.sqlite3")) as database:
        database.execute("UPDATE runs SET verb = 'probe'")
        database.commit()
    with Journal(sealed_journal) as journal:
        assert journal.damaged_rows() == 2


def test_a_sealed_journal_is_read_as_it_is(sealed_journal):
    """Copies of a journal that may only be read were by FTP, and its file stays as it is."""
    before = (sealed_journal / "journal.sqlite3").read_bytes()
    assert [one.transport for host in ("r0", "r1") for one in History.read(sealed_journal).of(host)] == ["ftp", "ftp"]
    assert (sealed_journal / "journal.sqlite3").read_bytes() == before


@pytest.fixture
def journal_of_schema_5(tmp_path, enter, touch):
    """A journal as the release before had it: a device in a dead run's hands, sealed without an activation."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        enter(journal, run_id, "r1")
        touch(journal, run_id, "r1")
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        database.execute("ALTER TABLE devices DROP COLUMN activation")
        schema.know_seals(database)
        columns = [name for _, name, *_ in database.execute("PRAGMA table_info(devices)") if name != "seal"]
        database.execute(f"UPDATE devices SET seal = flashferry_seal({', '.join(columns)})")
        database.execute("PRAGMA user_version = 5")
        database.commit()
    for file in (tmp_path / "leases").glob("*.json"):
        kept = json.loads(file.read_text())
        del kept["seal"], kept["activation"]
        file.write_text(json.dumps(kept | {"seal": schema.seal_of(*(kept[key] for key in sorted(kept)))}))
    return tmp_path


def test_a_device_of_the_release_before_is_sound_and_in_no_activation(journal_of_schema_5):
    """By the journal, read as it is and brought up to date, and by its file alone where the journal is lost."""
    status = read_status(journal_of_schema_5)
    assert [device.host for run in status.runs for device in run.devices if device.is_held] == ["r1"]
    with Journal(journal_of_schema_5) as journal:
        (left,) = journal.leased_devices()
        assert (left.host, left.activation, journal.damaged_rows()) == ("r1", None, 0)
    (journal_of_schema_5 / "journal.sqlite3").unlink()
    with Journal(journal_of_schema_5) as journal:
        (left,) = journal.leased_devices()
    assert (left.host, left.activation) == ("r1", None)


def test_two_that_open_it_at_once_bring_it_up_to_date_once(old_journal):
    """The second one waits for the first and finds the work done."""
    code = (
        "import sys; from pathlib import Path; from flashferry.store.journal import Journal\n"
        "sys.stdin.read(); Journal(Path(sys.argv[1]))"
    )
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(old_journal)], stdin=subprocess.PIPE) for _ in range(2)
    ]
    for child in children:
        child.stdin.close()
    for child in children:
        child.wait(timeout=PATIENCE_S)
    assert [child.returncode for child in children] == [0, 0]
    assert version(old_journal) == SCHEMA_VERSION


def test_an_old_journal_is_read_as_it_is(old_journal):
    """Asking shows what is in it, with the defaults of what it did not know, and changes not a byte."""
    path = old_journal / "journal.sqlite3"
    before = path.read_bytes()
    probe, stage = read_status(old_journal).runs
    assert (stage.state, stage.is_paused, stage.resumed) == (RunState.DIED, False, 0)
    assert [(one.host, one.is_held, one.attempt, one.wave) for one in stage.devices] == [("r1", True, 1, 0)]
    assert probe.devices[0].outcome == "done"
    assert last_as_is(old_journal) == {"r2": 161_000.0}
    assert read_run(old_journal, "latest").devices[0].host == "r2"
    assert path.read_bytes() == before


def test_speed_tests_of_an_old_journal_count(old_journal):
    """Both arms are in the history; that which has an account of its own keeps its samples."""
    as_is, tuned = History.read(old_journal).of("r2")
    assert (as_is.kind, as_is.steady_bytes_per_s, as_is.verdict) == ("probe as it is", 161_000.0, "window")
    assert (tuned.tuned, tuned.to_null, tuned.steady_bytes_per_s, tuned.model) == (
        True,
        True,
        5_720_000.0,
        "ISR4331/K9",
    )
    (device,) = read_run(old_journal, "20260102").devices
    assert [one.record["samples"] for one in device.transfers] == [[], [{"at_s": 0.0}]]


def test_a_newer_journal_is_not_read_either(old_journal):
    """What its tables mean nobody knows here; the sentence names the schema."""
    with closing(sqlite3.connect(old_journal / "journal.sqlite3")) as database:
        database.execute("PRAGMA user_version = 99")
    for look in (read_status, History.read):
        with pytest.raises(ConfigInvalid, match=r"newer flashferry \(schema 99\)"):
            look(old_journal)


def test_the_file_stays_private(old_journal):
    """Whoever may have read the old one, nobody but the owner may read it now."""
    with Journal(old_journal) as journal:
        journal.begin_run("stage")
        modes = {path.name: path.stat().st_mode & 0o077 for path in old_journal.glob("journal.sqlite3*")}
    assert modes == {"journal.sqlite3": 0, "journal.sqlite3-wal": 0, "journal.sqlite3-shm": 0}


def test_a_new_journal_is_private_from_its_first_byte(tmp_path):
    """The folder too, and the log, which has the newest rows."""
    with Journal(tmp_path / "state") as journal:
        journal.begin_run("stage")
        found = [tmp_path / "state", *(tmp_path / "state").rglob("*")]
        assert len(found) == 6
        assert [path.name for path in found if path.stat().st_mode & 0o077 and not path.name.endswith(".lock")] == []
