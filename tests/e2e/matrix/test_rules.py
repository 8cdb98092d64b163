"""The rule that the matrix is held against, and the judge that holds it: both must be able to say no."""

from __future__ import annotations

import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.lab.standin.platform import load_platform
from tests.e2e.matrix import faults, points
from tests.e2e.matrix.cells import (
    ADD_STARTS,
    ALL_CELLS,
    CI_CELLS,
    MEMBER_STARTS,
    PUSH_STARTS,
    SSH_STARTS,
    Cell,
    named,
)
from tests.e2e.matrix.finding import Box, Configurations, Ending, Finding, NextRun, Recovery
from tests.e2e.matrix.judge import complaints
from tests.e2e.matrix.leaks import leaks
from tests.e2e.matrix.points import ALL, ALL_POINTS, MARK, NEITHER, WINDOW
from tests.e2e.matrix.report import Result, endings
from tests.e2e.matrix.rules import Reach, expected, reach
from tests.some import some

BEFORE = Configurations(
    running=("hostname r", "ip tcp window-size 8000", "end"), startup=("hostname r", "ip tcp window-size 8000", "end")
)
PROVEN: dict[str, Any] = {
    "foreign": [],
    "running_difference": {"added": [], "gone": 0, "reordered": False},
    "startup_changed": False,
}
NOTHING_TO_DO = Recovery(ending=Ending.DONE)


def cell_with_old_window(point: str, fault: str) -> Cell:
    cell = named(f"{point} x {fault}")
    assert "ip tcp window-size 8000" in cell.start.config_lines
    return cell


def recovery(restored: str = "restored", **restore: Any) -> Recovery:
    return Recovery(
        ending=Ending.DONE, records=({"restored": restored, "restore": PROVEN | restore, "partial_file": None},)
    )


def restored_after_a_kill(**other: Any) -> Finding:
    finding = Finding(
        ending=Ending.KILLED,
        said="",
        record=None,
        recoveries=(recovery(), NOTHING_TO_DO),
        before=BEFORE,
        after=BEFORE,
        box=Box(),
        still_held=0,
        tickets=1,
        leaks=(),
        seconds=1.0,
    )
    return replace(finding, **other)


def done(**other: Any) -> Finding:
    record = {"outcome": "done", "restored": "restored", "failure": None, "restore": PROVEN, "partial_file": None}
    record["reconciled"] = [{"decision": "there, and right"}]
    return restored_after_a_kill(
        ending=Ending.DONE, record=record, recoveries=(NOTHING_TO_DO,), **({"box": Box(image_is_right=True)} | other)
    )


def test_the_matrix_is_whole():
    """Each kill point meets each fault that has its step, once; soak plays sixty or more, of each row and column."""
    met = [point for fault in faults.FAULTS for point in points.ALL_POINTS if point.needs in fault.has]
    assert len({cell.name for cell in ALL_CELLS}) == len(ALL_CELLS) == len(met)
    rows = sum(not point.needs for point in points.ALL_POINTS)
    assert len(met) > rows * len(faults.FAULTS)
    assert len({cell.name for cell in CI_CELLS}) == len(CI_CELLS) >= 60
    assert {cell.point.name for cell in CI_CELLS} == set(points.BY_NAME)
    assert {cell.fault.name for cell in CI_CELLS} == set(faults.BY_NAME)
    assert all(named(cell.name) == cell for cell in CI_CELLS)


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: fault.name)
def test_a_fault_names_points_that_exist(fault: faults.Fault):
    """A misspelt point would silently be expected to be reached."""
    assert fault.never | fault.perhaps <= set(points.BY_NAME)
    assert not fault.never & fault.perhaps


def test_our_lines_are_in_force_only_while_the_journal_holds_the_device():
    """Journal first, and the lease outlives the last of our lines."""
    assert all(point.leased for point in some(point for point in ALL_POINTS if point.ours))


@pytest.mark.parametrize(
    ("point", "fault", "wanted"),
    [
        ("none", "none", Reach.NO),
        ("tune.done", "none", Reach.YES),
        ("verify.started", "refused line", Reach.NO),
        ("pull.quarter", "stall", Reach.NO),
        ("pull.quarter", "SSH lost", Reach.YES),
        ("pull.most", "SSH lost", Reach.PERHAPS),
        ("restore.done", "undo refused", Reach.NO),
    ],
)
def test_reach(point: str, fault: str, wanted: Reach):
    """A run does not come to what lies behind the step where its fault ends it."""
    assert reach(points.BY_NAME[point], faults.BY_NAME[fault]) is wanted


@pytest.mark.parametrize(
    ("point", "saved", "is_named"),
    [
        ("snapshot.done", NEITHER, False),
        ("entry.kept", NEITHER, False),
        ("tune.between", frozenset({MARK, WINDOW}), True),
        ("tune.done", ALL, True),
        ("restore.done", ALL, True),
        ("record.kept", ALL, True),
        ("none", ALL, True),
    ],
)
def test_what_a_colleague_saves(point: str, saved: frozenset[str], is_named: bool):
    """He saves what is in force then: nothing of ours before we tune, and from then on it must be named."""
    wanted = expected(points.BY_NAME[point], faults.BY_NAME["foreign save"])
    assert (wanted.saved, wanted.named) == (saved, is_named)


@pytest.mark.parametrize(("point", "is_named"), [("check.done", False), ("entry.kept", True), ("lease.ended", True)])
def test_whose_change_is_named(point: str, is_named: bool):
    """What a colleague does before we have the router in our hands is none of our business."""
    assert expected(points.BY_NAME[point], faults.BY_NAME["foreign value"]).named is is_named


@pytest.mark.parametrize(
    ("point", "fault", "is_stuck"),
    [
        ("tune.between", "undo refused", False),
        ("tune.done", "undo refused", True),
        ("restore.leaving", "undo refused", True),
        ("restore.last", "undo refused", True),
        ("record.kept", "undo refused", True),
        ("none", "undo refused", True),
        ("tune.mode", "locked", True),
        ("entry.kept", "locked", False),
        ("tune.started", "locked", False),
        ("tune.between", "locked", True),
        ("none", "locked", True),
    ],
)
def test_a_refused_undo_must_be_told(point: str, fault: str, is_stuck: bool):
    """As soon as a line or our mark is there that cannot be taken back, the first recovery must say so."""
    wanted = expected(points.BY_NAME[point], faults.BY_NAME[fault])
    assert (wanted.first_is_incomplete, wanted.pending) == (is_stuck, True)


def test_the_judge_is_content_with_what_is_right():
    """A run killed and recovered, one that ended well, and one with a colleague's value kept."""
    assert complaints(cell_with_old_window("tune.done", "none"), restored_after_a_kill()) == []
    assert complaints(cell_with_old_window("none", "SSH lost"), done()) == []
    cell = cell_with_old_window("tune.mode", "foreign value")
    foreign = {"present": faults.COLLEAGUES_WINDOW}
    after = replace(BEFORE, running=("hostname r", faults.COLLEAGUES_WINDOW, "end"))
    first = recovery("incomplete", foreign=[foreign])
    told = replace(recovery("restored but for somebody else's change", foreign=[foreign]), is_accepted=True)
    assert complaints(cell, restored_after_a_kill(after=after, recoveries=(first, told, NOTHING_TO_DO))) == []
    forgotten = restored_after_a_kill(after=after, recoveries=(replace(told, is_accepted=False), NOTHING_TO_DO))
    assert any("to be accepted" in one for one in complaints(cell, forgotten))
    assert any("kept until it is accepted" in one for one in complaints(cell, forgotten))


SSH_BEFORE = Configurations(running=("hostname r", "end"), startup=("hostname r", "end"))


def test_copies_by_ssh_meet_every_kind_of_window_line() -> None:
    """A line of the stock configuration, one of the older command, another value, all over the column."""
    for fault in (faults.BY_NAME["by SCP"], faults.BY_NAME["by SFTP"]):
        met = {Cell(point=point, fault=fault).start for point in ALL_POINTS}
        assert met == set(SSH_STARTS)
    stock = load_platform(SSH_STARTS[0].platform)
    assert stock.configuration(serial="", address="").find("ip ssh bulk-mode") is not None


@pytest.mark.parametrize(
    ("change", "went_by", "complaint"),
    [
        ("ssh bulk-mode", "scp", ""),
        ("window-size", "scp", "the column: expected a line of the SSH channel's window among ours"),
        ("ssh bulk-mode", "ftp", "the column: expected a copy by scp, found one by ftp"),
    ],
)
def test_a_column_counts_only_where_its_transport_was_taken(change: str, went_by: str, complaint: str) -> None:
    """A copy that fell to another transport, or a window that needed no line, proves nothing about this one."""
    finished = done()
    assert finished.record is not None
    record = finished.record | {"changes": [{"keyword": change}], "transfer": {"transport": went_by}}
    found = replace(finished, record=record, before=SSH_BEFORE, after=SSH_BEFORE)
    said = complaints(named("none x by SCP"), found)
    assert [one.partition(", found [")[0] for one in said] == ([complaint] if complaint else [])


@pytest.mark.parametrize(
    ("is_on", "changes", "words"),
    [
        (False, ("ssh bulk-mode", "scp server"), ""),
        (False, ("ssh bulk-mode",), "expected 'ip scp server enable' among our lines"),
        (True, ("ssh bulk-mode",), ""),
        (True, ("ssh bulk-mode", "scp server"), "expected 'ip scp server enable' not among our lines"),
    ],
)
def test_a_push_switches_the_server_on_where_it_is_off_and_nowhere_else(
    is_on: bool, changes: tuple[str, ...], words: str
) -> None:
    """Both kinds of routers are in the column, and a push needs no ticket to search for."""
    cells = [cell for cell in ALL_CELLS if cell.fault.transport == faults.PUSH]
    assert {cell.start for cell in cells} == set(PUSH_STARTS)
    cell = next(cell for cell in cells if (faults.SCP_SERVER in cell.start.config_lines) == is_on)
    finished = done(tickets=0)
    assert finished.record is not None
    record = finished.record | {"changes": [{"keyword": one} for one in changes], "transfer": {"transport": "push"}}
    said = complaints(cell, replace(finished, record=record, before=SSH_BEFORE, after=SSH_BEFORE))
    told = [one for one in said if one.startswith("the column: ")]
    assert [words in one for one in told] == ([True] if words else [])
    assert not any("ticket" in one for one in said)


LEFT = replace(BEFORE, running=("hostname r", "ip tcp window-size 20000", "end"))
SAVED = replace(BEFORE, startup=("hostname r", "ip tcp window-size 20000", "end"))
SWAPPED = replace(BEFORE, running=("ip tcp window-size 8000", "hostname r", "end"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (restored_after_a_kill(after=LEFT), "running configuration: missing 'ip tcp window-size 8000'; added"),
        (restored_after_a_kill(after=SAVED), "startup configuration: missing 'ip tcp window-size 8000'; added"),
        (restored_after_a_kill(after=SWAPPED), "running configuration: the same lines in another order"),
        (restored_after_a_kill(recoveries=(NOTHING_TO_DO,)), "expected the device to recover"),
        (restored_after_a_kill(recoveries=(recovery(), recovery())), "expected one with nothing to do in the end"),
        (restored_after_a_kill(recoveries=(recovery("incomplete"), NOTHING_TO_DO)), "expected 'restored' in the end"),
        (
            restored_after_a_kill(recoveries=(recovery("incomplete"), recovery(), NOTHING_TO_DO)),
            "expected the first one to restore",
        ),
        (restored_after_a_kill(box=Box(image_is_right=False)), "the file on flash: expected to be named"),
        (restored_after_a_kill(still_held=1), "still holds 1 devices"),
        (restored_after_a_kill(leaks=("stage/stderr",)), "secret in stage/stderr"),
        (restored_after_a_kill(ending=Ending.CRASHED), "expected it to be killed, found it crashed"),
        (restored_after_a_kill(recoveries=(recovery(startup_changed=True), NOTHING_TO_DO)), "the colleague's save"),
        (done(), "expected it to be killed, found it done"),
    ],
)
def test_the_judge_complains(found: Finding, words: str):
    """Each deviation alone is found, and told."""
    assert words in "; ".join(complaints(cell_with_old_window("tune.done", "none"), found))


@pytest.mark.parametrize("image_is_right", [None, False])
def test_a_false_success_is_found(image_is_right: bool | None):
    """Done means that the image is on flash with the right hash, by the lab's own eyes."""
    found = replace(done(), box=Box(image_is_right=image_is_right))
    assert "FALSE SUCCESS" in "; ".join(complaints(cell_with_old_window("none", "SSH lost"), found))


@pytest.mark.parametrize(
    ("cell", "found", "words"),
    [
        ("tune.done x second kill", restored_after_a_kill(), "expected the first one to be killed, found it done"),
        ("none x SSH lost", replace(done(), record={**(done().record or {}), "reconciled": []}), "lost session"),
        ("none x copy goes on", replace(done(), record={**(done().record or {}), "reconciled": []}), "lost session"),
        ("none x SSH lost", done(tickets=0), "expected a ticket to search for"),
    ],
)
def test_a_cell_in_which_nothing_went_wrong_does_not_count(cell: str, found: Finding, words: str):
    """A fault that did not come about, and a search for nothing, would prove nothing."""
    assert words in "; ".join(complaints(named(cell), found))


def test_a_change_that_nobody_named_is_found():
    """A colleague's line that stays, and that no report tells of."""
    cell = cell_with_old_window("tune.leaving", "foreign line")
    after = replace(BEFORE, running=(*BEFORE.running, faults.COLLEAGUES_LINE))
    said = "; ".join(complaints(cell, restored_after_a_kill(after=after)))
    assert "the colleague's line: expected to be named" in said


def test_secrets_are_searched_for_everywhere_but_where_they_belong(tmp_path: Path):
    """The inventory holds them by right; anything else does not, however deep it lies."""
    (tmp_path / "state").mkdir()
    (tmp_path / "hosts.yaml").write_text("password: Hidden1")
    (tmp_path / "state" / "journal").write_bytes(b"\x00Hidden1\x00")
    (tmp_path / "stdout").write_text("nothing")
    assert leaks(tmp_path, ["Hidden1", "Hidden2"]) == ("state/journal",)


def test_a_secret_cut_by_a_page_of_the_database_is_found(tmp_path: Path):
    """A long row runs over several pages of the file, so its bytes alone would hide what lies across an edge."""
    secret = "Hidden-and-longer-than-most"
    with closing(sqlite3.connect(tmp_path / "journal")) as database:
        database.execute("CREATE TABLE records (text TEXT)")
        database.executemany("INSERT INTO records VALUES (?)", [("x" * 6000 + secret * 200,), ("y",)])
        database.commit()
    assert leaks(tmp_path, [secret * 200]) == ("journal",)


def test_a_secret_that_was_compressed_is_found(tmp_path: Path):
    """Transfers lie compressed in the journal, where no search of its bytes would see it."""
    with closing(sqlite3.connect(tmp_path / "journal")) as database:
        database.execute("CREATE TABLE transfers (record BLOB)")
        database.execute("INSERT INTO transfers VALUES (?)", (zlib.compress(b"PASS Hidden1 " * 9),))
        database.commit()
    assert b"Hidden1" not in (tmp_path / "journal").read_bytes()
    assert leaks(tmp_path, ["Hidden1"]) == ("journal",)


def test_a_router_that_needs_somebody_behind_its_applet_is_a_fault():
    """Equal to the start by its own doing means: before any recovery, in both configurations."""
    cell = named("pull.quarter x applet fires")
    left = replace(BEFORE, running=("hostname r", "ip tcp window-size 20000", "end"))
    saved = replace(BEFORE, startup=("hostname r", "ip tcp window-size 20000", "end"))
    assert complaints(cell, restored_after_a_kill(alone=BEFORE)) == []
    for other in (left, saved):
        assert any("own doing" in one for one in complaints(cell, restored_after_a_kill(alone=other)))


def test_where_the_applet_is_gone_or_counts_not_yet_the_mark_may_stay():
    """The mark goes last, behind the applet: what is left there is for `recover`."""
    marked = replace(BEFORE, running=(*BEFORE.running, "alias exec flashferry-r1 ops@here"))
    cell = named("restore.mark x applet fires")
    assert complaints(cell, restored_after_a_kill(alone=marked)) == []


@pytest.mark.parametrize(("fault", "is_armed"), [("dead-man", False), ("applet fires", False), ("no EEM", True)])
def test_a_column_counts_only_where_its_applet_was_as_it_says(fault, is_armed):
    """A run that armed none proves nothing of one, and the other way round."""
    found = done()
    for armed, is_wrong in ((is_armed, True), (not is_armed, False)):
        record = found.record | {"dead_man": {"is_armed": armed}}
        told = complaints(named(f"none x {fault}"), replace(found, record=record))
        assert any("the column" in one and "applet" in one for one in told) is is_wrong


def test_only_a_run_with_an_applet_passes_the_points_of_one():
    """In the other columns such a run is not killed."""
    for point in some(point for point in points.POINTS if point.needs == points.APPLET):
        assert reach(point, faults.BY_NAME["dead-man"]) is Reach.YES
        assert reach(point, faults.BY_NAME["none"]) is Reach.NO


WHOLE = Box(image_is_right=True, members_are_right=(True, True), is_added=True)
PATHS = ("flash-2:image", "flash-3:image")


def ended(
    verdict: str = "yes", *, box: Box = WHOLE, failure: dict[str, str] | None = None, after: Box = WHOLE, **other: Any
) -> Finding:
    """Return a run with something behind its restore, and a next run that finished it."""
    finished = done()
    assert finished.record is not None
    more = {
        "readiness": {"verdict": verdict},
        "distribution": {"copies": [{"path": path} for path in PATHS]},
        "added": {"outcome": "added"},
        "verify": {"digest": "0"},
    }
    record = finished.record | more | {"failure": failure, "outcome": "failed" if failure else "done"}
    again = finished.record | more | {"outcome": "already there", "readiness": {"verdict": "yes"}}
    run = NextRun(ending=Ending.DONE, record=again, after=BEFORE, box=after)
    return replace(finished, record=record, box=box, **({"next_run": run} | other))


LEFT_AT = {"step": "distribute", "reason": "'copy flash:image flash-2:image': I/O error", "hint": "Look at it"}
NO_ROOM = {"step": "add", "reason": "requires 585 KB of free space", "hint": "make room"}
GONE = Box(image_is_right=None)
NOT_ADDED = replace(WHOLE, is_added=False)
CRASHED = NextRun(ending=Ending.CRASHED, after=BEFORE, box=WHOLE)
ONE_LACKS_IT = replace(WHOLE, members_are_right=(True, None))


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("members", ended()),
        ("member leaves", ended("no", box=ONE_LACKS_IT, failure=LEFT_AT, left=1)),
        ("add", ended()),
        ("no room to add", ended("no", box=NOT_ADDED, failure=NO_ROOM)),
        ("removed in copy", ended("no", box=GONE, failure={"step": "verify", "reason": "no such file", "hint": ""})),
        ("removed before add", ended("no", box=GONE, failure={"step": "add", "reason": "not found", "hint": ""})),
        ("removed after add", ended("no", box=GONE)),
    ],
)
def test_the_judge_is_content_with_what_follows_the_restore(fault: str, found: Finding):
    """Handed on or added, failed where it must, and finished by the next run."""
    assert complaints(named(f"none x {fault}"), found) == []


@pytest.mark.parametrize(
    ("fault", "found", "words"),
    [
        ("members", ended(box=ONE_LACKS_IT), "FALSE READY"),
        ("members", ended("no"), "expected 'yes' and the image all over the box"),
        ("members", ended(box=replace(WHOLE, members_are_right=(True,))), "expected 1 copies inside the box, found 2"),
        ("member leaves", ended("no", failure=LEFT_AT), "expected a member to leave, none did"),
        ("member leaves", ended("no", failure=LEFT_AT | {"reason": "?"}, left=1), "the member that left"),
        ("add", ended(box=NOT_ADDED), "FALSE READY"),
        ("no room to add", ended("no", failure=NO_ROOM), "expected want of room and nothing added"),
        ("no room to add", ended("no", box=NOT_ADDED, failure=NO_ROOM | {"reason": "busy"}), "expected want of room"),
        ("removed in copy", ended("no"), "expected the image to be removed, it is there"),
        ("removed before add", ended("no"), "expected the image to be removed, it is there"),
        ("removed after add", ended("no"), "expected the image to be removed, it is there"),
        ("removed after add", ended(box=GONE), "FALSE READY"),
        ("removed after add", ended("unknown", box=GONE), "expected 'no' behind the removal"),
        ("add", ended(next_run=None), "next run: expected one"),
        ("add", ended(after=NOT_ADDED), "next run: expected 'yes' and the image all over the box"),
        (
            "add",
            ended(next_run=NextRun(ending=Ending.CRASHED, after=BEFORE, box=WHOLE)),
            "next run: expected it to end",
        ),
        ("add", ended(next_run=replace(ended().next_run, after=LEFT)), "both configurations as they were"),
    ],
)
def test_the_judge_says_no_behind_the_restore(fault: str, found: Finding, words: str):
    """A false word about the box, a fault that did not come about, and a next run that does not finish."""
    assert words in "; ".join(complaints(named(f"none x {fault}"), found))


@pytest.mark.parametrize(
    ("point", "fault", "fails_at", "removed"),
    [
        ("none", "member leaves", "distribute", False),
        ("lease.ended", "member leaves", None, False),
        ("record.kept", "member leaves", "distribute", False),
        ("none", "removed before add", "add", False),
        ("add.before", "removed before add", None, True),
        ("record.kept", "removed before add", "add", False),
        ("lease.ended", "removed in copy", "verify", False),
        ("none", "removed after add", None, True),
    ],
)
def test_a_failure_behind_the_restore_is_told_by_the_last_record_alone(
    point: str, fault: str, fails_at: str | None, removed: bool
):
    """The one that the end of the lease writes is that of a device that has the image."""
    wanted = expected(points.BY_NAME[point], faults.BY_NAME[fault])
    assert (wanted.fails_at, wanted.removed) == (fails_at, removed)


def test_a_next_run_that_fails_is_found():
    """It must finish what the first left."""
    run = ended().next_run
    assert run is not None
    assert run.record is not None
    failed = replace(run, record=run.record | {"outcome": "failed", "failure": {"step": "add", "reason": "?"}})
    killed = restored_after_a_kill(recoveries=(NOTHING_TO_DO,), next_run=failed)
    assert any("expected it to finish" in one for one in complaints(named("add.going x add"), killed))


def test_members_and_packages_meet_every_kind_of_box():
    """Stack and two processors in the one columns, routers and a stack in the others."""
    for cell in some(cell for cell in ALL_CELLS if cell.fault.goes_on):
        assert cell.start in (ADD_STARTS if cell.fault.adds else MEMBER_STARTS)
    for fault in some(fault for fault in faults.FAULTS if fault.goes_on):
        met = {cell.start for cell in ALL_CELLS if cell.fault is fault}
        assert met == set(ADD_STARTS if fault.adds else MEMBER_STARTS)


@pytest.mark.parametrize("fault", [fault for fault in faults.FAULTS if fault.strikes], ids=lambda fault: fault.name)
def test_a_fault_strikes_at_a_point_that_a_run_tells(fault: faults.Fault):
    """At an event, or by what is on flash: else it would silently never strike."""
    trigger = points.BY_NAME[fault.strikes_at].trigger
    assert isinstance(trigger, points.AtEvent) or fault.strikes_on_flash is not None


def test_the_page_counts_every_cell_of_a_fault_by_how_it_ended():
    """Most frequent first; the cells of another fault, whose name ends alike, are not counted."""
    ended = {"a x lost": "R", "b x lost": "U", "c x lost": "R", "a x SSH lost": "D"}
    results = {name: Result(letter=letter, seconds=1.0, complaints=()) for name, letter in ended.items()}
    assert endings(results, (("lost", "the session is cut"), ("SSH lost", "the same"))) == [
        "| fault | what goes wrong | cells by how they ended |",
        "|---|---|---|",
        "| lost | the session is cut | R 2, U 1 |",
        "| SSH lost | the same | D 1 |",
    ]
