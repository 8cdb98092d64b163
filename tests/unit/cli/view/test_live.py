"""The live table: a row per device under way, in as many lines and columns as the terminal has."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from flashferry.cli.terminal.output import EventLines
from flashferry.cli.view.live import FleetLines, LiveTable, watching
from flashferry.monitor.events import Event, Progress
from flashferry.monitor.progress import Roster


class Screen:
    """A live table on a terminal of the test's own, by its own clock."""

    def __init__(self, devices: int = 2, width: int = 80, height: int = 24) -> None:
        self.now_s = 0.0
        self.out = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=height)
        self.table = LiveTable(self.out, "restore", devices, clock=lambda: self.now_s)

    def tell(self, host: str | None, step: str, status: str, text: str = "", progress: Progress | None = None) -> None:
        self.table(Event(host=host, step=step, status=status, text=text, at_s=self.now_s, progress=progress))

    @property
    def lines(self) -> list[str]:
        """What the table looks like now."""
        with self.out.capture() as captured:
            self.out.print(self.table)
        return [line.rstrip() for line in captured.get().splitlines()]

    @property
    def above(self) -> str:
        """What was printed above it so far."""
        self.table.print_above()
        return self.out.file.getvalue()


def copying(acked_bytes: int, rate_bytes_per_s: float = 5e6) -> Progress:
    return Progress(acked_bytes=acked_bytes, size_bytes=20_000_000, rate_bytes_per_s=rate_bytes_per_s)


def test_a_copy_has_share_rate_and_time_left():
    """Ten of twenty million bytes at 5 MB/s: half, and two seconds left."""
    screen = Screen()
    screen.tell("r1", "pull", "started")
    screen.tell("r1", "pull", "progress", progress=copying(10_000_000))
    row, summary = screen.lines
    assert row.split()[:2] == ["r1", "pull"]
    assert row.split()[-5:] == ["50%", "5.00", "MB/s", "0:02", "left"]
    assert summary == "0 of 2 devices through, 0:00"


def test_a_step_without_bytes_has_its_time():
    """How long it has been going on, not how long the run has."""
    screen = Screen()
    screen.now_s = 30
    screen.tell("r1", "verify", "started")
    screen.now_s = 95
    assert screen.lines[0].split() == ["r1", "verify", "1:05"]


def test_the_arm_of_a_speed_test_is_named():
    """`pull` would not tell which of the two copies it is."""
    screen = Screen()
    screen.tell("r1", "probe", "started", "tuned: 60 MB")
    screen.tell("r1", "pull", "started")
    assert screen.lines[0].startswith("r1  tuned: 60 MB")


def test_a_restored_device_leaves_and_is_counted():
    """What is through takes no line; a failure is told once, above."""
    screen = Screen()
    for host in ("r1", "r2"):
        screen.tell(host, "pull", "started")
    screen.tell("r2", "pull", "failed", "no progress for 60 s")
    screen.tell("r2", "restore", "started")
    screen.tell("r2", "restore", "done")
    assert "r2: pull: no progress for 60 s" in screen.above
    row, summary = screen.lines
    assert row.startswith("r1  pull")
    assert summary == "1 of 2 devices through, 1 with a failure, 0:00"


def test_a_refused_device_is_through():
    """It never comes to the last step."""
    screen = Screen(devices=1)
    screen.tell("r1", "check", "started")
    screen.tell("r1", "check", "failed", "refused: no room")
    assert screen.lines[-1] == "1 of 1 device through, 1 with a failure, 0:00"


def test_a_device_that_has_the_image_is_through():
    """A check is all that it gets: done, and then told why nothing follows."""
    screen = Screen(devices=1)
    screen.tell("r1", "check", "started")
    screen.tell("r1", "check", "done", "0.8 s")
    assert screen.lines[-1] == "0 of 1 device through, 0:00"
    screen.tell("r1", "check", "note", "note: the configuration is not saved")
    screen.tell("r1", "check", "done", "flash:image.bin is there already, hash proven")
    assert screen.lines[-1] == "1 of 1 device through, 0:00"


def test_a_note_of_the_check_is_told_above():
    """What plain lines say, the table must not swallow."""
    screen = Screen()
    screen.tell("r1", "check", "started")
    screen.tell("r1", "check", "note", "note: the running configuration is not saved")
    assert "r1: note: the running configuration is not saved" in screen.above
    assert screen.lines[0].split()[:2] == ["r1", "check"]


def test_a_device_that_is_restored_again_is_under_way():
    """A first attempt that failed is not the end; a look at the flash behind the last one takes nothing back."""
    screen = Screen(devices=1)
    screen.tell("r1", "restore", "started")
    screen.tell("r1", "restore", "failed", "no answer")
    screen.tell("r1", "restore", "started")
    row, summary = screen.lines
    assert row.startswith("r1  restore")
    assert summary == "0 of 1 device through, 1 with a failure, 0:00"
    screen.tell("r1", "restore", "done", "1.0 s")
    screen.tell("r1", "reconcile", "started")
    assert screen.lines[0].startswith("r1  reconcile")
    screen.tell("r1", "reconcile", "done", "0.1 s")
    assert screen.lines == ["1 of 1 device through, 1 with a failure, 0:00"]


def test_plain_lines_where_there_is_no_terminal(capsys):
    """In a pipe or a log there is nothing to redraw."""
    with watching("restore", devices=1) as emit:
        assert isinstance(emit, EventLines)
        emit(Event(host="r1", step="tune", status="done", text="1.0 s", at_s=2.0))
    assert "r1" in capsys.readouterr().err


def test_an_activation_says_what_a_device_is_at():
    """The step takes an hour: its line has what was told of it last, cut to the terminal, until the step is over."""
    screen = Screen(width=60)
    screen.tell("r1", "activate", "started")
    screen.tell("r1", "activate", "note", "restarting: 'install activate'")
    assert screen.lines[0].split() == ["r1", "activate", "0:00", "restarting:", "'install", "activate'"]
    screen.now_s = 1800
    screen.tell("r1", "activate", "waiting", f"not committed, its own timer brings the old image back: {'x' * 40}")
    assert screen.lines[0].startswith("r1  activate  30:00  not committed, its own timer")
    assert len(screen.lines[0]) <= 60
    screen.tell("r1", "activate", "done", "1800.0 s")
    assert "timer" not in screen.lines[0]


def test_a_device_that_ends_badly_without_a_failed_step_is_told_above():
    """As one that is refused by what it answered; where a step failed, that was told, and is not told again."""
    screen = Screen()
    screen.tell("r1", "ready", "started")
    screen.tell("r1", "device", "failed", "refused: ready: not ready")
    screen.tell("r2", "activate", "started")
    screen.tell("r2", "activate", "failed", "the session was lost")
    screen.tell("r2", "device", "failed", "failed: activate: the session was lost")
    assert screen.above.splitlines() == ["r1: refused: ready: not ready", "r2: activate: the session was lost"]


def test_hashing_is_one_line_of_the_table_until_it_is_over():
    """It changes in place; nothing of it stays above the table but its end."""
    screen = Screen()
    screen.tell(None, "server", "progress", "hashing a.bin: 10% of 9.00 GB")
    screen.tell(None, "server", "progress", "hashing a.bin: 20% of 9.00 GB")
    assert screen.lines == ["hashing a.bin: 20% of 9.00 GB", "0 of 2 devices through, 0:00"]
    screen.tell(None, "server", "done", "hashed a.bin")
    assert screen.lines == ["0 of 2 devices through, 0:00"]
    assert "10%" not in screen.above
    assert "server: hashed a.bin" in screen.above


@pytest.mark.parametrize("lines", [EventLines(), FleetLines(Roster(), "restore", 50)])
def test_hashing_without_a_terminal_is_a_line_now_and_then(lines, capsys):
    """At its start, every half minute, and at its end: a log of a job is read later."""
    for at_s in range(1, 62):
        lines(Event(host=None, step="server", status="progress", text=f"hashing: {at_s}%", at_s=float(at_s)))
    lines(Event(host=None, step="server", status="done", text="hashed", at_s=62.0))
    printed = [line for line in capsys.readouterr().err.splitlines() if " all " not in line]
    assert [line.split()[-1] for line in printed] == ["1%", "31%", "61%", "hashed"]


def test_hashing_on_a_terminal_changes_in_place(capsys, monkeypatch):
    """Whatever is printed next takes the line's place."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("FLASHFERRY_PLAIN", raising=False)
    monkeypatch.setenv("COLUMNS", "30")
    lines = EventLines()
    lines(Event(host=None, step="server", status="progress", text=f"hashing {'x' * 99}", at_s=1.0))
    assert capsys.readouterr().err == f"\r\033[Khashing {'x' * 21}"
    lines.say("next")
    assert capsys.readouterr().err == "\r\033[Kflashferry: next\n"
