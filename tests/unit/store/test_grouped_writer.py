"""Writes of many threads: on disk when they return, each undone by itself, and none lost with another."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from flashferry.model.lease import JournalUnusable
from flashferry.model.states import State
from flashferry.store.grouped_writer import GroupedWriter
from flashferry.store.journal import Journal
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines
from tests.patience import PATIENCE_S, killed_at_end


@pytest.fixture
def database(tmp_path):
    connection = sqlite3.connect(tmp_path / "x.sqlite3", check_same_thread=False, isolation_level=None)
    with closing(connection) as opened:
        opened.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        yield opened


def insert(number):
    return lambda database: database.execute("INSERT INTO t VALUES (?)", (number,)).rowcount


def numbers(database):
    return [number for (number,) in database.execute("SELECT n FROM t ORDER BY n")]


def together(count, do):
    """Have `count` threads begin at the same time, and return what they raised."""
    gate, errors = threading.Barrier(count), []

    def one(number):
        gate.wait()
        try:
            do(number)
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            errors.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


class HoldingUp:
    """A write that holds its transaction until others wait behind it."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self, database):
        self.begun.set()
        assert self.go_on.wait(PATIENCE_S)


def behind(writer, first, works):
    """Have writes wait behind a first one, so that they share the next commit; return their results or errors."""

    def outcome(work):
        try:
            return writer.write(work)
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            return error

    with ThreadPoolExecutor(len(works) + 1) as pool:
        leader = pool.submit(outcome, first)
        assert first.begun.wait(PATIENCE_S)
        waiting = []
        for work in works:
            before = len(writer._waiting)
            waiting.append(pool.submit(outcome, work))
            while len(writer._waiting) == before:
                pass
        first.go_on.set()
        return [leader.result(), *(future.result() for future in waiting)]


def test_writes_that_wait_share_a_commit(database):
    """Twenty that came while one was being written are committed together."""
    commits = []
    database.set_trace_callback(lambda statement: commits.append(statement) if statement == "COMMIT" else None)
    results = behind(GroupedWriter(database), HoldingUp(), [insert(number) for number in range(20)])
    assert results == [None, *[1] * 20]
    assert len(commits) == 2


def test_a_write_that_fails_fails_alone(database):
    """Those that shared its transaction are kept; it gets its own error."""
    results = behind(GroupedWriter(database), HoldingUp(), [insert(1), insert(1), insert(2)])
    assert isinstance(results[2], sqlite3.IntegrityError)
    assert (results[1], results[3], numbers(database)) == (1, 1, [1, 2])


def test_half_a_write_is_undone(database):
    """What a write did before it raised is not there."""

    def half(connection):
        insert(1)(connection)
        raise ValueError("no step of a run")

    with pytest.raises(ValueError, match="no step"):
        GroupedWriter(database).write(half)
    assert numbers(database) == []


def test_a_commit_that_fails_fails_all_that_shared_it(database):
    """Nobody is told that something is on disk which is not; the next write has its own chance."""
    database.execute("CREATE TABLE parent (n INTEGER PRIMARY KEY)")
    database.execute("CREATE TABLE child (n REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    database.execute("PRAGMA foreign_keys = ON")
    writer = GroupedWriter(database)

    def orphan(connection):
        connection.execute("INSERT INTO child VALUES (7)")

    results = behind(writer, HoldingUp(), [insert(1), orphan, insert(2)])
    assert [isinstance(one, sqlite3.IntegrityError) for one in results] == [False, True, True, True]
    assert writer.write(insert(3)) == 1
    assert numbers(database) == [3]


def test_an_interrupted_writer_leaves_others_their_turn(database):
    """Ctrl-C in the thread that writes for all: it alone is broken off, the others are written."""

    class Interrupted(HoldingUp):
        def __call__(self, connection):
            super().__call__(connection)
            raise KeyboardInterrupt

    results = behind(GroupedWriter(database), Interrupted(), [insert(1), insert(2)])
    assert isinstance(results[0], KeyboardInterrupt)
    assert (results[1:], numbers(database)) == ([1, 1], [1, 2])


def test_one_interrupted_in_the_middle_of_a_shared_commit(database):
    """Those whose write was undone with its transaction write again; none is there twice, none is missing."""

    def interrupted(connection):
        raise KeyboardInterrupt

    results = behind(GroupedWriter(database), HoldingUp(), [interrupted, insert(1), insert(2), insert(3)])
    assert isinstance(results[1], KeyboardInterrupt)
    assert (results[2:], numbers(database)) == ([1, 1, 1], [1, 2, 3])


def test_a_closed_database_is_told_to_everybody(database):
    """No thread waits for ever for a commit that cannot come."""
    writer = GroupedWriter(database)
    database.close()
    errors = together(20, lambda number: writer.write(insert(number)))
    assert len(errors) == 20
    assert all(isinstance(error, sqlite3.ProgrammingError) for error in errors)


def test_fifty_devices_at_once(tmp_path):
    """Every step of each of them is kept, and each ends where it went."""
    steps = (State.CHECKED, State.JOURNALED, State.COPYING, State.COPIED, State.VERIFIED, State.RESTORED, State.DONE)
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")

        def way(number):
            host = f"r{number}"
            journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios")
            for step in steps:
                journal.move(run_id, host, step)
            journal.record(run_id, host, {"number": number})

        assert together(50, way) == []
    with closing(sqlite3.connect(tmp_path / "journal.sqlite3")) as database:
        found = database.execute("SELECT host, state, record FROM devices").fetchall()
    assert sorted(found) == sorted((f"r{number}", "done", f'{{"number": {number}}}') for number in range(50))


def test_of_many_that_want_a_device_one_gets_it(tmp_path, touch_as):
    """The lease holds among writes that share a commit."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        for number in range(30):
            journal.add_device(run_id, host=f"r{number}", address="192.0.2.1", port=22, platform="ios")
        errors = together(30, lambda number: touch_as(journal, run_id, f"r{number}", "SN1/r1"))
        assert {type(error).__name__ for error in errors} == {"DeviceRefused"}
        assert (len(errors), len(journal.leased_devices())) == (29, 1)


def test_a_journal_that_cannot_be_written_is_told_to_each(tmp_path):
    """The sentence, not the database's words, reaches every thread."""
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal._db.execute("PRAGMA query_only = ON")
        errors = together(
            10,
            lambda number: journal.add_device(run_id, host=f"r{number}", address="x", port=22, platform="ios"),
        )
    assert [type(error) for error in errors] == [JournalUnusable] * 10


def test_no_cursor_leaves_the_thread_that_holds_the_database(tmp_path):
    """Freed elsewhere it would reset a statement that somebody else is using: misuse, and at times a crash."""
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as database:
        writer = GroupedWriter(database)
        writer.write(lambda db: db.execute("CREATE TABLE t (x)"))
        for ask in (
            lambda: writer.write(lambda db: db.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])),
            lambda: writer.read(lambda db: db.execute("SELECT x FROM t")),
        ):
            with pytest.raises(sqlite3.ProgrammingError, match="closed cursor"):
                ask().fetchone()
        assert writer.read(lambda db: db.execute("SELECT count(*) FROM t").fetchone()) == (2,)


WRITING = """
import sys, threading
from pathlib import Path
from flashferry.store.journal import Journal
from flashferry.model.states import State
from tasks.read_config import Fingerprint
from tasks.snapshot import Snapshot
from tasks.tcp_config import TcpLines
BEFORE = Snapshot(running=TcpLines(lines=()), startup=TcpLines(lines=()),
                  running_fingerprint=Fingerprint(whole="w", lines=()), salt="s")
journal = Journal(Path(sys.argv[1]))
run_id = journal.begin_run("stage")
said = threading.Lock()
def way(thread):
    number = 0
    while True:
        host = f"r{thread}-{number}"
        journal.add_device(run_id, host=host, address="192.0.2.1", port=22, platform="ios")
        journal.acquire_lease(run_id, host, identity=host, snapshot=BEFORE, changes=(), target="flash:x")
        with said:
            print(host, flush=True)
        number += 1
for thread in range(20):
    threading.Thread(target=way, args=(thread,)).start()
"""


def test_what_was_touched_is_there_after_a_kill(tmp_path):
    """Killed in the middle of grouped commits: every device for which `touch` returned is in the journal."""
    command = [sys.executable, "-c", WRITING, str(tmp_path)]
    with killed_at_end(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) as child:
        told = [child.stdout.readline().strip() for _ in range(200)]
        child.send_signal(signal.SIGKILL)
        told += [line.strip() for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    with Journal(tmp_path) as journal:
        found = {device.host for device in journal.leased_devices()}
        assert journal.damaged_entries() == ()
    assert len(told) >= 200
    assert set(told) <= found


def test_only_a_write_that_needs_it_waits_for_the_disk(database):
    """The others commit all the same, and one that needs it brings them to the disk along with it."""
    writer = GroupedWriter(database)
    levels = []

    def insert_and_note(number):
        def work(database):
            levels.append(database.execute("PRAGMA synchronous").fetchone()[0])
            database.execute("INSERT INTO t VALUES (?)", (number,))

        return work

    for number, is_synced in enumerate((True, False, False, True)):
        writer.write(insert_and_note(number), is_synced=is_synced)
        assert not database.in_transaction
    normal, full = 1, 2
    assert levels == [full, normal, normal, full]
    assert numbers(database) == [0, 1, 2, 3]


def test_what_recovery_needs_is_synced(tmp_path, monkeypatch):
    """A lease, what is set instead, an activation's phase, and the lease's end; states and records are not alone."""
    snapshot = Snapshot(
        running=TcpLines(lines=()),
        startup=TcpLines(lines=()),
        running_fingerprint=Fingerprint(whole="w", lines=()),
        salt="s",
    )
    synced: list[bool] = []

    class Noting(GroupedWriter):
        def write(self, work, *, is_synced=True):
            synced.append(is_synced)
            return super().write(work, is_synced=is_synced)

    monkeypatch.setattr("flashferry.store.journal.GroupedWriter", Noting)
    with Journal(tmp_path) as journal:
        run_id = journal.begin_run("stage")
        journal.add_device(run_id, host="r1", address="192.0.2.1", port=22, platform="ios")
        journal.move(run_id, "r1", State.CHECKED)
        journal.acquire_lease(run_id, "r1", identity="r1", snapshot=snapshot, changes=(), target="flash:x")
        journal.replan(run_id, "r1", ())
        journal.move(run_id, "r1", State.TUNED)
        journal.release(run_id, "r1", {"outcome": "done"})
        journal.record(run_id, "r1", {"outcome": "done"})
        journal.finish_run(run_id)
    assert synced == [True, False, False, True, True, False, True, False, True]
