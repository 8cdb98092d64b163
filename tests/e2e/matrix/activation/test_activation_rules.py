"""The rule of the activation's matrix, and its judge: both must be able to say no."""

from __future__ import annotations

from typing import Any

import pytest

from flashferry.core.values import replace
from flashferry.model.activation import ActivationOutcome, Phase
from tests.e2e.matrix.activation import faults, points
from tests.e2e.matrix.activation.cells import ALL_CELLS, CI_CELLS, NEW_LINE, OLD_LINE, STARTS, named
from tests.e2e.matrix.activation.faults import COLLEAGUES_LINE, PORT
from tests.e2e.matrix.activation.finding import Finding, Truth
from tests.e2e.matrix.activation.judge import complaints, letter
from tests.e2e.matrix.activation.points import AtPhase, Mode
from tests.e2e.matrix.activation.rules import expected
from tests.e2e.matrix.finding import Configurations, Ending, Recovery

INSTALL, BUNDLE = STARTS[Mode.INSTALL], STARTS[Mode.BUNDLE]
LINES = ("hostname r", OLD_LINE, "end")
CONFIGURATIONS = Configurations(running=LINES, startup=LINES)
ADDED = Truth(
    configurations=CONFIGURATIONS, runs=INSTALL.old, packages={INSTALL.old: "C", INSTALL.new: "I"}, happened=()
)
RESTARTED = ("given: install activate auto-abort-timer 30 prompt-level none", "restart: Image Install")
BOOTED = f"boot: {INSTALL.new}"
NOTHING_TO_DO = Recovery(ending=Ending.DONE)


def told(outcome: str, release: str, restored: str, *, commands: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {
        "outcome": "done",
        "failure": None,
        "restored": restored,
        "activation": {"outcome": outcome, "to_release": release, "commands": list(commands)},
    } | more


def committed(**other: Any) -> Finding:
    """Return an activation that nothing happened to."""
    after = Truth(
        configurations=CONFIGURATIONS,
        runs=INSTALL.new,
        packages={INSTALL.old: "I", INSTALL.new: "C"},
        happened=(*RESTARTED, BOOTED, "given: install commit"),
    )
    finding = Finding(
        ending=Ending.DONE,
        said="",
        record=told("committed", INSTALL.new_release, "untouched", commands=("install activate", "install commit")),
        recoveries=(NOTHING_TO_DO,),
        statuses=(False, False),
        before=ADDED,
        ended=after,
        alone=None,
        after=after,
        seen={
            "show version": f"Version {INSTALL.new_release}, RELEASE",
            "show install summary": f"IMG   C    {INSTALL.new}\nAuto abort timer: inactive",
        },
        still_held=0,
        leaks=(),
        seconds=1.0,
    )
    return replace(finding, **other)


def recovered(**other: Any) -> Finding:
    """Return one whose run was killed while the device settled."""
    record = told("committed", INSTALL.new_release, "untouched", commands=("install commit",))
    fresh = committed()
    finding = replace(
        fresh,
        ending=Ending.KILLED,
        record=None,
        recoveries=(Recovery(ending=Ending.DONE, records=(record,)), NOTHING_TO_DO),
        statuses=(True, False, False),
        ended=replace(fresh.after, happened=(*RESTARTED, BOOTED)),
    )
    return replace(finding, **other)


def truth(**other: Any) -> Truth:
    return replace(committed().after, **other)


def test_the_matrix_is_whole():
    """Every phase that the journal knows is a row, each mode has its own, and cells have names of their own."""
    phases = {
        mode: {point.trigger.phase for point in rows if isinstance(point.trigger, AtPhase)}
        for mode, rows in points.POINTS.items()
    }
    assert phases[Mode.INSTALL] | phases[Mode.BUNDLE] == set(Phase)
    assert len({cell.name for cell in ALL_CELLS}) == len(ALL_CELLS) > 140
    assert all(named(cell.name) == cell for cell in ALL_CELLS)
    assert {cell.name for cell in CI_CELLS} <= {cell.name for cell in ALL_CELLS}
    for mode in Mode:
        met = {cell.point.name for cell in ALL_CELLS if cell.mode is mode}
        assert met == set(points.BY_NAME[mode])


@pytest.mark.parametrize("fault", [one for each in faults.FAULTS.values() for one in each], ids=lambda one: one.name)
def test_a_column_names_rows_that_exist(fault: faults.Fault):
    """A misspelt point would silently be played, and its strike never come."""
    assert fault.never <= {name for each in points.BY_NAME.values() for name in each}
    assert fault.strikes_at in points.BY_NAME[fault.mode]
    assert (fault.must_tell is None) is (fault.name in {"none", "second kill"})


@pytest.mark.parametrize(
    ("cell", "outcomes"),
    [
        ("install, none x none", {"committed"}),
        ("install, activating.kept x none", {"not activated"}),
        ("install, activating.sent x none", {"not activated", "committed"}),
        ("install, none x port down", {"rolled back"}),
        ("install, away x port down", {"rolled back", "came back with the old image"}),
        ("install, settling x left alone", {"came back with the old image"}),
        ("bundle, reloading.asked x none", {"not activated"}),
        ("bundle, away x port down", {"activated, something is lacking"}),
    ],
)
def test_the_rule(cell: str, outcomes: set[str]):
    """Not restarted ends as it was; restarted ends as its column says."""
    assert expected(named(cell).point, named(cell).fault).outcomes == {ActivationOutcome(one) for one in outcomes}


def test_the_judge_is_content_with_what_is_right():
    """One that ended well, and one that `recover` brought to its end."""
    assert complaints(named("install, none x none"), committed()) == []
    assert complaints(named("install, settling x none"), recovered()) == []
    assert letter(named("install, settling x none"), recovered()) == "CR"


STILL_OLD = truth(runs=INSTALL.old, packages=ADDED.packages)
NOT_KEPT = truth(packages={INSTALL.old: "D", INSTALL.new: "U"})
DOWN = truth(happened=(*RESTARTED, BOOTED, "restart: power-on"))
NO_PORT = truth(happened=(*RESTARTED, BOOTED, f"port down: {PORT}"))
TWICE = truth(happened=(*RESTARTED, BOOTED, *RESTARTED, BOOTED))
BY_NOBODY = truth(happened=("restart: Image Install", BOOTED))
OTHER_LINES = truth(configurations=Configurations(running=LINES, startup=(*LINES, "ip http server")))
A_LINE = truth(configurations=Configurations(running=(COLLEAGUES_LINE, *LINES), startup=LINES))
GONE_LINE = truth(happened=(*RESTARTED, BOOTED, f"typed by another: {COLLEAGUES_LINE}"))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (committed(after=STILL_OLD), "FALSE SUCCESS"),
        (committed(after=NOT_KEPT), "expected one image or the other for good"),
        (committed(after=DOWN), "FALSE SUCCESS"),
        (committed(after=NO_PORT), f"and {PORT} is down"),
        (committed(after=TWICE), "RESTARTED AGAIN"),
        (committed(after=BY_NOBODY), "RESTARTED AGAIN: expected 0 restarts by us"),
        (committed(after=OTHER_LINES), "startup configuration: expected it as it was"),
        (committed(after=A_LINE), "expected the colleague's line to be gone"),
        (committed(after=GONE_LINE), "expected the colleague's line to stay"),
        (committed(seen={}), "a colleague: expected to see 17.18.2"),
        (committed(still_held=1), "journal: still holds 1"),
        (committed(statuses=(True, False)), "status: expected"),
        (committed(leaks=("state/journal",)), "secret in state/journal"),
        (committed(record=None), "expected one of a run that ended"),
        (committed(ending=Ending.KILLED), "run: expected it done"),
        (committed(record=told("not activated", INSTALL.old_release, "restored")), "FALSE WORD: told 'not activated'"),
        (committed(record=told("committed", INSTALL.old_release, "untouched")), "expected release 17.18.2"),
        (committed(record=told("committed", INSTALL.new_release, "untouched")), "expected 1 commands that restart"),
        (committed(record=committed().record | {"activation": None}), "FALSE WORD: 'untouched'"),
        (committed(record=committed().record | {"outcome": "failed"}), "record: outcome 'failed'"),
    ],
)
def test_the_judge_says_no(found: Finding, words: str):
    """Whatever is told, the lab's own eyes count."""
    assert words in "; ".join(complaints(named("install, none x none"), found))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (recovered(after=TWICE), "RESTARTED AGAIN: expected no such command behind the run"),
        (recovered(recoveries=(NOTHING_TO_DO,), statuses=(False, False)), "expected the device to recover"),
        (recovered(recoveries=recovered().recoveries[:1]), "expected one with nothing to do in the end"),
        (recovered(recoveries=(Recovery(ending=Ending.CRASHED),)), "recover: crashed"),
    ],
)
def test_the_judge_says_no_behind_a_kill(found: Finding, words: str):
    """A restart that `recover` asked for, and a device that is forgotten or never let go of."""
    assert words in "; ".join(complaints(named("install, settling x none"), found))


@pytest.mark.parametrize(
    "fault", [one.name for one in faults.INSTALL_FAULTS if one.must_tell and "none" not in one.never]
)
def test_a_column_whose_fault_did_not_come_about_does_not_count(fault: str):
    """An activation that went well proves nothing of what should have gone wrong."""
    said = "; ".join(complaints(named(f"install, none x {fault}"), committed()))
    assert "the fault: expected it to come about" in said


def test_a_device_that_was_not_left_alone_does_not_count_as_such():
    """By its own doing means: as it was before anybody recovers, and nothing behind it."""
    cell = named("install, settling x left alone")
    back = truth(
        runs=INSTALL.old,
        packages=ADDED.packages,
        happened=(*RESTARTED, BOOTED, "timer: ran out", "restart: Image Install", f"boot: {INSTALL.old}"),
    )
    record = told("came back with the old image", INSTALL.old_release, "restored")
    seen = {
        "show version": f"Version {INSTALL.old_release}, RELEASE",
        "show install summary": f"IMG   C    {INSTALL.old}\nAuto abort timer: inactive",
    }
    found = replace(
        recovered(alone=back, after=back, seen=seen),
        recoveries=(Recovery(ending=Ending.DONE, records=(record,)), NOTHING_TO_DO),
    )
    assert complaints(cell, found) == []
    tuned = replace(back, configurations=replace(CONFIGURATIONS, running=("hostname r", "end")))
    assert any("own doing" in one for one in complaints(cell, replace(found, alone=tuned)))
    more = replace(back, happened=(*back.happened, "given: install commit"))
    assert any("nothing behind it" in one for one in complaints(cell, replace(found, after=more)))


def test_a_boot_order_belongs_in_front_only_where_the_new_image_runs():
    """Bundle mode: exactly one line more, and none where the old image runs."""
    cell = named("bundle, none x none")
    new = (LINES[0], NEW_LINE, *LINES[1:])
    happened = ("given: write memory", "given: reload", "restart: Reload Command", f"boot: {BUNDLE.new}")
    after = Truth(
        configurations=Configurations(running=new, startup=new), runs=BUNDLE.new, packages={}, happened=happened
    )
    found = committed(
        before=replace(ADDED, runs=BUNDLE.old, packages={}),
        ended=after,
        after=after,
        seen={"show version": f"Version {BUNDLE.new_release}, RELEASE"},
        record=told("activated", BUNDLE.new_release, "untouched", commands=("write memory", "reload")),
    )
    assert complaints(cell, found) == []
    behind = (LINES[0], OLD_LINE, NEW_LINE, "end")
    for lines in (LINES, behind):
        other = replace(after, configurations=Configurations(running=new, startup=lines))
        assert any("with the new order" in one for one in complaints(cell, replace(found, after=other)))
    kept = replace(after, runs=BUNDLE.old)
    assert any(
        "startup configuration: expected it as it was" in one for one in complaints(cell, replace(found, after=kept))
    )
