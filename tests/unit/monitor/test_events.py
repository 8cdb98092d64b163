"""Events that another process writes: whole lines alone, from any offset, and as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from flashferry.monitor.event_log import event_line
from flashferry.monitor.events import Event, Progress, TransferEnd, event_of, lines_from

AT = datetime(2026, 11, 22, 2, 14, 0, 250_000, tzinfo=UTC)


def test_an_event_is_read_as_it_was_written():
    """Progress and the end of a transfer included; the time is that of the line."""
    told = Event(
        host="r1",
        step="pull",
        status="progress",
        text="",
        at_s=12.5,
        site="AMS",
        progress=Progress(acked_bytes=5, size_bytes=10, rate_bytes_per_s=2.5),
        transfer=TransferEnd(
            is_delivered=True, verdict="cap", bytes_acked=1, retransmitted_bytes=None, duration_s=1.0,
            rate_bytes_per_s=1.0,
        ),
        run_id="run",
    )  # fmt: skip
    found = event_of(event_line(told, run_id="run", at=AT))
    assert found is not None
    assert found.at == "2026-11-22T02:14:00.250Z"
    assert {name: getattr(found, name) for name in ("host", "progress", "transfer", "site", "at_s", "run_id")} == {
        name: getattr(told, name) for name in ("host", "progress", "transfer", "site", "at_s", "run_id")
    }


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"host": 1}', b"\xff\xfe", b"{}"])
def test_what_is_no_event_is_passed_over(line):
    """As docs/events.md asks of readers."""
    assert event_of(line) is None


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"one\ntwo two\n\nthree\nha")
    return path


WHOLE = b"one\ntwo two\n\nthree\n"


def test_from_every_offset_the_lines_follow_without_gap_or_repeat(file):
    """At a line's beginning it goes on there; in the middle of one, that line is told whole."""
    for offset in range(len(WHOLE) + 1):
        begun = WHOLE.rfind(b"\n", 0, offset) + 1
        found = lines_from(file, offset)
        assert (found.start, found.data, found.end) == (begun, WHOLE[begun:], len(WHOLE))


def test_half_a_line_waits_for_its_other_half(file):
    """Its writer is still at it, or died in it."""
    end = lines_from(file, 0).end
    assert lines_from(file, end).data == b""
    with file.open("ab") as writer:
        writer.write(b"lf\n")
    assert lines_from(file, end).data == b"half\n"


def test_each_line_has_the_offset_behind_it(file):
    """From there on the next one is told."""
    assert list(lines_from(file, 0).each()) == [(b"one", 4), (b"two two", 12), (b"", 13), (b"three", 19)]


@pytest.mark.parametrize("most_bytes", [1, 3, 8, 100])
def test_little_is_read_at_once_and_a_longer_line_is_whole_all_the_same(file, most_bytes):
    """However little: all lines come, in as many turns as it takes."""
    found, offset = b"", 0
    while data := (lines := lines_from(file, offset, most_bytes=most_bytes)).data:
        found, offset = found + data, lines.end
    assert found == WHOLE


@pytest.mark.parametrize(("back", "start"), [(-1, 19), (-3, 19), (-7, 19), (-8, 13), (-9, 12), (-21, 0), (-999, 0)])
def test_from_the_end_it_begins_with_a_whole_line(file, back, start):
    """So that who joins late need not read it all."""
    assert lines_from(file, back).start == start


def test_another_file_of_the_name_is_told_from_its_beginning(file, tmp_path):
    """An offset of the one means nothing in the other."""
    mark = lines_from(file, 0).mark
    other = tmp_path / "other"
    other.write_bytes(b"new\n")
    other.rename(file)
    found = lines_from(file, 12, mark=mark)
    assert (found.data, found.start) == (b"new\n", 0)
    assert found.mark != mark


def test_no_file_has_no_lines(tmp_path):
    """A run that has not begun to write is no error; what is no file is."""
    assert lines_from(tmp_path / "none", 5).data == b""
    with pytest.raises(OSError, match="folder"):
        lines_from(tmp_path, 0)
