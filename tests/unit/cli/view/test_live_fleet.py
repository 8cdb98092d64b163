"""The live view of a fleet: what needs attention comes first, totals are true, and no line is too long."""

from __future__ import annotations

import io
import threading

import pytest
from rich.cells import cell_len
from rich.console import Console

from flashferry.cli.view.live import FleetLines, LiveTable, watching
from flashferry.cli.view.live_devices import TerminalSize, bar, percent
from flashferry.cli.view.live_layout import lines_of
from flashferry.monitor.events import Event, Progress
from flashferry.monitor.progress import Expected, Fleet, Roster
from tests.patience import PATIENCE_S

SIZE_BYTES = 500_000_000
SITES = tuple(f"site-{number}" for number in range(10))


def roster(devices: int, sites: tuple[str, ...] = SITES) -> Roster:
    found = [
        Expected(host=f"r{number}", site=sites[number % len(sites)], size_bytes=SIZE_BYTES) for number in range(devices)
    ]
    return Roster(devices=tuple(found), caps_bytes_per_s=dict.fromkeys(sites, 12e6))


class Screen:
    """A live view on a terminal of the test's own, by its own clock."""

    def __init__(self, devices: int = 500, width: int = 80, height: int = 24, sites: tuple[str, ...] = SITES) -> None:
        self.now_s = 0.0
        self.out = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width, height=height)
        self.silent: dict[str, str] = {}
        self.fetching: dict[str, str] = {}
        self.view = LiveTable(
            self.out,
            "restore",
            devices,
            clock=lambda: self.now_s,
            roster=roster(devices, sites),
            silence=lambda: self.silent,
            fetching=lambda: self.fetching,
        )

    def tell(self, host: str | None, step: str, status: str, text: str = "", **more: object) -> None:
        self.view(Event(host=host, step=step, status=status, text=text, at_s=self.now_s, **more))  # type: ignore[arg-type]

    def copy(self, host: str, acked_bytes: int, rate_bytes_per_s: float = 1e6) -> None:
        seen = Progress(acked_bytes=acked_bytes, size_bytes=SIZE_BYTES, rate_bytes_per_s=rate_bytes_per_s)
        self.tell(host, "pull", "progress", progress=seen, verdict="cap")

    @property
    def lines(self) -> list[str]:
        with self.out.capture() as captured:
            self.out.print(self.view)
        return [line.rstrip() for line in captured.get().splitlines()]

    def line_of(self, host: str) -> str:
        return next(line for line in self.lines if line.startswith(f"{host} "))


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (160, 50), (40, 10), (20, 5), (5, 2)])
@pytest.mark.parametrize("devices", [3, 500])
def test_it_fits_the_terminal(width: int, height: int, devices: int):
    """Whatever the names, the sites and the size: no line is too long, one line is left for the cursor."""
    sites = ("Zürich-Flughafen-Nord-Gebäude-7", "東京", "b")
    screen = Screen(devices, width, height, sites)
    screen.tell(None, "wave", "waiting", "wave 1 (a very long name for a site, 200 devices) waits for approval")
    screen.silent = dict.fromkeys(sites[:2], "last heard 12 min ago")
    screen.fetching = dict.fromkeys(sites[2:], "an-image-with-a-name-that-has-no-end-either.bin: copying, 43%")
    for number in range(devices):
        screen.copy(f"r{number}", number * 1_000_000)
    screen.copy("a-router-that-the-roster-does-not-know-and-whose-name-has-no-end", 5)
    lines = screen.lines
    assert len(lines) <= max(2, height - 1)
    assert max(map(cell_len, lines)) <= width


def test_totals_are_those_of_all_devices():
    """Done, failed, under way and queued; bytes over all; what is left by the slowest site."""
    screen = Screen(20, sites=("a", "b"))
    screen.copy("r0", SIZE_BYTES)
    screen.tell("r0", "device", "done", outcome="done")
    screen.tell("r1", "device", "failed", "failed: check: no room", outcome="failed")
    screen.copy("r2", 250_000_000, 10e6)
    counts, totals = screen.lines[:2]
    assert counts.startswith("1 of 20 devices done, 1 failed, 1 under way, 17 queued")
    # Ten devices at each site; the one that failed is nothing to be copied any more.
    assert totals.endswith("7%  0.8 of 9.5 GB  10.00 MB/s  about 14:35 left")
    site = next(line for line in screen.lines if line.startswith("a "))
    assert site.split()[:5] == ["a", "1", "1", "8", "0"]
    assert site.split()[-4:] == ["15%", "10.00", "12.00", "7:05"]


def test_what_needs_attention_comes_first():
    """Being restored, failed, stalled, to be tried again, slow, verifying; then copies by how far they are."""
    screen = Screen(30, height=50, sites=("a", "b"))
    peers = [f"r{number}" for number in range(0, 20, 2)]
    for host in (*peers, "r21", "r23"):
        screen.tell(host, "pull", "started")
        screen.copy(host, 1_000_000)
    screen.now_s = 29.0
    screen.copy("r21", 2_000_000)
    screen.now_s = 40.0
    for number, host in enumerate(peers):
        screen.copy(host, 10_000_000 + number)
    for _ in range(20):
        screen.copy("r0", 10_000_001, 1e5)
    screen.tell("r2", "pull", "failed", "no room")
    screen.tell("r2", "restore", "started")
    screen.tell("r1", "device", "failed", "failed: check: no login", outcome="failed")
    screen.tell("r23", "device", "retry", "in 30 s, attempt 2: no login")
    screen.tell("r25", "verify", "started")
    head = next(number for number, line in enumerate(screen.lines) if line.startswith("device"))
    rows = [line.split()[0] for line in screen.lines[head + 1 :]]
    assert rows[:7] == ["r2", "r1", "r21", "r23", "r0", "r25", "r18"]
    assert "no room" in screen.line_of("r2")
    assert "stalled 0:11" in screen.line_of("r21")
    assert "in 30 s, attempt 2: no login" in screen.line_of("r23")
    assert "slow" in screen.line_of("r0")


def test_failures_leave_room_for_what_is_under_way():
    """A hundred that failed take a quarter of the lines; how many there are is told below."""
    screen = Screen(300, sites=("a",))
    for number in range(100):
        screen.tell(f"r{number}", "device", "failed", "failed: check: no room", outcome="failed")
    for number in range(100, 200):
        screen.copy(f"r{number}", 1_000_000)
    rows = [line for line in screen.lines if line.startswith("r")]
    failed = [line for line in rows if "failed" in line]
    assert 0 < len(failed) <= len(rows) / 3
    assert screen.lines[-1] == f"not shown: {100 - len(failed)} not done, {100 - len(rows) + len(failed)} copying"


def test_what_holds_up_a_run_is_shown_with_the_command():
    """Somebody who comes back to the terminal sees what to type."""
    screen = Screen()
    screen.tell(None, "run", "started", "run-7", run_id="run-7")
    screen.tell(None, "wave", "waiting", "wave 2 (site berlin, 12 devices) waits for approval")
    shown = "".join(screen.lines)
    assert "wave 2 (site berlin, 12 devices) waits for approval: flashferry run approve run-7" in shown
    screen.tell(None, "wave", "started", "2 of 5: site berlin")
    screen.tell(None, "run", "paused", "nothing new begins")
    shown = "\n".join(screen.lines)
    assert "waits for approval" not in shown
    assert "wave 2 of 5: site berlin" in shown
    assert "paused: nothing new begins: flashferry run continue run-7" in shown


def test_more_sites_than_lines():
    """Those with something under way are shown; the others are counted."""
    sites = tuple(f"s{number:02}" for number in range(60))
    screen = Screen(600, sites=sites)
    screen.copy("r59", 1_000_000)
    screen.tell("r0", "device", "done", outcome="done")
    assert any(line.startswith("s59 ") for line in screen.lines)
    assert any("more sites, 0 of them through" in line for line in screen.lines)


def test_a_terminal_without_the_glyphs_gets_ascii():
    """Bars, marks of what was cut and names are made of signs that any terminal has."""
    fleet = Fleet(roster(500, ("Zürich-Flughafen-Nord", "b")), "restore")
    seen = Progress(acked_bytes=SIZE_BYTES // 2, size_bytes=SIZE_BYTES, rate_bytes_per_s=1e6)
    fleet.take(Event(host="r0", step="pull", status="progress", text="", at_s=0.0, progress=seen), 0.0)
    lines = lines_of(fleet, TerminalSize(width=80, height=24, plain=True), now_s=1.0, elapsed_s=1.0)
    text = "\n".join("".join(text for text, _ in line) for line in lines)
    assert text.isascii()
    assert "###" in text
    assert "Z?rich-Flughafe~" in text


def test_nothing_is_done_before_it_is():
    """99.9 % is shown as 99 %, with a bar that is not full."""
    assert percent(0.999) == "99%"
    assert bar(0.999, 10, plain=False) == ("━" * 9, "─")
    assert (percent(1.0), bar(1.0, 10, plain=False)) == ("100%", ("━" * 10, ""))


def test_a_terminal_that_stands_still_holds_no_device_up(monkeypatch: pytest.MonkeyPatch):
    """Ctrl-S stops what is drawn, not what is told."""
    is_drawing, may_go = threading.Event(), threading.Event()

    class Stopped(io.StringIO):
        def write(self, text: str) -> int:
            if threading.current_thread().name == "live-view":
                is_drawing.set()
                may_go.wait(PATIENCE_S)
            return len(text)

    out = Console(file=Stopped(), force_terminal=True, width=80, height=24)
    view = LiveTable(out, "restore", 3)
    with view.drawn():
        view.say("hello")
        assert is_drawing.wait(PATIENCE_S)
        for number in range(1000):
            view(Event(host=f"r{number % 3}", step="pull", status="started", text="", at_s=0.0))
        may_go.set()


class Lines:
    """Plain lines of a fleet, by a clock of the test's own."""

    def __init__(self, devices: int = 40) -> None:
        self.now_s = 0.0
        self.told = FleetLines(roster(devices, ("a", "b")), "restore", devices, clock=lambda: self.now_s)

    def tell(self, host: str | None, step: str, status: str, text: str = "", **more: object) -> None:
        self.told(Event(host=host, step=step, status=status, text=text, at_s=self.now_s, **more))  # type: ignore[arg-type]


def test_many_devices_make_few_lines(capsys: pytest.CaptureFixture[str]):
    """A minute of forty copies: six times a line per site and one for all."""
    lines = Lines()
    for second in range(61):
        lines.now_s = float(second)
        for number in range(40):
            seen = Progress(acked_bytes=second * 1_000_000, size_bytes=SIZE_BYTES, rate_bytes_per_s=1e6)
            lines.tell(f"r{number}", "pull", "progress", progress=seen)
    found = capsys.readouterr().err.splitlines()
    assert len(found) == 18
    assert "a: 0 of 20 done, 20 under way, 11% copied, 20.00 of 12.00 MB/s" in found[-3]
    assert "about" in found[-1]


def test_ends_and_failures_are_told_at_once(capsys: pytest.CaptureFixture[str]):
    """A device's steps are not, its end, its failures and its retry are."""
    lines = Lines()
    lines.tell("r1", "check", "started")
    lines.tell("r1", "check", "done", "1.0 s")
    lines.tell("r1", "pull", "failed", "no progress for 60 s")
    lines.tell("r1", "device", "retry", "in 30 s, attempt 2")
    lines.tell("r1", "device", "done", "done", outcome="done")
    found = [line.split(maxsplit=2)[2] for line in capsys.readouterr().err.splitlines()]
    assert [" ".join(line.split()) for line in found] == [
        "r1 pull FAILED no progress for 60 s",
        "r1 device retry in 30 s, attempt 2",
        "r1 device done",
    ]


def test_many_devices_without_a_terminal_are_summed_up():
    """Few devices keep a line per step."""
    with watching("restore", devices=21) as emit:
        assert isinstance(emit, FleetLines)


@pytest.mark.parametrize("width", [80, 160])
def test_a_run_that_copies_nothing_has_no_columns_of_copies(width: int):
    """An activation of many devices: counts, rounds and what each is at, no bytes, caps or verdicts."""
    found = Roster(devices=tuple(Expected(host=f"r{number}", site=SITES[number % 2]) for number in range(12)))
    fleet = Fleet(found, "device", 12)
    fleet.take(Event(host=None, step="wave", status="started", text="round 1 of 2, canary: r1", at_s=0.0), 0.0)
    fleet.take(Event(host="r1", step="activate", status="started", text="", at_s=0.0), 0.0)
    fleet.take(Event(host="r1", step="activate", status="note", text="restarting: 'reload'", at_s=0.0), 0.0)
    found_lines = lines_of(fleet, TerminalSize(width=width, height=30), now_s=65.0, elapsed_s=65.0)
    lines = ["".join(text for text, _ in line).rstrip() for line in found_lines]
    assert not any(word in line for line in lines for word in ("copied", "MB/s", "of cap", "left", "limited by"))
    assert "round 1 of 2, canary: r1" in lines
    assert lines[-1].split()[-4:] == ["activate", "1:05", "restarting:", "'reload'"]


@pytest.mark.parametrize(("width", "has_share"), [(80, True), (60, False), (160, True)])
def test_the_row_of_a_silent_site_says_when_it_was_heard_last(width: int, has_share: bool):
    """In place of rates, which are old; as soon as it is heard again they are back. Others stay as they are."""
    screen = Screen(20, width=width, sites=("ams", "lim"))
    screen.copy("r0", 250_000_000, 10e6)
    screen.copy("r1", 250_000_000, 10e6)
    screen.silent = {"ams": "last heard 12 min ago"}
    row = screen.line_of("ams")
    assert row.split()[:5] == ["ams", "0", "1", "9", "0"]
    assert row.endswith("last heard 12 min ago")
    assert (" 5% " in row) is has_share
    assert "10.00" not in row
    assert "10.00" in screen.line_of("lim")
    screen.silent = {"ams": "last heard 13 min ago"}
    assert "last heard 13 min ago" in screen.line_of("ams")
    screen.silent = {}
    assert "10.00" in screen.line_of("ams")


def test_silent_sites_have_their_rows_where_there_are_more_than_lines():
    """Before sites that are heard; how many more are silent is told below."""
    sites = tuple(f"s{number:02}" for number in range(60))
    screen = Screen(600, sites=sites)
    screen.copy("r3", 1_000_000)
    screen.silent = {"s57": "never heard"}
    assert "never heard" in screen.line_of("s57")
    screen.silent = dict.fromkeys(sites, "never heard")
    rows = [line for line in screen.lines if "never heard" in line]
    (rest,) = [line for line in screen.lines if "more sites" in line]
    assert rest.endswith(f"{60 - len(rows)} silent")


@pytest.mark.parametrize(("devices", "sites"), [(3, ("ams", "lim")), (20, ("ams",))])
def test_without_rows_of_sites_a_line_names_those_that_are_silent(devices: int, sites: tuple[str, ...]):
    """Few devices have no rows of sites, and a run at one site has none; a name stays text."""
    screen = Screen(devices, sites=sites)
    assert not any("silent" in line for line in screen.lines)
    screen.silent = {"ams": "last heard 3 h ago", "x\x1b[31m": "never heard"}
    (told,) = [line for line in screen.lines if line.startswith("silent: ")]
    assert told == "silent: ams last heard 3 h ago, x\\x1b[31m never heard"


@pytest.mark.parametrize("devices", [3, 20])
def test_an_image_that_comes_into_a_depot_stands_at_its_site(devices: int):
    """In the site's row where there are rows, else in a line; once devices copy, their copies stand there."""
    screen = Screen(devices, sites=("ams", "lim"))
    screen.fetching = {"ams": "x.bin: copying, 43%"}
    (told,) = [line for line in screen.lines if "x.bin" in line]
    assert (told == "fetching: ams x.bin: copying, 43%") if devices == 3 else told.startswith("ams ")
    screen.copy("r0", 5_000_000)
    assert any("x.bin" in line for line in screen.lines) == (devices == 3)
    screen.fetching = {}
    assert not any("fetching" in line for line in screen.lines)


def test_a_run_that_copies_nothing_tells_silence_too():
    """A look has no bars, and yet its sites may fall silent."""
    fleet = Fleet(Roster(devices=tuple(Expected(host=f"r{n}", site="ab"[n % 2]) for n in range(20))), "check")
    lines = lines_of(
        fleet, TerminalSize(width=80, height=24), now_s=0.0, elapsed_s=0.0, silent={"b": "last heard 12 min ago"}
    )
    told = ["".join(text for text, _ in line) for line in lines]
    assert [line.split()[0] for line in told if line.endswith("last heard 12 min ago")] == ["b"]
