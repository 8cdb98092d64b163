"""Events as lines of JSON: every field, and no reader that could hold up a run."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flashferry.core.errors import ConfigInvalid
from flashferry.core.values import field_names
from flashferry.monitor.event_log import SCHEMA, EventLog, event_line, event_log
from flashferry.monitor.events import Event, Progress, TransferEnd
from tests.patience import PATIENCE_S

EVENT = Event(host="r1", step="tune", status="done", text="1.0 s", at_s=2.5, site="berlin", wave=1)


class Reader:
    """What was written, by a writer that may be held up or gone."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []
        self.may_go = threading.Event()
        self.has_come = threading.Event()
        self.is_gone = False

    def write(self, data: bytes) -> None:
        self.has_come.set()
        self.may_go.wait(PATIENCE_S)
        if self.is_gone:
            raise BrokenPipeError
        self.lines.append(json.loads(data))


def progress(at: int) -> Event:
    seen = Progress(acked_bytes=at, size_bytes=100)
    return Event(host="r1", step="pull", status="progress", text="", at_s=float(at), progress=seen)


def test_a_line_has_every_field():
    """Schema, wall time and run in front; what is nested stays nested; what is not known is null."""
    end = TransferEnd(
        is_delivered=True, verdict="cap", bytes_acked=5, retransmitted_bytes=None, duration_s=1.0, rate_bytes_per_s=5.0
    )
    event = Event(host="r1", step="transfer", status="done", text="", at_s=2.0, transfer=end)
    found = json.loads(event_line(event, run_id="run-1", at=datetime(2026, 11, 21, 22, 15, 30, 125_000, UTC)))
    assert list(found) == ["schema", "at", *(name for name in field_names(Event)), "seq"]
    assert (found["schema"], found["at"], found["run_id"]) == (SCHEMA, "2026-11-21T22:15:30.125Z", "run-1")
    assert found["transfer"]["verdict"] == "cap"
    assert found["progress"] is None
    assert found["seq"] == 1


def test_every_field_is_explained(documentation):
    """docs/events.md names each field of a line, in code style."""
    text = documentation("events.md")
    for kind in (Event, Progress, TransferEnd):
        missing = [name for name in field_names(kind) if f"`{name}`" not in text]
        assert missing == []


def test_lines_are_there_when_the_log_is_closed(tmp_path: Path):
    """A file that exists is appended to; the run's identifier is on every line behind the one that tells it."""
    target = tmp_path / "events.jsonl"
    for run in ("run-1", "run-2"):
        with event_log(target, devices=1) as log:
            log(Event(host=None, step="run", status="started", text=run, at_s=0.0, run_id=run))
            log(EVENT)
            log.message("interrupted")
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert [line["run_id"] for line in lines] == ["run-1"] * 3 + ["run-2"] * 3
    assert (lines[1]["host"], lines[1]["site"], lines[1]["wave"]) == ("r1", "berlin", 1)
    assert lines[2]["text"] == "interrupted"
    assert target.stat().st_mode & 0o077 == 0


def test_a_reader_that_sleeps_holds_nothing_up():
    """What does not fit is dropped, and the gap is told where it is."""
    reader = Reader()
    log = EventLog(reader.write, queued_lines=3)
    log(EVENT)
    assert reader.has_come.wait(PATIENCE_S)
    for _ in range(10):
        log(EVENT)
    reader.may_go.set()
    assert log.close()
    assert [line["step"] for line in reader.lines] == ["tune"] * 4 + ["events"]
    assert str(reader.lines[-1]["text"]).startswith("7 events were dropped here")


def test_a_reader_that_went_away_is_no_error():
    """A closed pipe ends the log, not the run."""
    reader = Reader()
    reader.is_gone = True
    reader.may_go.set()
    log = EventLog(reader.write)
    for _ in range(3):
        log(EVENT)
    assert log.close()
    assert reader.lines == []


def test_a_reader_that_never_reads_is_left_behind():
    """A full pipe at the end costs two seconds, not the result."""
    reading, writing = os.pipe()

    def write(data):
        # A process that was stopped and goes on has its write end early, with a part of it written.
        left = data * 1000
        while left:
            left = left[os.write(writing, left) :]

    log = EventLog(write)
    log(EVENT)
    assert not log.close()
    os.close(reading)
    log._writer.join(PATIENCE_S)
    os.close(writing)


def test_progress_is_told_as_often_as_the_fleet_allows():
    """A device tells its progress once in so many seconds; anything else is always told."""
    reader = Reader()
    reader.may_go.set()
    now_s = [1e9]
    log = EventLog(reader.write, progress_every_s=10.0, wall=lambda: now_s[0])
    for second in range(30):
        now_s[0] = 1e9 + second
        log(progress(second))
    log(EVENT)
    log.close()
    assert [line["at_s"] for line in reader.lines] == [0.0, 10.0, 20.0, 2.5]


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path):
    """At once, with what to do: waiting for a reader would be a run that never begins."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigInvalid, match="no process reads from this pipe"), event_log(tmp_path / "pipe", devices=1):
        pass


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path):
    """The sentence names the option and the file."""
    with pytest.raises(ConfigInvalid, match=r"--events .*nowhere"), event_log(tmp_path / "nowhere" / "x", devices=1):
        pass


def test_lines_are_numbered_and_a_gap_shows(tmp_path: Path):
    """From 1 without holes in a file; what a slow reader lost is missing among the numbers, too."""
    with event_log(tmp_path / "events", devices=1) as log:
        for _ in range(5):
            log(EVENT)
    found = [json.loads(line)["seq"] for line in (tmp_path / "events").read_text().splitlines()]
    assert found == [1, 2, 3, 4, 5]
    reader = Reader()
    slow = EventLog(reader.write, queued_lines=2)
    slow(EVENT)
    assert reader.has_come.wait(PATIENCE_S)
    for _ in range(5):
        slow(EVENT)
    reader.may_go.set()
    assert slow.close()
    assert [one["seq"] for one in reader.lines] == [1, 2, 3, 7]
    assert "3 events were dropped" in str(reader.lines[-1]["text"])


def test_no_line_of_a_file_is_dropped(tmp_path: Path, monkeypatch):
    """However slow the disk is: what waits for it has no end."""
    monkeypatch.setattr("flashferry.monitor.event_log.QUEUED_LINES", 10)
    write, may_go = os.write, threading.Event()
    monkeypatch.setattr(os, "write", lambda number, data: may_go.wait(PATIENCE_S) and write(number, data))
    with event_log(tmp_path / "events", devices=1) as log:
        for _ in range(500):
            log(EVENT)
        may_go.set()
    found = [json.loads(line)["seq"] for line in (tmp_path / "events").read_text().splitlines()]
    assert found == list(range(1, 501))


def test_a_full_disk_tears_no_line(tmp_path: Path, monkeypatch):
    """A part was taken, then none: once there is room again the line goes on where it was, and none is lost."""
    monkeypatch.setattr("flashferry.monitor.event_log._AGAIN_S", 0.01)
    write, room = os.write, iter([7, 3, None, None, 20])

    def scarce(number: int, data: bytes) -> int:
        taken = next(room, len(data))
        if taken is None:
            raise OSError(28, "No space left on device")
        return write(number, data[:taken])

    monkeypatch.setattr(os, "write", scarce)
    with event_log(tmp_path / "events", devices=1) as log:
        for _ in range(3):
            log(EVENT)
    assert [json.loads(line)["seq"] for line in (tmp_path / "events").read_text().splitlines()] == [1, 2, 3]


def test_a_line_that_a_death_cut_is_ended(tmp_path: Path):
    """Who goes on in the same file does not write into the half line of who was killed."""
    (tmp_path / "events").write_text('{"schema": "flash')
    with event_log(tmp_path / "events", devices=1) as log:
        log(EVENT)
    half, whole = (tmp_path / "events").read_text().splitlines()
    assert half == '{"schema": "flash'
    assert json.loads(whole)["seq"] == 1
